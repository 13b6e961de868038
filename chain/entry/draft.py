"""What a caller asks the ledger to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chain.entry.kinds import KINDS

_AT_ONCE = {name for name, kind in KINDS.items() if kind.durable}
PREVIOUS = -2
"""As a draft's ``cause``: the entry before it in the same commit."""


@dataclass(slots=True)
class Draft:
    """An entry to be: the ledger adds sequence, time, counter, commitment and the link to the entry before.

    cause: seq of the entry that led to this one, -1 for none, or :data:`PREVIOUS`.
    """

    kind: str
    body: dict[str, Any]
    pid: int = 0
    subject: str = ""
    trace: bytes = b""
    cause: int = -1


@dataclass(frozen=True, slots=True)
class StateChange:
    """A state record to be: ``value`` None deletes ``key`` from ``table``."""

    table: str
    key: str
    value: bytes | None


def is_durable(record: Draft | StateChange) -> bool:
    """Whether a record is written to the disk at once by what its kind says. No state record is, by itself."""
    return type(record) is Draft and record.kind in _AT_ONCE and KINDS[record.kind].is_durable(record.body)
