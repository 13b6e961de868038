"""Commands of the command line in this process, for tests that are about what a node does with them.

An interpreter for each takes longer than what the command does; test_command_line.py starts one for each.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from weftos.cli import main


def command(environment: Mapping[str, str], *words: str) -> tuple[int, str, str]:
    """Exit status, stdout, stderr. Not for ``up``: the node would be a child of this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    status: object = 0
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "argv", ["weftos", *words]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    assert isinstance(status, int)
    return status, _text(out), _text(err)


def _text(file: io.TextIOWrapper) -> str:
    file.seek(0)
    return file.read()
