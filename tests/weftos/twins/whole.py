"""The command tree, built once: typer builds it anew for every command line, which takes longer than most commands."""

from __future__ import annotations

from typer.main import get_command

from weftos.cli.app import app

WHOLE = get_command(app)
