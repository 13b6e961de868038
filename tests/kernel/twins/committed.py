"""A recorder over a real journal on a disk in memory, and any records at all, good and bad.

:func:`check_run` is the property of ``test_commit_replay`` and, at length, of ``make prove``: whatever commit takes, a
replay and the snapshot's reader take, and come to the same; what it refuses leaves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack
from hypothesis import strategies as st

from chain.entry.draft import PREVIOUS, Draft, StateChange
from chain.entry.fields import NUMBER, WHOLE, Field
from chain.entry.kinds import KINDS
from chain.entry.reader import Position, read_records
from chain.entry.record import encode_payload
from chain.errors import ChainError
from chain.journal.journal import Journal
from chain.journal.sequencer import Batch, Sequencer
from chain.vectors.document import Document, encode_document
from kernel.model.spec import ProcessSpec
from kernel.signals import Signals
from kernel.state.record_forms import TABLES
from kernel.state.recorder import Recorder, replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from tests.chain.twins.ledgers import RIGHT
from tests.chain.twins.memory_disk import MemoryDisk

LIMITS = (8, 4096)
JOURNAL = Path("/journal")


class Ticket:
    def __init__(self, batch: Batch) -> None:
        self.entries = batch.entries


class MemoryLedger:
    """Gives records their place and writes them, as the ledger does; unsigned, and it waits for nobody."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self._sequencer = Sequencer("origin")
        self._journal = Journal(JOURNAL, self.disk, "origin", Position())
        self._callbacks: list[Callable[[Any], None]] = []
        self._fault_callbacks: list[Callable[[str, str | None], None]] = []

    def on_group(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def on_fault(self, callback: Callable[[str, str | None], None]) -> None:
        self._fault_callbacks.append(callback)

    def fault(self, why: str | None) -> None:
        """Tell those who want to know that the journal takes nothing, or takes records again."""
        for callback in self._fault_callbacks:
            callback("journal", why)

    def group_written(self) -> None:
        """Tell those who want to know that something has become durable."""
        for callback in self._callbacks:
            callback(None)

    @property
    def next_seq(self) -> int:
        return self._sequencer.tree.size

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        batch = self._sequencer.take(records, self.next_seq, os.urandom(32 * len(records)))
        self._journal.append(encode_payload(batch.records, None), lambda statement: bytes(64))
        return Ticket(batch)


def check_run(run: list[list[Draft | StateChange]]) -> int:
    """Commit each unit of ``run``; how many were taken."""
    ledger = MemoryLedger()
    recorder = Recorder(ledger, State(*LIMITS), Signals())  # type: ignore[arg-type]  # a twin
    taken = 0
    for unit in run:
        before = ledger.next_seq, encode_state(recorder.state), ledger.disk.steps
        try:
            recorder.commit(unit)
        except ChainError:
            assert (ledger.next_seq, encode_state(recorder.state), ledger.disk.steps) == before
        else:
            taken += 1
    kept = encode_state(recorder.state)
    replayed = State(*LIMITS)
    for record in read_records(JOURNAL, ledger.disk):
        replay_into(replayed, record)
    assert encode_state(replayed) == kept
    restored = State(*LIMITS)
    restore_state(restored, kept)
    assert encode_state(restored) == kept
    return taken


# -- any records -----------------------------------------------------------------------------------------------------

DEEP: Any = "x"
for _ in range(600):
    DEEP = [DEEP]
JUNK = st.sampled_from(
    [None, True, -1, 0, 2**63 - 1, 2**63, 2**64, 1.5, float("nan"), "", "\ud800", "9" * 5000, b"x", [], [1], ["a"],
     {}, {"a": 1}, {1: "x"}, (1,), DEEP, "{}", "[" * 3000, '{"name": 5}', "a\nb", "²"]
)  # fmt: skip
ADDRESSES = st.sampled_from(["/a", "/b", "/c"])
NUMBERS = st.integers(0, 9)
BY_NAME = {
    "address": ADDRESSES, "to": ADDRESSES, "parent": ADDRESSES, "owner": ADDRESSES,
    "message": NUMBERS.map("m{}".format), "id": NUMBERS.map("m{}".format), "turn": NUMBERS.map("t{}".format),
    "ordinal": st.sampled_from(["0.0", "0.1"]),
    "spec": st.builds(ProcessSpec, st.sampled_from("abc")).map(ProcessSpec.to_json), "reason": st.just("crash"),
    "state": st.sampled_from(["removed", "stopped", "parked"]), "reply_to": st.sampled_from(["", "t3:0.0"]),
    "status": st.sampled_from(["ok", "error", "in_doubt"]), "resolution": st.sampled_from(["retry", "done"]),
    "decision": st.sampled_from(["again", "accept"]), "recorded": st.just("{}"), "asked": st.just('{"op":"now"}'),
    "config": st.just("{}"), "result_bytes": NUMBERS, "tools": st.just(["a"]),
    "value": NUMBERS,
}  # fmt: skip


def _field(name: str, field: Field) -> st.SearchStrategy[Any]:
    if name in BY_NAME:
        return BY_NAME[name]
    return NUMBERS if field.type in (WHOLE, NUMBER) else st.sampled_from(RIGHT[field.type])


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    kind = draw(st.sampled_from(sorted(KINDS)))
    body = {name: draw(_field(name, field)) for name, field in KINDS[kind].fields.items()}
    match draw(st.integers(0, 9)), draw(st.sampled_from(sorted(body) or ["x"])):
        case 0 | 1, name:
            body[name] = draw(JUNK)
        case 2, name:
            body.pop(name, None)
    cause = PREVIOUS if draw(st.integers(0, 9)) == 0 else -1
    return Draft(kind, body, draw(NUMBERS), draw(st.sampled_from(["", "t1"])), bytes(16), cause)


PACKED = st.one_of(
    JUNK,
    st.recursive(
        JUNK, lambda inner: st.dictionaries(st.one_of(st.integers(-3, 3), st.text(max_size=2)), inner)
    ),
)
DOCUMENT = encode_document(Document("d1", "/a", "own", "t", "text", 1, 1))


def _pack(value: Any) -> bytes:
    try:
        return bytes(msgpack.packb(value))
    except (ValueError, TypeError, OverflowError):
        return b"\xc1"


VALUES = st.one_of(
    st.none(),
    st.just(DOCUMENT),
    st.binary(max_size=4),
    PACKED.map(_pack),
    PACKED.map(lambda value: _pack([{"a": value}])),
    st.lists(st.dictionaries(st.one_of(st.integers(0, 3), st.text(max_size=2)), PACKED), max_size=3).map(
        _pack
    ),
    st.just(_pack(["m1", ""])),
    st.just(_pack([[1, 2]])),
)
KEYS = st.one_of(
    st.sampled_from(
        ["/a\nmain", "/a", "o\n1", "o\n-1", "7", "-7", "d1", "²", "9" * 19, "9" * 5000, "\ud800", ""]
    ),
    st.text(max_size=3),
)
CHANGES = st.builds(StateChange, st.one_of(st.sampled_from(TABLES), st.just("other")), KEYS, VALUES)
UNITS = st.lists(st.one_of(drafts(), drafts(), CHANGES), min_size=1, max_size=3)
RUNS = st.lists(UNITS, max_size=12)
