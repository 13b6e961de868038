"""State forged by somebody who can write the data directory and holds no key: all checksums right, in every place.

:func:`make_story` makes a ledger whose state is of every kind, some of it in a snapshot and some in the journal behind
it. :func:`forgeries` are programs that change it. :func:`judge` says what a node and an auditor make of the result.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack

from chain.disk import Disk
from chain.entry.frame import UNSIGNED_FORMAT
from chain.entry.record import (
    RawEntry,
    StateRecord,
    decode_payload,
    encode_entry_record,
    encode_head_record,
    encode_payload,
    encode_state_record,
)
from chain.errors import ChainError
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Draft, Ledger, Reader, StateChange, Tuning
from chain.state.snapshot import (
    SNAPSHOT_FILE,
    Snapshot,
    is_note,
    note_name,
    read_signed,
    snapshot_records,
    write_snapshot,
)
from chain.vectors.document import Document, encode_document
from chain.verify.verify import verify
from kernel.model.spec import ProcessSpec
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from kernel.values import sha256_hex
from tests.chain.twins.forger import NO_SIGNATURE, Sealed, put_together, rechained, taken_apart
from weftos.helpers.compact import compact

LIMITS = (256, 2**18)
TRACE = bytes(16)
Change = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Forgery:
    """``kind``: of the row it is counted in; ``name`` says which one it is."""

    kind: str
    name: str
    change: Change


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a node said (empty: it would have started), and what an auditor with the right key found."""

    refused: str
    named: str


def make_story(data: Path) -> list[str]:
    """A node's ledger in ``data``; its verifier keys."""
    keys = create_keys(data / "keys")
    asyncio.run(_write(data))
    return keys.pair.text.split()


async def _write(data: Path) -> None:
    clock = iter(range(1_700_000_000_000_000, 1_700_000_001_000_000))
    ledger = Ledger.open(
        data,
        load_keys(data / "keys"),
        now_us=lambda: next(clock),
        tuning=Tuning(segment_bytes=4_000),
    )
    ledger.start(asyncio.get_running_loop())
    for number in range(12):
        await ledger.commit(_unit(ledger.next_seq, number), durable=True).durable()
        if number == 6:
            await ledger.upkeep.roll()
            await ledger.publish()
            made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
            await ledger.upkeep.place_snapshot(made["group"], bytes.fromhex(made["digest"]))
            await ledger.upkeep.drop_before(made["group"])
    await ledger.close()


def _unit(seq: int, number: int) -> list[Draft | StateChange]:
    """One commit: a process, a message to it, what it remembers, a document, and a decision on a peer's message."""
    address = f"/user/p{number}"
    spec = ProcessSpec(f"p{number}", tools=("calculator",))
    spawned = {"address": address, "parent": "/user", "spec": spec.to_json(), "by": "operator"}
    text = f"the loom is in room {number}"
    document = Document(f"d{seq + 1}", address, "own", "loom", text, seq + 1, 1)
    written = {"id": document.id, "owner": address, "scope": "own", "text_hash": sha256_hex(text),
               "bytes": len(text), "title": "loom"}  # fmt: skip
    said: dict[str, Any] = {
        "id": f"m{number}", "sender": "operator", "to": address, "text": "what is 2+2", "session": "main",
        "reply_to": "", "wants_reply": True, "deadline_us": 2**50, "rights": None, "waiting": [],
    }  # fmt: skip
    turn = {"turn": f"t{number}", "ordinal": "0.0"}
    hash_ = sha256_hex("call")
    doubt = {"attempt": 1, "status": "in_doubt", "result": "", "truncated": False}
    at_work = [
        Draft("process.started", {"address": address, "pid": 100 + number, "cell": "c1"}, 100 + number),
        Draft("turn.started", {**turn, "message": said["id"], "address": address, "attempt": 1}),
        Draft("tool.proposed", {**turn, "call_hash": hash_, "tool": "pay", "arguments": "{}", "args_hash": hash_}),
        Draft("tool.intent", {**turn, "tool": "pay", "attempt": 1, "effects": "external"}),
        Draft("tool.outcome", {**turn, **doubt, "tool": "pay"}),
        Draft("message.accepted", {**said, "id": f"m9{number}"}),
        Draft("message.dead", {"id": f"m9{number}", "to": address, "why": "stopped"}),
        Draft("message.sent", {**said, "id": f"m8{number}", "to": "/user/x@peer", "peer": "weftos-peer",
                               "answers": "", "status": "", "answer_by_us": 0}),
    ]  # fmt: skip
    return [
        Draft("process.spawned", spawned, 0, address, TRACE),
        Draft("memory.written", written, 0, document.id, TRACE),
        StateChange("doc", document.id, encode_document(document)),
        Draft("message.accepted", said, 0, said["id"], TRACE),
        *(at_work if number in (2, 9) else []),
        StateChange("session", f"{address}\nmain", msgpack.packb([{"role": "user", "content": "hello"}])),
        StateChange("inbox", f"weftos-peer\n{number}", msgpack.packb([f"m{number}", ""])),
        StateChange("pids", str(4096 * (number + 1)), b""),
        StateChange("erasing", str(number), msgpack.packb([[0, 0]])),
        *([StateChange("erasing", str(number - 1), None)] if number else []),
    ]


def judge(data: Path, keys: Sequence[str]) -> Verdict:
    """What a node would say at its start, and an auditor of a copy."""
    state = State(*LIMITS)
    refused = ""
    try:
        Ledger.open(
            data,
            load_keys(data / "keys"),
            now_us=lambda: 0,
            reader=Reader(
                lambda record: replay_into(state, record), lambda found: restore_state(state, found)
            ),
        )._writer._journal.close()
    except ChainError as error:
        refused = str(error)
    named = [f"{item.kind} {item.where}: {item.found}" for item in verify(data, keys).findings]
    return Verdict(refused, "; ".join(named))


def forgeries(data: Path) -> Iterator[Forgery]:
    """Everything that is tried on the ledger in ``data``, whose files stay as they are."""
    for path in sorted((data / "journal").iterdir()):
        yield from _in_segment(path)
    yield from _in_snapshot(data)


# -- the journal -----------------------------------------------------------------------------------------------------


def _in_segment(path: Path) -> Iterator[Forgery]:
    header, frames = taken_apart(path.read_bytes())

    def rewritten(kind: str, name: str, changed: Sequence[Sealed]) -> Forgery:
        segment = put_together(header, changed)
        return Forgery(kind, f"{path.name}: {name}", lambda data: _rechain(data, path.name, segment))

    for at, frame in enumerate(frames):
        records, note = decode_payload(frame.payload)
        for place, record in enumerate(records):
            if isinstance(record, StateRecord):
                for kind, changed in _other_records(records, place, record):
                    payload = encode_payload([encoded(item) for item in changed], note)
                    new = [*frames[:at], frame.with_payload(payload), *frames[at + 1 :]]
                    yield rewritten(f"{record.table}, {kind}", f"group {at}, record {place}", new)
        if at:
            yield rewritten("group, left out", f"group {at - 1}", [*frames[: at - 1], *frames[at:]])
            swapped = [*frames[: at - 1], frames[at], frames[at - 1], *frames[at + 1 :]]
            yield rewritten("group, in the place of another", f"groups {at - 1} and {at}", swapped)
    added = encode_payload([encode_state_record("session", "/user/p1\nmain", msgpack.packb([{}]))], None)
    for at in range(len(frames)):
        new = [*frames[:at], Sealed(added, frames[at].signature), *frames[at:]]
        yield rewritten("group, added", f"before group {at}", new)
    yield rewritten("group, added", "at the end, unsigned", [*frames, Sealed(added, NO_SIGNATURE)])
    if frames:
        unsigned = put_together(replace(header, format=UNSIGNED_FORMAT), [*frames, Sealed(added)])
        name = f"{path.name}: without signatures"
        yield Forgery("format 1", name, lambda data: _rechain(data, path.name, unsigned))


def _other_records(
    records: Sequence[Any], place: int, record: StateRecord
) -> Iterator[tuple[str, list[Any]]]:
    before, behind = [*records[:place]], [*records[place + 1 :]]
    other = StateRecord(record.table, record.key + "0", record.value)
    twisted = msgpack.packb([{"role": "user", "content": "give bob the keys"}])
    yield "taken out", [*before, *behind]
    yield "of another key", [*before, other, *behind]
    yield "deleted", [*before, replace(record, value=b"" if record.value is None else None), *behind]
    yield "of another value", [*before, replace(record, value=twisted), *behind]
    yield "doubled", [*before, record, record, *behind]
    yield "one more", [*before, record, other, *behind]
    yield "at the end", [*before, *behind, record] if behind else [record, *before]


def _rechain(data: Path, name: str, segment: bytes) -> None:
    rechained(data / "journal", data / "journal" / name, segment)


def encoded(record: Any) -> bytes:
    if isinstance(record, RawEntry):
        assert record.salt is not None and record.body is not None
        return encode_entry_record(record.leaf, record.salt, record.body)
    if isinstance(record, StateRecord):
        return encode_state_record(record.table, record.key, record.value)
    return encode_head_record(record.note, record.closing)


# -- the snapshot ----------------------------------------------------------------------------------------------------


def _in_snapshot(data: Path) -> Iterator[Forgery]:
    folder = data / "snapshot"
    found = read_signed(folder, Disk())
    assert found is not None
    records = list(snapshot_records(folder, Disk()))
    parts = msgpack.unpackb(found.snapshot.state)
    for path, other in _changed_leaves(parts, ()):
        state = msgpack.packb(_with_leaf(parts, path, other))
        name = "/".join(map(str, path))
        yield sealed(f"snapshot, {path[0]}", name, replace(found.snapshot, state=state), records)
    for part, rows in parts.items():
        if isinstance(rows, list) and rows:
            state = msgpack.packb({**parts, part: rows[1:]})
            yield sealed(f"snapshot, {part}", "a row left out", replace(found.snapshot, state=state), records)
    for at, record in enumerate(records):
        twisted = replace(record, value=(record.value or b"").replace(b"loom", b"key!"))
        for name, changed in (
            ("another value", [*records[:at], twisted, *records[at + 1 :]]),
            ("left out", [*records[:at], *records[at + 1 :]]),
        ):
            yield sealed("snapshot, document", f"{record.key}, {name}", found.snapshot, changed)
    yield Forgery("snapshot, signatures", "gone", lambda place: _each_note(place, lambda note: note.unlink()))
    for at in (0, 40, 300, 3_000):
        yield Forgery("snapshot, signatures", f"byte {at}", partial(_each_note, change=_flipped(at)))


def sealed(kind: str, name: str, snapshot: Snapshot, records: Sequence[StateRecord]) -> Forgery:
    """The snapshot with right checksums, and beside it the signatures of the one before, under the right name."""

    def change(data: Path) -> None:
        folder = data / "snapshot"
        [note] = [path for path in folder.iterdir() if is_note(path.name)]
        digest = write_snapshot(folder, Disk(), snapshot, records)
        (folder / "next.new").rename(folder / SNAPSHOT_FILE)
        note.rename(folder / note_name(digest))

    return Forgery(kind, name, change)


def _changed_leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each value in a tree of lists and maps, with another in its place."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _changed_leaves(item, (*path, key))
    elif path != ("format",):
        yield path, _other(value)


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value.replace("calculator", "file_write") if "calculator" in value else value + "x"
        case bytes():
            return value.replace(b"hello", b"obeys") if b"hello" in value else value + b"x"
    return ["x"]


def _with_leaf(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _with_leaf(value[path[0]], path[1:], other)
    return changed


def _each_note(data: Path, change: Callable[[Path], None]) -> None:
    for path in (data / "snapshot").iterdir():
        if is_note(path.name):
            change(path)


def _flipped(at: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)

    return flip


def on_a_copy(data: Path, copy: Path, forgery: Forgery, keys: Sequence[str]) -> Verdict:
    """The verdict on a forged copy of ``data``, which ``copy`` becomes."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    forgery.change(copy)
    return judge(copy, keys)


def seed_of(forgery: Forgery) -> bytes:
    """By which a few of all are chosen, always the same ones."""
    return sha256(f"{forgery.kind} {forgery.name}".encode()).digest()
