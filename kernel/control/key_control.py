"""What people may ask of the node's keys: to be changed. The command is recorded with who typed it, then done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from chain.errors import KeyFileError
from kernel.errors import Invalid, Unavailable
from kernel.state.recorder import ledger_errors
from kernel.values import clean

MAX_REASON_CHARS = 200

Rotate = Callable[[str], Awaitable[dict[str, Any]]]
Command = Callable[..., tuple[int, bytes]]


async def no_rotation(reason: str) -> dict[str, Any]:
    """For a node that keeps its keys."""
    raise Unavailable("the keys of this node cannot be changed")


class KeyControl:
    """The part of the control facade that is about keys. ``rotate(reason)`` changes them and says the new ones."""

    def __init__(self, command: Command, rotate: Rotate) -> None:
        self._command = command
        self._rotate = rotate

    async def rotate(self, op: Mapping[str, object], reason: str) -> dict[str, Any]:
        """origin, number, ed25519, ml_dsa_65, seq. Raises Invalid, Unavailable."""
        reason = clean(reason).strip()
        if not 0 < len(reason) <= MAX_REASON_CHARS or not reason.isprintable():
            raise Invalid(f"a reason is one line of 1 to {MAX_REASON_CHARS} characters")
        self._command(op, "rotate", reason=reason)
        with ledger_errors():
            try:
                return await self._rotate(reason)
            except (KeyFileError, OSError) as error:
                raise Unavailable(f"the keys cannot be changed: {error}") from error
