"""Turns that have ended, and the disk has yet to take that: open by the record, and handed to nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class End:
    """How a turn has ended, and in which incarnation. ``stages``: JSON of what that tells of its steps."""

    pid: int
    status: str
    reply: str
    remember: list[Any]
    stages: str = "[]"


Ends = dict[str, End]
"""By the turns."""
