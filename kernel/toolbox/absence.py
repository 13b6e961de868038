"""That there was no file yet, told apart from that there is none any more.

Who takes a file away, as from an inbox, leaves what was there before it came: nothing. So the look that finds no file
leaves an empty one of another name, of which nobody else knows: the **witness**. What is to be written is written into
it, and it becomes the file by its rename, the one step that takes it away. While it is there the file has not been
written; once it is gone that may have happened, whatever is there now.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

ABSENT = "absent"
_TEXT = re.compile(rf"{ABSENT} ([0-9]{{1,2}}) ([0-9a-f]{{16}})")


@dataclass(frozen=True, slots=True)
class Absence:
    """The witness lies in the directory that ``depth`` components of the path lead to, the last that there was."""

    depth: int
    token: str

    @property
    def witness(self) -> str:
        """Its name."""
        return f".weftos-{self.token}.tmp"

    @property
    def version(self) -> str:
        """What a ``tool.intent`` says that there was."""
        return f"{ABSENT} {self.depth} {self.token}"


def new_absence(depth: int) -> Absence:
    """One that nobody knows of."""
    return Absence(depth, secrets.token_hex(8))


def read_absence(version: str) -> Absence | None:
    """None for a version of a file, and for an absence without a witness, as an older weftos recorded it."""
    match = _TEXT.fullmatch(version)
    return Absence(int(match[1]), match[2]) if match is not None else None
