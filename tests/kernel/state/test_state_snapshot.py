"""A snapshot of the state and the rest of the journal come to what the whole journal comes to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.disk import Disk
from chain.entry.reader import Record, read_records
from chain.errors import DamageError, ForeignDataError
from kernel.bounds import Bounds
from kernel.model.spec import ProcessSpec
from kernel.state.record_forms import ERASING
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import FORMAT, KINDS, PARTS, encode_state, restore_state
from kernel.worker.workers import WorkerCall, WorkerLost, WorkerResult
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import MEMORY, Twin
from tests.patience import HANG_S

LIMITS = (8, 4096)
Step = tuple[Any, ...]


def plain(value: Any) -> Any:
    """Everything in ``value``, field by field, private ones too; what is empty in an index says nothing."""
    if isinstance(value, Counter):
        return {key: count for key, count in value.items() if count}
    if isinstance(value, OrderedDict | deque | list | tuple):
        items = value.items() if isinstance(value, OrderedDict) else value
        return [plain(item) for item in items]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if type(value).__module__.startswith("kernel."):
        return {name: plain(item) for name, item in vars(value).items() if name != "_handlers"}
    return value


def view(state: State) -> dict[str, Any]:
    seen: dict[str, Any] = plain(state)
    for index in ("_children", "_named"):
        seen[index] = {key: list(slots) for key, slots in seen[index].items() if slots}
    seen["crossings"]["inbox"] = {key: box for key, box in seen["crossings"]["inbox"].items() if box}
    seen["order"] = {name: list(seen[name]) for name in ("slots", "dead", "mail")}
    seen["order"]["mail"] = sorted(seen["order"]["mail"])
    seen["doubtful"] = [doubt.id for doubt in state.doubts()]
    return seen


def restored(state: State) -> State:
    copy = State(*LIMITS)
    restore_state(copy, encode_state(state))
    return copy


def apply(state: State, steps: Sequence[Step]) -> State:
    for step in steps:
        if len(step) == 3:
            state.apply_change(*step)
        else:
            state.apply_entry(*step)
    return state


def test_the_comparison_sees_a_difference() -> None:
    one, other = State(*LIMITS), State(*LIMITS)
    one.apply_entry("node.booted", {}, 0, 0, b"")
    assert view(one) != view(other)
    one, other = State(*LIMITS), State(*LIMITS)
    one.apply_change("inbox", "o\n1", msgpack.packb(["m1", ""]))
    assert view(one) != view(other)


# -- any order of records --------------------------------------------------------------------------------------------

TURN_ENDS = ["ok", "ok", "error", "cancelled", "diverged", "poison"]


def message(ident: int, to: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{ident}", "sender": "operator", "to": to, "text": f"t{ident}", "session": "main",
        "reply_to": "", "wants_reply": False, "deadline_us": 0, "rights": None, "waiting": [], **more,
    }  # fmt: skip


def sent(ident: int, to: str, **more: Any) -> dict[str, Any]:
    return message(ident, to, **{"peer": "o", "answers": "", "status": "", "answer_by_us": 0, **more})


def records_of(choices: list[tuple[int, int, int, int]]) -> list[Step]:
    """A record for each of ``choices``: which kind, whose, of what earlier, in which way."""
    made: list[Step] = []
    seq = 0
    for which, a, b, c in choices:
        who, old = f"/{'abc'[a % 3]}", max(0, seq - 1 - b % 6)
        turn, ordinal = f"t{old}", ("0.0", "0.1")[c % 2]
        call = {"turn": turn, "ordinal": ordinal, "tool": "x"}
        kinds: dict[str, dict[str, Any]] = {
            "process.spawned": {"address": who, "parent": "/a" if who == "/b" else "/",
                                "spec": ProcessSpec(who[1:], tools=("x",)).to_json(),
                                "made_by": ("operator", "agent", "peer:o")[b % 3]},
            "process.started": {"address": who, "pid": 4096 + seq},
            "process.exited": {"address": who, "pid": 1, "reason": ("crash", "normal")[c % 2], "detail": "d"},
            "process.slot": {"address": who, "why": "w", "state": ("removed", "stopped", "parked")[c % 3]},
            "message.accepted": message(seq, who, reply_to=f"{turn}:{ordinal}", rights=["y", "x"]),
            "message.sent": sent(seq, who + "@o", wants_reply=bool(c % 2),
                                    reply_to=("", f"t{seq}:0.0")[c % 2], answer_by_us=5),
            "message.acknowledged": {"id": f"m{old}"},
            "message.replied": {"id": f"m{old}"},
            "message.dead": {"id": f"m{old}", "why": "w"},
            "message.replayed": {"id": f"m{old}"},
            "message.dropped": {"id": f"m{old}"},
            "turn.started": {"turn": turn, "message": f"m{old}", "address": who, "attempt": 2},
            "turn.ended": {"turn": turn, "status": TURN_ENDS[c % 6]},
            "turn.diverged": {"turn": turn, "ordinal": ordinal, "recorded": "{}", "asked": '{"op":"now"}'},
            "turn.decided": {"turn": turn, "ordinal": ordinal, "decision": ("again", "accept")[b % 2]},
            "model.asked": {**call, "call_hash": "h"},
            "model.answered": {**call, "status": "ok", "answer": "{}", "input_tokens": 1, "output_tokens": 2},
            "sys.value": {**call, "call_hash": "h", "op": "now", "value": (0.5, 7)[c % 2]},
            "tool.proposed": {**call, "call_hash": "h", "arguments": "{}"},
            "tool.intent": {**call, "attempt": b % 2},
            "tool.outcome": {**call, "status": ("ok", "in_doubt")[a % 2], "result": "r", "truncated": False,
                             "attempt": b % 2},
            "tool.resolved": {**call, "resolution": ("retry", "done")[a % 2]},
            "memory.written": {"id": f"d{b % 6}", "owner": who, "scope": "own", "bytes": seq},
            "memory.forgotten": {"id": f"d{b % 6}"},
            "node.booted": {},
        }  # fmt: skip
        changes: list[Step] = [
            ("pids", str(seq), b""),
            ("session", f"{who}\nmain", msgpack.packb([{"n": seq, "text": "é" * 10 * old}])),
            ("session", f"{who}\nmain", None),
            ("inbox", f"o\n{old}", msgpack.packb([f"m{old}", "why"])),
            ("inbox", f"o\n{old}", None),
            (ERASING, str(old), msgpack.packb([[old, seq]])),
            (ERASING, str(old), None),
        ]
        at = which % (len(kinds) + len(changes))
        if at >= len(kinds):
            made.append(changes[at - len(kinds)])
            continue
        kind = list(kinds)[at]
        made.append((kind, kinds[kind] if which < 900 else None, seq, 1000 + seq, bytes(16)))
        seq += 1
        if kind == "turn.ended" and TURN_ENDS[c % 6] in ("diverged", "poison"):  # buried in the same commit
            made.append(("message.dead", {"id": f"m{old}", "why": "w"}, seq, 1000 + seq, bytes(16)))
            seq += 1
    return made


CHOICES = st.tuples(st.integers(0, 999), *[st.integers(0, 11)] * 3)


@settings(deadline=None, max_examples=400)
@given(st.lists(CHOICES, max_size=60).map(records_of), st.floats(0, 1))
def test_any_records_cut_anywhere(run: list[Step], at: float) -> None:
    cut = int(at * len(run))
    whole = apply(State(*LIMITS), run)
    assert view(apply(restored(apply(State(*LIMITS), run[:cut])), run[cut:])) == view(whole)


# -- a real run ------------------------------------------------------------------------------------------------------


async def _busy(twin: Twin) -> None:
    """Turns that end well and badly, calls that are recorded, in doubt and open, memory, a dead letter."""
    await twin.spawn("ada", tools=(*MEMORY, "ask", "spawn_agent", "pay", "calculator"))
    await twin.spawn("bob")
    for number in range(4):
        mail = await twin.send("/user/ada", f"hello {number}")
        at = await twin.delivery()
        await twin.call_tool(at, "memory_write", {"text": f"note {number}"})
        await twin.call_tool(at, "calculator", {"expression": "1+1"}, 1)
        twin.ask_model(at, [{"role": "user", "content": "x"}], 2)
        await twin.result()
        twin.finish(at, "done", [{"role": "user", "content": "x" * 900}])
        await twin.end_of(mail)
    await _leave_open(twin)
    await twin.call_tool(await _asked(twin), "spawn_agent", {"name": "cy"})
    letter = await twin.send("/user/bob", "never")
    twin.crash(await twin.delivery())
    twin.kernel.post.bury(letter.id, "the test said so")
    await twin.send("/user/bob", "still there")
    await twin.ledger.barrier()


async def _leave_open(twin: Twin) -> None:
    """Of a turn that has ended: a call in doubt, and one that has begun."""
    at = await _asked(twin)
    lost = twin.workers.answer

    def answer(call: WorkerCall) -> WorkerResult:
        raise WorkerLost("died")

    twin.workers.answer = answer
    twin.ask_tool(at, "pay", {"amount": 1})
    async with asyncio.timeout(HANG_S):
        while not twin.kernel.state.doubts():
            await asyncio.sleep(0)
    twin.workers.answer = lost
    twin.workers.hold.clear()
    twin.ask_tool(at, "pay", {"amount": 2}, 1)
    async with asyncio.timeout(HANG_S):
        while len(twin.workers.calls) < 2:
            await asyncio.sleep(0)
    process = twin.kernel.live.get(at.pid)
    assert process is not None
    assert twin.kernel.turns.cut_short(process, "cancelled", "enough")


async def _asked(twin: Twin) -> Any:
    await twin.send("/user/ada", "open")
    return await twin.delivery()


def test_a_real_run_cut_after_every_record(tmp_path: Path) -> None:
    on_twin(tmp_path, _busy)
    records: list[Record] = list(read_records(tmp_path / "journal", Disk()))
    bounds = Bounds()
    whole = State(bounds.session_records, bounds.session_bytes)
    for record in records:
        replay_into(whole, record)
    assert (
        whole.sessions and whole.dead and whole.turns and len(whole.documents) == 4 and len(whole.slots) == 4
    )
    assert [one.call.doubt for one in whole.intents if one.turn not in whole.turns] == [True, False]
    growing = State(bounds.session_records, bounds.session_bytes)
    for cut, record in enumerate(records):
        replay_into(growing, record)
        copy = State(bounds.session_records, bounds.session_bytes)
        restore_state(copy, encode_state(growing))
        for rest in records[cut + 1 :]:
            replay_into(copy, rest)
        assert view(copy) == view(whole), f"cut after record {cut}"


# -- what is no state ------------------------------------------------------------------------------------------------


def example() -> State:
    run: list[Step] = [
        ("process.spawned", {"address": "/a", "parent": "/", "spec": ProcessSpec("a").to_json()}, 0, 1, b""),
        ("message.accepted", message(1, "/a"), 1, 1, b""),
        ("turn.started", {"turn": "t1", "message": "m1", "address": "/a", "attempt": 1}, 2, 1, b""),
        ("session", "/a\nmain", msgpack.packb([{"role": "user"}])),
        ("message.sent", sent(4, "/b@o", wants_reply=True), 4, 1, b""),
    ]
    return apply(State(*LIMITS), run)


def test_the_format_is_this_one() -> None:
    """Whoever changes a field here gives the format another number, and reads the old one or says why not."""
    assert FORMAT == 3
    names = {kind.__name__: " ".join(field.name for field in fields(kind)) for kind in KINDS}
    assert names == {
        "Slot": "address parent spec spawned_seq state why pid restarts last_exit made_by",
        "Mail": "id seq sender to text session reply_to wants_reply deadline_us trace rights time_us peer answers "
        "status answer_by_us waiting",
        "Turn": "id mail address started_seq attempt crashes calls last_answer_seq config result_bytes diverged",
        "Call": "ordinal call_hash op seq name arguments intent_seq attempt outcome doubt unsettled replaces effects",
        "DeadLetter": "mail why seq time_us",
        "Tally": "accepted acknowledged dead dropped",
        "Fact": "id owner scope bytes seq text_hash shown_hash",
    }


def test_a_later_format_is_refused() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    with pytest.raises(ForeignDataError, match="format 4, this version knows 3"):
        restore_state(State(*LIMITS), msgpack.packb({**parts, "format": 4}))


def test_the_format_before_is_read() -> None:
    """Format 2 knew neither who made a slot nor what came of a message."""
    state = example()
    parts = msgpack.unpackb(encode_state(state))
    del parts["traces"]
    parts["slots"] = [row[:-1] for row in parts["slots"]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "format": 2}))
    assert view(old) == view(state)
    with pytest.raises(DamageError, match="cannot be read"):
        restore_state(State(*LIMITS), msgpack.packb({**parts, "traces": [], "format": 3}))


@pytest.mark.parametrize(("found", "lacks"), [(2, 1), (1, 2)])
def test_documents_of_the_formats_before_are_read(found: int, lacks: int) -> None:
    """Format 2 knew no ``shown_hash``, format 1 no ``text_hash`` either."""
    document = {"id": "d", "owner": "/a", "scope": "shared", "bytes": 7}
    state = apply(State(*LIMITS), [("memory.written", document, 1, 1, b"")])
    parts = msgpack.unpackb(encode_state(state))
    parts["documents"] = [row[:-lacks] for row in parts["documents"]]
    for part in ("traces", "intents")[:lacks]:
        del parts[part]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "format": found}))
    assert view(old) == view(state)


def test_the_first_format_is_read() -> None:
    """Format 1 knew no parked turns, not what an open turn was told, and no intent without its turn."""
    state = example()
    call = {"turn": "t1", "ordinal": "0.0"}
    state.apply_entry("tool.proposed", {**call, "call_hash": "h", "tool": "x", "arguments": "{}"}, 5, 1, b"")
    state.apply_entry("tool.intent", {**call, "attempt": 1}, 6, 1, b"")
    parts = msgpack.unpackb(encode_state(state))
    del parts["intents"], parts["traces"]
    parts["slots"] = [row[:-1] for row in parts["slots"]]
    parts["turns"] = [[*row[:-5], [call[:-3] for call in row[-5]], row[-4]] for row in parts["turns"]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "format": 1}))
    assert view(old) == view(state)
    with pytest.raises(DamageError, match="cannot be read"):
        restore_state(State(*LIMITS), msgpack.packb({**parts, "intents": [], "format": 2}))


@pytest.mark.parametrize("part", [part for part in PARTS if part != "format"])
@pytest.mark.parametrize("value", [None, "x", [1], [[1]], [[None] * 17], {"a": 1}, True])
def test_a_part_that_is_something_else_is_refused(part: str, value: Any) -> None:
    parts = msgpack.unpackb(encode_state(example()))
    with pytest.raises(DamageError, match="cannot be read"):
        restore_state(State(*LIMITS), msgpack.packb({**parts, part: value}))
    del parts[part]
    with pytest.raises(DamageError, match="not those of a state"):
        restore_state(State(*LIMITS), msgpack.packb(parts))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x91" * 100_000, msgpack.packb([1])])
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(DamageError, match="cannot be read"):
        restore_state(State(*LIMITS), data)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_changed_byte_is_a_state_or_refused(data: st.DataObject) -> None:
    good = encode_state(example())
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    with contextlib.suppress(DamageError, ForeignDataError):
        restore_state(State(*LIMITS), bad)


def test_what_a_session_holds_may_be_nested_deep() -> None:
    deep: Any = 0
    for _ in range(500):
        deep = [deep]
    state = State(*LIMITS)
    packed = msgpack.packb([{"deep": deep}])
    state.apply_change("session", "/a\nmain", packed)
    assert msgpack.packb(restored(state).sessions["/a", "main"].history()) == packed
