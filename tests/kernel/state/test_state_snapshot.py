"""A snapshot of the state and the rest of the journal come to what the whole journal comes to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.disk import Disk
from chain.entry.reader import Record, read_records
from chain.errors import DamageError, ForeignDataError
from chain.vectors.document import TABLE as DOCUMENT
from kernel.bounds import Bounds
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Budget
from kernel.slices.dead_letters import DeadLetter
from kernel.slices.documents import Fact
from kernel.slices.mailboxes import Mail
from kernel.slices.monitors import Monitor
from kernel.slices.traps import Trap
from kernel.slices.tree.exits import NEVER, Exit, read_exit
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Call, Turn
from kernel.state.record_forms import ERASING, TABLES
from kernel.state.recorder import replay_into
from kernel.state.state import HEARS, State
from kernel.state.state_snapshot import FORMAT, encode_state, restore_state
from kernel.worker.workers import WorkerCall, WorkerLost, WorkerResult
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.former_states import PARTS_3, SPEC_A, TRACE, call, former, story
from tests.kernel.twins.kernel_twin import MEMORY, Twin
from tests.kernel.twins.records import message, sent
from tests.patience import HANG_S

LIMITS = (8, 4096)
Step = tuple[Any, ...]
WIRING = (
    "_handlers",
    "_keepers",
    "slices",
    "_mail",
    "_turns",
    "_calls",
    "_in_transit",
    "_letters",
    "_in_use",
    "_tree",
    "_addresses",
)
"""Of a state and its slices: who hears what, and which other slices one reads."""


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
        names = getattr(value, "__slots__", None) or vars(value)
        return {name: plain(getattr(value, name)) for name in names if name not in WIRING}
    return value


def view(state: State) -> dict[str, Any]:
    seen: dict[str, Any] = plain(state)
    for index in ("_children", "_named"):
        seen["slots"][index] = {key: list(slots) for key, slots in seen["slots"][index].items() if slots}
    seen["in_transit"]["inbox"] = {key: box for key, box in seen["in_transit"]["inbox"].items() if box}
    seen["order"] = {name: list(getattr(state, name)) for name in ("slots", "dead", "mail")}
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

LITTLE = Budget(tool_calls=2, messages=1, tokens=9, money="0.0001", time_ms=1, cpu_ms=3, memory_bytes=90)
TURN_ENDS = ["ok", "ok", "error", "cancelled", "diverged", "poison"]


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
                                "spec": ProcessSpec(who[1:], tools=("x",), budget=(None, LITTLE)[c % 2]).to_json(),
                                "made_by": ("operator", "agent", "peer:o")[b % 3]},
            "process.started": {"address": who, "pid": 4096 + seq},
            "process.exited": {"address": who, "pid": 1, "reason": ("crash", "normal")[c % 2], "detail": "d"},
            "process.slot": {"address": who, "why": "w", "state": ("removed", "stopped", "parked")[c % 3]},
            "message.accepted": message(seq, who, reply_to=f"{turn}:{ordinal}", rights=["y", "x"],
                                        topic=("", "telemetry.t")[c % 2]),
            "message.sent": sent(seq, who + "@o", wants_reply=bool(c % 2),
                                    reply_to=("", f"t{seq}:0.0")[c % 2], answer_by_us=5),
            "message.keyed": {"id": f"m{old}", "to": who, "key": "kj"[c % 2], "request": "r"},
            "message.acknowledged": {"id": f"m{old}"},
            "message.replied": {"id": f"m{old}"},
            "message.dead": {"id": f"m{old}", "why": "w", "reason": ("", "down")[c % 2]},
            "message.replayed": {"id": f"m{old}", "as": f"m{seq}"},
            "message.dropped": {"id": f"m{old}", "by": ("bound", "policy")[c % 2]},
            "topic.subscribed": {"address": who, "pattern": ("a.b", "a.*", "*")[b % 3], "overflow": "dead_letter"},
            "topic.unsubscribed": {"address": who, "pattern": ("a.b", "a.*", "*")[b % 3]},
            "turn.started": {"turn": turn, "message": f"m{old}", "address": who, "attempt": 2},
            "turn.ended": {"turn": turn, "status": TURN_ENDS[c % 6],
                           "stages": ("[]", '[["learn","continue","kept",1]]')[a % 2]},
            "turn.rated": {"turn": turn, "thumb": ("up", "down")[c % 2]},
            "turn.diverged": {"turn": turn, "ordinal": ordinal, "recorded": "{}", "asked": '{"op":"now"}'},
            "turn.decided": {"turn": turn, "ordinal": ordinal, "decision": ("again", "accept")[b % 2]},
            "model.asked": {**call, "call_hash": "h"},
            "model.answered": {**call, "status": "ok", "answer": "{}", "input_tokens": 1, "output_tokens": 2},
            "budget.reserved": {"turn": turn, "ordinal": ordinal, "accounts": [who], "tokens": 5 + c, "input": 3,
                                "last": bool(b % 2),
                                **({"payers": [who], "money": 40, "input_price": 2 * 10**6, "output_price": 10**7,
                                    "cached_price": c, "scopes": ["sender /a", "tier free"][: b % 3],
                                    "day": 20_000 + c} if a % 2 else {})},
            "model.quoted": {**call, "call_hash": "h", "models": ["p/a"], "against": ["", "no"][: c % 2], "number": c},
            "budget.granted": {"address": who, "resource": ("tokens", "money")[b % 2], "amount": c},
            "budget.changed": {"address": who, "then": ("stop", "wrap_up")[a % 2], "amounts": [c, 3 * c][: b % 3],
                               "resources": ["tokens", "money"][: b % 3]},
            "budget.used": {"address": who, "resource": "cpu_ms", "accounts": [who], "amount": c},
            "budget.held": {"address": who, "resource": "memory_bytes", "account": who, "amount": 40 * c},
            "budget.warned": {"address": who, "resource": "tokens", "percent": 80},
            "tool.verdict": {**call, "decision": ("allow", "deny")[a % 2]},
            "sys.value": {**call, "call_hash": "h", "op": "now", "value": (0.5, 7)[c % 2]},
            "session.preferred": {"address": who, "provider": ("", "p")[a % 2], "model": ("", "m")[b % 2],
                                  **({"rate": f"tel:{b % 2}"} if c % 2 else {})},
            "turn.steered": {**call, "call_hash": "h", "messages": [f"m{b % 9}"], "texts": '["x"]'},
            "sys.compaction": {**call, "call_hash": "h", "state": ("started", "done")[c % 2], "written": c,
                               "why": ""},
            "sys.files": {**call, "call_hash": "h", "files": f'[["A.md","d{b % 3}",""]]',
                          "new": f'{{"d{b % 3}":"x"}}'},
            "monitor.set": {**call, "call_hash": "h", "ref": f"r{b % 6}", "target": "x", "address": "/a", "pid": c % 2,
                            "peer": "", "rights": ["x"], "why": "", "link": bool(b % 2), "watcher_pid": c % 3},
            "monitor.traps": {**call, "call_hash": "h", "on": bool(b % 3), "before": False, "rights": ["x"]},
            "monitor.removed": {**call, "call_hash": "h", "ref": f"r{b % 6}", "found": True},
            "monitor.down": {"ref": f"r{b % 6}"},
            "tool.proposed": {**call, "call_hash": "h", "arguments": "{}"},
            "tool.intent": {**call, "attempt": b % 2, "effect_id": "e", "probe": bool(c % 3),
                            "effects": ("none", "local")[a % 2]},
            "tool.outcome": {**call, "status": ("ok", "in_doubt")[a % 2], "result": "r", "truncated": False,
                             "attempt": b % 2},
            "tool.probed": {**call, "attempt": b % 2, "answer": "unknown", "why": ("", "w")[a % 2]},
            "tool.resolved": {**call, "resolution": ("retry", "done")[a % 2]},
            "memory.written": {"id": f"d{b % 6}", "owner": who, "scope": "own", "bytes": seq},
            "memory.forgotten": {"id": f"d{b % 6}"},
            "node.booted": {},
        }  # fmt: skip
        changes: list[Step] = [
            ("pids", str(seq), b""),
            ("session", f"{who}\nmain", msgpack.packb([{"n": seq, "text": "é" * 10 * old}])),
            ("session", f"{who}\nmain", None),
            ("deeds", f"{who}\nmain", None),
            ("files", f"{who}\nmain", None),
            ("inbox", f"o\n{old}", msgpack.packb([f"m{old}", "why"])),
            ("inbox", f"o\n{old}", None),
            ("numbering", "o", msgpack.packb(100 * b)),
            (ERASING, str(old), msgpack.packb([[old, seq]])),
            (ERASING, str(old), None),
            ("trajectory", turn, None),
        ]
        at = which % (len(kinds) + len(changes))
        if at >= len(kinds):
            made.append(changes[at - len(kinds)])
            continue
        kind = list(kinds)[at]
        made.append((kind, kinds[kind] if which < 900 else None, seq, 1000 + seq, bytes(16)))
        seq += 1
        if kind == "turn.ended" and TURN_ENDS[c % 6] in (
            "diverged",
            "poison",
        ):  # a dead letter in the same commit
            made.append(("message.dead", {"id": f"m{old}", "why": "w"}, seq, 1000 + seq, bytes(16)))
            seq += 1
    return made


CHOICES = st.tuples(st.integers(0, 999), *[st.integers(0, 11)] * 3)


@settings(deadline=None, max_examples=400)
@given(st.lists(CHOICES, max_size=60).map(records_of), st.floats(0, 1))
def test_any_records_cut_anywhere(run: list[Step], at: float) -> None:
    cut = int(at * len(run))
    whole = apply(State(*LIMITS), run)
    again = apply(restored(apply(State(*LIMITS), run[:cut])), run[cut:])
    assert view(again) == view(whole)
    unanswered = [mail for box in whole.mail.values() for mail in box.values() if mail.reply_to]
    assert Counter((mail.sender, mail.to) for mail in unanswered) == {
        (asker, asked): count for asker, by in again.mail.waits_for.items() for asked, count in by.items()
    }


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
    twin.kernel.messaging.dead_letter(letter.id, "the test said so")
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
    return story(State(*LIMITS))


def without_outcome_entries(state: State) -> State:
    """``state`` as it is when it was read of a format that did not keep them."""
    for turn in state.turns.values():
        for one in turn.calls.values():
            one.outcome_seq = -1
    return state


def without_ends_in_turns(state: State) -> State:
    """The same of how those ended that died of a message."""
    for turn in state.turns.values():
        turn.ends = ""
    return state


def without_times_of_exits(state: State) -> State:
    """The same of when processes ended."""
    for slot in state.slots.values():
        slot.last_exit = replace(slot.last_exit, time_us=0)
    return state


def test_the_formats_are_these() -> None:
    """Whoever changes what a slice keeps gives that slice another format, and a migration from the one before."""
    kept = {
        kind.__name__: " ".join(field.name for field in fields(kind))
        for kind in (Slot, Exit, Mail, Turn, Call, DeadLetter, Fact, Monitor, Trap)
    }
    assert kept == {
        "Slot": "address parent spec spawned_seq state why pid restarts last_exit made_by changed_seq "
        "suspended suspended_us felled isolated ending",
        "Exit": "pid reason detail time_us",
        "Mail": "id seq sender to text session reply_to wants_reply deadline_us trace rights time_us peer answers "
        "status answer_by_us waiting kind topic inbound",
        "Turn": "id mail address started_seq attempt crashes calls last_answer_seq config result_bytes diverged "
        "losses ends withheld",
        "Call": "ordinal call_hash op seq name arguments state intent_seq attempt outcome unsettled replaces effects "
        "pid on_doubt outcome_seq effect_id probe probed",
        "DeadLetter": "mail why seq time_us reason replays replayed_as",
        "Fact": "id owner scope bytes seq text_hash shown_hash pid",
        "Monitor": "ref seq watcher target address pid peer turn sender session trace rights reason link watcher_pid "
        "turned",
        "Trap": "address seq turn sender session trace rights",
    }
    assert FORMAT == 4
    assert {name: one.FORMAT for name, one in example().slices.items()} == {
        "boots": 1, "pids": 1, "slots": 14, "traces": 1, "documents": 4, "mail": 4, "keyed": 2, "turns": 6,
        "subscriptions": 1, "calls": 7, "deeds": 1, "told_files": 1, "uses": 1,
        "monitors": 2, "traps": 1, "accounts": 4, "rates": 1, "crossings": 5, "dead": 5, "tally": 2, "sessions": 1,
        "turn_logs": 1, "preferences": 1, "trajectories": 1,
    }  # fmt: skip


def test_every_slice_reads_what_it_wrote_and_has_a_migration_from_each_format_before() -> None:
    for name, one in example().slices.items():
        assert set(range(1, one.FORMAT)) <= set(one.MIGRATIONS), name
    assert view(restored(example())) == view(example())


def test_reservations_of_an_earlier_format_hold_no_money() -> None:
    spec = ProcessSpec("a", budget=Budget(tokens=900)).to_json()
    turn = {"turn": "t2", "ordinal": "0.0"}
    reserved = {**turn, "accounts": ["/a"], "tokens": 50, "input": 30, "last": False}
    entries: list[tuple[str, dict[str, Any]]] = [
        ("process.spawned", {"address": "/a", "parent": "/", "spec": spec, "made_by": "operator"}),
        ("process.started", {"address": "/a", "pid": 4096, "cell": ""}),
        ("message.accepted", message(2, "/a")),
        ("turn.started", {"turn": "t2", "message": "m2", "address": "/a", "attempt": 1}),
        ("model.asked", {**turn, "call_hash": "h"}),
        ("budget.reserved", reserved),
    ]
    state = State(*LIMITS)
    for seq, (kind, body) in enumerate(entries):
        state.apply_entry(kind, body, seq, 1000 + seq, bytes(16))
    parts = msgpack.unpackb(encode_state(state))
    rows = parts["slices"]["accounts"][1]
    assert [len(kept) for kept in rows[1]] == [11]
    rows[1] = [kept[:6] for kept in rows[1]]
    parts["slices"]["accounts"] = [1, rows[:4]]
    again = State(*LIMITS)
    restore_state(again, msgpack.packb(parts))
    assert view(again) == view(state)
    assert again.accounts.book.reservations["t2", "0.0"].payers == ()


def test_turns_of_an_earlier_format_have_lost_no_cell_and_count_from_then_on() -> None:
    lost = (
        "process.exited",
        {"address": "/a", "pid": 1, "reason": "cell_lost", "detail": "", "turn": "t4"},
        50,
        1,
        b"",
    )
    now = apply(example(), [lost])
    assert restored(now).turns["t4"].losses == 1
    parts = msgpack.unpackb(encode_state(now))
    parts["slices"]["turns"] = [3, [each[:-3] for each in parts["slices"]["turns"][1]]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb(parts))
    assert old.turns["t4"].losses == 0
    assert apply(old, [lost]).turns["t4"].losses == 1


@pytest.mark.parametrize("format_", [3, 4, 5, 6])
def test_calls_of_an_earlier_format_are_read_and_lack_who_made_them_what_was_said_of_a_doubt_and_their_outcomes_entry(
    format_: int,
) -> None:
    head = {**call("t4", "1.3"), "attempt": 1, "effects": "external", "replaces": ""}
    now = apply(example(), [("tool.intent", {**head, "pid": 4096, "on_doubt": "retry"}, 50, 1, b"")])
    made = now.turns["t4"].calls["1.3"]
    assert [(one.call.pid, one.call.on_doubt) for one in restored(now).intents].count((4096, "retry")) == 1
    parts = msgpack.unpackb(encode_state(now))
    turns, alone = parts["slices"]["calls"][1]
    end = format_ - 9 if format_ < 6 else -3  # formats 3 to 5 added a field each, format 7 three
    kept = [[turn, [each[:end] for each in calls]] for turn, calls in turns]
    rows = [kept, [[*one[:-1], one[-1][:end]] for one in alone]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "calls": [format_, rows]}}))
    if format_ < 6:
        without_outcome_entries(now)
    if format_ < 5:
        made.on_doubt = ""
    if format_ == 3:
        made.pid = 0
    assert view(old) == view(now)


def test_a_snapshot_of_before_the_numbers_of_messages_is_read_and_one_of_now_keeps_them() -> None:
    old, now = State(*LIMITS), apply(example(), [("numbering", "o", msgpack.packb(70))])
    apply(now, [("message.sent", sent(50, "/b@o"), 50, 1, b"")])
    number_of = {mail.id: now.in_transit.number(mail) for mail in now.in_transit.outbox["o"].values()}
    assert number_of == {"m31": 31, "m50": 120}
    parts = msgpack.unpackb(encode_state(now))
    rows = parts["slices"]["crossings"][1]
    assert rows[3:] == [[["m50", 120]], [["o", 70]]]
    outbox, questions, inbox = rows[:3]
    asked = [[ident, None if mail is None else mail[:-3]] for ident, mail in questions]
    former_rows = [[mail[:-3] for mail in outbox], asked, inbox]
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "crossings": [1, former_rows]}}))
    assert view(old)["in_transit"] == {**view(now)["in_transit"], "_numbers": {}, "offset": {}}
    rows[3][0][0] = "m51"
    with pytest.raises(DamageError, match="has a number and is in no outbox"):
        restore_state(State(*LIMITS), msgpack.packb(parts))


def test_of_a_call_made_again_while_an_attempt_is_unsettled_the_more_cautious_word_of_both_is_kept() -> None:
    """Once a person has said what became of it, only that of the next attempt counts."""
    head = {**call("t4", "1.3"), "replaces": "", "pid": 1}
    first = {**head, "attempt": 1, "effects": "external", "on_doubt": "ask"}
    second = {**head, "attempt": 2, "effects": "none", "on_doubt": "retry"}
    retry = {**call("t4", "1.3"), "resolution": "retry", "by": "operator:0"}
    told: list[Any] = [("tool.intent", first, 50, 1, b""), ("tool.intent", second, 51, 1, b"")]
    again = apply(example(), told).turns["t4"].calls["1.3"]
    assert (again.effects, again.on_doubt) == ("external", "ask")
    told.insert(1, ("tool.resolved", retry, 50, 1, b""))
    decided = apply(example(), told).turns["t4"].calls["1.3"]
    assert (decided.effects, decided.on_doubt) == ("none", "retry")


def test_the_snapshot_is_a_map_of_slices_each_with_its_format() -> None:
    state = example()
    parts = msgpack.unpackb(encode_state(state))
    assert (set(parts), parts["format"]) == ({"format", "slices"}, 4)
    assert list(parts["slices"]) == list(state.slices)
    assert {name: format_ for name, (format_, _) in parts["slices"].items()} == {
        name: one.FORMAT for name, one in state.slices.items()
    }


def test_a_slice_hears_exactly_the_kinds_whose_rows_name_it() -> None:
    state = State(*LIMITS)
    named = {(kind, name) for kind, names in HEARS.items() for name in names}
    assert named == {(kind, name) for name, one in state.slices.items() for kind in one.hears()}
    keeps = [table for one in state.slices.values() for table in one.keeps()]
    assert sorted([*keeps, DOCUMENT]) == sorted(TABLES)  # a document's text is not kept in the node


# -- formats of before -----------------------------------------------------------------------------------------------


def test_a_later_format_is_refused() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    with pytest.raises(ForeignDataError, match="format 5, this version knows 4"):
        restore_state(State(*LIMITS), msgpack.packb({**parts, "format": 5}))


def test_a_later_format_of_a_slice_is_refused_and_so_is_a_slice_that_nobody_knows() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    for name, pair, said in (("slots", [15, []], "'slots'.* has format 15"), ("moods", [1, []], "'moods'")):
        slices = {**parts["slices"], name: pair}
        with pytest.raises(ForeignDataError, match=said):
            restore_state(State(*LIMITS), msgpack.packb({**parts, "slices": slices}))


@pytest.mark.parametrize("format", [2, 3, 4])
def test_slots_of_older_formats_lack_fields_and_are_read_with_what_was_true_before(format: int) -> None:
    parts = msgpack.unpackb(encode_state(example()))
    rows = [[*each[:2], SPEC_A, *each[3:8], "", each[9]] for each in parts["slices"]["slots"][1]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "slots": [format, rows]}}))
    assert not {"strategy", "shutdown_s", "significant", "auto_shutdown", "template", "on_logical"} & set(
        json.loads(SPEC_A)
    )
    specs = [slot.spec for slot in old.slots.values()]
    assert {(spec.auto_shutdown, spec.shutdown_s, spec.template) for spec in specs} == {("never", None, None)}
    assert [slot.spec.strategy for slot in old.slots.values()] == ["one_for_one"] * len(rows)


def test_the_spec_of_a_slot_of_an_earlier_format_is_that_which_it_was_made_with() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    rows = [each[:10] for each in parts["slices"]["slots"][1]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "slots": [7, rows]}}))
    assert [slot.changed_seq for slot in old.slots.values()] == [-1] * len(rows)
    assert view(old) == view(example())


def test_a_slot_of_an_earlier_format_has_taken_no_cell_down() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    rows = [each[:13] for each in parts["slices"]["slots"][1]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "slots": [9, rows]}}))
    assert {(slot.felled, slot.isolated) for slot in old.slots.values()} == {(0, False)}


def test_of_a_slot_of_an_earlier_format_no_end_is_foreseen() -> None:
    parts = msgpack.unpackb(encode_state(example()))
    rows = [each[:15] for each in parts["slices"]["slots"][1]]
    old = State(*LIMITS)
    restore_state(old, msgpack.packb({**parts, "slices": {**parts["slices"], "slots": [11, rows]}}))
    assert [slot.ending for slot in old.slots.values()] == [False] * len(rows)


def test_an_end_of_an_earlier_format_is_read_out_of_its_words() -> None:
    assert read_exit("PID 7: crash: KeyError: 'a: b' (x.py:7)") == Exit(
        7, "crash", "KeyError: 'a: b' (x.py:7)"
    )
    assert read_exit("PID 7: shutdown:stopped") == Exit(7, "shutdown:stopped")
    assert [read_exit(text) for text in ("", "PID x: crash", "crash", "PID 7")] == [NEVER] * 4
    end = Exit(7, "crash", "d: e", 5)
    assert read_exit(end.text) == replace(end, time_us=0)


def test_a_snapshot_of_format_3_is_read_whole_but_for_the_entries_of_outcomes_and_the_times_of_ends() -> None:
    old = State(*LIMITS)
    restore_state(old, former(3))
    now = without_ends_in_turns(without_outcome_entries(example()))
    lost = dict.fromkeys(("deeds", "told_files", "turn_logs", "trajectories"))
    assert {**view(old), **lost} == {**view(without_times_of_exits(now)), **lost}


def test_a_snapshot_of_format_2_lacks_who_made_a_slot_and_what_came_of_a_message() -> None:
    old, now = State(*LIMITS), without_ends_in_turns(without_outcome_entries(example()))
    restore_state(old, former(2))
    assert [slot.made_by for slot in old.slots.values()] == ["operator", "operator"]
    assert (old.traces.messages(TRACE), now.traces.messages(TRACE)) == (0, 2)
    lost = dict.fromkeys(("slots", "traces", "deeds", "told_files", "turn_logs", "trajectories"))
    assert {**view(old), **lost} == {**view(now), **lost}


def test_a_snapshot_of_format_1_lacks_parked_turns_and_intents_that_outlive_their_turn_too() -> None:
    old, now = State(*LIMITS), example()
    restore_state(old, former(1))
    assert [intent.id for intent in old.intents] == ["t4:1.0", "t4:1.1"]
    assert [intent.id for intent in now.intents] == ["t4:1.0", "t4:1.1", "t6:0.0"]
    assert [doubt.id for doubt in old.doubts()] == ["t4:1.0"]
    assert [turn.diverged for turn in old.turns.values()] == ["", ""]
    assert (old.boots.count, old.boots.configured, old.boots.accepted) == (1, {}, set())
    lost = dict.fromkeys(
        ("slots", "traces", "boots", "turns", "calls", "deeds", "told_files", "turn_logs", "trajectories")
    )
    assert {**view(old), **lost} == {**view(now), **lost}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_was_read_of_a_former_format_is_written_in_this_one_and_goes_on(number: int) -> None:
    old = State(*LIMITS)
    restore_state(old, former(number))
    again = restored(old)
    assert view(again) == view(old)
    run: list[Step] = [
        ("tool.outcome", {**call("t4", "1.1"), "status": "ok", "result": "r", "truncated": False, "attempt": 1},
         50, 1, b""),
        ("turn.ended", {"turn": "t4", "status": "ok"}, 51, 1, b""),
        ("memory.forgotten", {"id": "d35"}, 52, 1, b""),
    ]  # fmt: skip
    assert view(apply(again, run)) == view(apply(old, run))
    assert old.turn_of("/a") is None and not len(old.documents)
    assert old.tally.accepted == old.tally.acknowledged + old.tally.dead + old.tally.dropped + old.in_flight


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("part", sorted(set(PARTS_3) - {"format"}))
@pytest.mark.parametrize("value", [None, "x", [1], [[1]], [[None] * 17], {"a": 1}, True])
def test_a_part_of_a_former_format_that_is_something_else_is_refused(
    number: int, part: str, value: Any
) -> None:
    parts = {**msgpack.unpackb(former(number)), part: value}
    with pytest.raises(DamageError, match="cannot be read"):
        restore_state(State(*LIMITS), msgpack.packb(parts))


def test_a_part_that_a_former_format_must_have_or_did_not_have_is_refused() -> None:
    parts = msgpack.unpackb(former(3))
    for wrong in ({**parts, "more": []}, {name: parts[name] for name in parts if name != "traces"}):
        with pytest.raises(DamageError, match="not those of a state"):
            restore_state(State(*LIMITS), msgpack.packb(wrong))


# -- damage ----------------------------------------------------------------------------------------------------------


LATER = (
    "turn_logs", "traces", "monitors", "traps", "keyed", "subscriptions", "accounts", "deeds", "told_files", "uses",
    "rates", "preferences", "trajectories",
)  # fmt: skip


@pytest.mark.parametrize("name", list(State(*LIMITS).slices))
@pytest.mark.parametrize("value", [None, "x", [1], [[1]], [[None] * 17], {"a": 1}, True])
def test_rows_that_are_something_else_are_refused(name: str, value: Any) -> None:
    parts = msgpack.unpackb(encode_state(example()))
    format_, _ = parts["slices"][name]
    for pair in ([format_, value], [0, None], [True, []], [-1, []], [format_], value):
        wrong = {**parts, "slices": {**parts["slices"], name: pair}}
        if name in LATER and pair == [0, None]:  # that is what an earlier version had of it
            continue
        with pytest.raises(DamageError, match="cannot be read"):
            restore_state(State(*LIMITS), msgpack.packb(wrong))


def test_a_slice_that_is_missing_is_refused_unless_it_began_later() -> None:
    state = example()
    parts = msgpack.unpackb(encode_state(state))
    for name in state.slices:
        slices = {other: pair for other, pair in parts["slices"].items() if other != name}
        data = msgpack.packb({**parts, "slices": slices})
        if 0 in state.slices[name].MIGRATIONS:
            restore_state(State(*LIMITS), data)
        else:
            with pytest.raises(DamageError, match=f"'{name}' is missing"):
                restore_state(State(*LIMITS), data)


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
