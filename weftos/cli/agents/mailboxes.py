"""The option that says how large a mailbox is."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from kernel.operations.mailboxes import Mailbox, read_mailbox
from weftos.cli.terminal.named_values import named_values


def read_sizes(words: Sequence[str] | None) -> Mailbox | None:
    """The mailbox in options NAME=VALUE. Raises BadParameter."""
    if not words:
        return None
    try:
        return read_mailbox(named_values(words, "NAME=VALUE", _read))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--mailbox'") from None


def _read(name: str, value: str) -> int | str:
    return int(value) if value.isascii() and value.isdigit() else value
