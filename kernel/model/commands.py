"""What somebody has asked of a process by hand: the entry that says so is the cause of what follows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """``seq`` of its entry, ``by`` whom as the ledger names them, and ``why`` if they said."""

    seq: int
    by: str
    why: str = ""

    def told(self, what: str) -> str:
        """As an exit has it: ``stopped by operator:1000: too slow``."""
        return f"{what} by {self.by}: {self.why}" if self.why else f"{what} by {self.by}"
