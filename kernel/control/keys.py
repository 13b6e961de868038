"""What people may ask of the node's keys: to be changed. The command is recorded with who typed it, then done."""

from __future__ import annotations

from chain.errors import KeyFileError
from kernel.control.asked import Asked
from kernel.control.facts import RotateKeys
from kernel.errors import Invalid, Unavailable
from kernel.operations.keys import Keys, Rotate, Rotated
from kernel.operations.operation import Handler
from kernel.state.recorder import ledger_errors
from kernel.values import clean

MAX_REASON_CHARS = 200


class KeyControl:
    """``rotate(reason)`` changes the keys and says the new ones."""

    def __init__(self, rotate: RotateKeys) -> None:
        self._rotate = rotate

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Keys.rotate.by(self.rotate),)

    async def rotate(self, asked: Asked, request: Rotate) -> Rotated:
        """Raises Invalid, Unavailable."""
        reason = clean(request.reason).strip()
        if not 0 < len(reason) <= MAX_REASON_CHARS or not reason.isprintable():
            raise Invalid(f"a reason is one line of 1 to {MAX_REASON_CHARS} characters")
        asked.record(reason=reason)
        with ledger_errors():
            try:
                return await self._rotate(reason)
            except (KeyFileError, OSError) as error:
                raise Unavailable(f"the keys cannot be changed: {error}") from error
