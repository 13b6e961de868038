"""The end of a ledger, as its files have it: whether it can be read, and whether what signs it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import EntryRecord
from chain.errors import DamageError, NoteError
from chain.keys.keys import load_pairs
from chain.merkle.head import parse_head
from chain.notes.note import VerifierKey, verify
from chain.notes.slots import HeadSlots
from chain.state.history import History


@dataclass(frozen=True, slots=True)
class LedgerTail:
    """``entries`` there are, the newest of ``last_us`` (-1 for none); a signed head vouches for ``signed`` of them, one
    of both keys for ``full``. ``torn_bytes`` behind them were never acknowledged.
    """

    entries: int
    last_us: int
    signed: int
    full: int
    torn_bytes: int


def read_tail(data: Path) -> LedgerTail:
    """Reads what the journal holds. Raises a ChainError that says what is wrong, OSError."""
    history = History(data, Disk())
    return history.settled(lambda: _read(data, history))


def _read(data: Path, history: History) -> LedgerTail:
    pairs = load_pairs(data / "keys")
    full = HeadSlots(data / "heads", Disk()).load(*(pair.both for pair in pairs))
    full_size = full.head.size if full else 0
    reader = history.journal()
    last_us, note = -1, b""
    for group in reader.groups():
        note = group.note or note
        for record in group.records:
            if isinstance(record, EntryRecord):
                last_us = record.entry.time_us
    entries = reader.position.seq
    if last_us < 0 and entries:
        last_us = history.entry(entries - 1).entry.time_us
    signed = _signed(note, [pair.ed25519 for pair in pairs]) if note else full_size
    if max(signed, full_size) > entries:
        raise DamageError(
            "journal",
            0,
            entries,
            f"a signed head has {max(signed, full_size)} entries, the files have {entries}",
        )
    return LedgerTail(entries, last_us, signed, full_size, reader.tail.bytes if reader.tail else 0)


def _signed(note: bytes, keys: Sequence[VerifierKey]) -> int:
    """How many entries the head in ``note`` has, that one of ``keys`` has signed. Raises NoteError, HeadError."""
    fault: NoteError | None = None
    for key in reversed(keys):
        try:
            return parse_head(verify(note, [key]).text).size
        except NoteError as error:
            fault = fault or error
    assert fault is not None
    raise fault
