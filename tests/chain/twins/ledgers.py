"""Small ledgers for the tests of the journal, and a clock they own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.fields import (
    BOOL,
    BYTES,
    DIGEST,
    JSON,
    NUMBER,
    RANGES,
    TEXT,
    TEXTS,
    TEXTS_OR_NIL,
    WHOLE,
    WHOLES,
    Type,
)
from chain.entry.kinds import KINDS
from chain.entry.reader import EntryRecord, Record
from chain.keys.keys import Keys
from chain.ledger.ledger import Draft, Ledger, Reader, StateChange, Tuning
from chain.tiles.publisher import PUBLISH_S

KEYS = Keys(bytes(range(32)), bytes(range(32, 64)))
RIGHT: dict[Type, list[Any]] = {
    TEXT: ["", "é"], JSON: ["{}"], DIGEST: ["0" * 64, "a1" * 32], WHOLE: [0, -1, 2**63 - 1], NUMBER: [0, -1.5],
    BOOL: [False, True], BYTES: [b"", b"x"], TEXTS: [[], ["a", "b"]], TEXTS_OR_NIL: [None, [], ["a"]],
    WHOLES: [[], [0, 5]], RANGES: [[], [[0, 1], [3, 3]]],
}  # fmt: skip
"""Some values of each type that a field may have."""
OTHER_KEYS = Keys(bytes(32), bytes(32))


class Clock:
    """Microseconds that rise by one with each look."""

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        self.now += 1
        return self.now


def whole(kind: str, body: dict[str, Any], *more: Any) -> Draft:
    """An entry with ``body``, and something of its type in each field that it has not."""
    rest = {name: RIGHT[field.type][0] for name, field in KINDS[kind].fields.items()}
    return Draft(kind, {**rest, **body}, *more)


def draft(number: int, pid: int = 7, cause: int = -1) -> Draft:
    return Draft("message.refused", {"to": "/user/a", "sender": "operator", "why": f"w{number}"}, pid, f"m{number}",
                 bytes(16), cause)  # fmt: skip


def open_ledger(
    directory: Path, disk: Disk | None = None, keys: Keys = KEYS, replay: Callable[[Record], None] | None = None,
    segment_bytes: int = 64 * 2**20, retry_s: float = 0.01, publish_s: float = PUBLISH_S,
) -> Ledger:  # fmt: skip
    return Ledger.open(
        directory,
        keys,
        now_us=Clock(),
        reader=Reader(replay or (lambda record: None)),
        disk=disk,
        tuning=Tuning(segment_bytes, retry_s, publish_s),
    )


def whys(directory: Path, disk: Disk | None = None) -> list[str]:
    """Open, read back the ``why`` of every entry, close without a clean stop."""
    found: list[str] = []

    def replay(record: Record) -> None:
        if isinstance(record, EntryRecord):
            found.append(record.body["why"])

    abandon(open_ledger(directory, disk, replay=replay))
    return found


def abandon(ledger: Ledger) -> None:
    """What a killed process leaves: the descriptor closed, nothing written."""
    ledger._writer._journal.close()


def fill(
    directory: Path, groups: int, disk: Disk | None = None, *, per_group: int = 3, state: bool = True
) -> None:
    """A ledger of ``groups`` durable commits and a clean stop."""

    async def run() -> None:
        ledger = open_ledger(directory, disk)
        ledger.start(asyncio.get_running_loop())
        for number in range(groups):
            records: list[Draft | StateChange] = [
                draft(ledger.next_seq + at, pid=7 + at % 2) for at in range(per_group)
            ]
            if state:
                records.append(StateChange("mail", f"k{number}", b"value"))
            await ledger.commit(records, durable=True).durable()
        await ledger.close()

    asyncio.run(run())
