"""The option that says how large a mailbox is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from kernel.operations.mailboxes import Mailbox, read_mailbox


def read_sizes(words: Sequence[str] | None) -> Mailbox | None:
    """The mailbox in options NAME=VALUE. Raises BadParameter."""
    if not words:
        return None
    said: dict[str, Any] = {}
    try:
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or name in said:
                raise ValueError(f"{word[:80]!r} is not NAME=VALUE, or {name[:40]} is given twice")
            said[name] = int(value) if value.isascii() and value.isdigit() else value
        return read_mailbox(said)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--mailbox'") from None
