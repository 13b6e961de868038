"""What others can make the node keep: bounded in all, with an eviction that a replay repeats, and told by status.

What a session record of an earlier version says is held to the limits of the state; since then what goes is recorded.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernel.message.events
import kernel.message.watch
import kernel.policy.rules.in_force
import kernel.slices.feed.turn_logs
from chain.ledger.ledger import Draft, Ledger
from kernel.abi import ToolCall
from kernel.bounds import Bounds
from kernel.cell.protocol import ModelQuestion
from kernel.cells.cell_events import CellAsked, CellCall
from kernel.control.totals import log_bytes, totals
from kernel.errors import Busy
from kernel.kernel import Kernel
from kernel.message.watch import Watchers
from kernel.process.asked import Asked
from kernel.slices.sessions import Sessions
from kernel.slices.tree.pids import FORGOTTEN_AT_ONCE, REMEMBERED_PIDS
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from kernel.syscall.models.conversations import SLICE_BYTES
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin, TwinCells, answer_of
from tests.kernel.twins.records import message
from tests.patience import HANG_S

Key = tuple[str, str]


def kept(state: State) -> list[Key]:
    return list(state.sessions)


def remember(state: State, address: str, name: str, size: int = 10) -> None:
    state.apply_change("session", f"{address}\n{name}", msgpack.packb([{"x": "y" * (size - 6)}]))


def test_the_session_that_was_added_to_longest_ago_goes_first() -> None:
    state = State(10, 1000, sessions=3, sessions_bytes=1000)
    for name in "abca":
        remember(state, "/p", name)
    remember(state, "/q", "d")
    assert kept(state) == [("/p", "c"), ("/p", "a"), ("/q", "d")]


def test_sessions_go_by_bytes_too_but_not_the_newest() -> None:
    state = State(10, 1000, sessions=100, sessions_bytes=250)
    for name in "abc":
        remember(state, "/p", name, 100)
    assert kept(state) == [("/p", "b"), ("/p", "c")]
    remember(state, "/p", "d", 251)
    assert kept(state) == [("/p", "d")] and state.sessions.bytes > 250


def test_a_session_whose_turn_is_open_stays() -> None:
    """A resumed turn must be handed the history that it was handed before."""
    state = State(10, 1000, sessions=1, sessions_bytes=1000)
    remember(state, "/a", "main")
    state.apply_entry("message.accepted", message(1, "/a"), 1, 1, b"")
    state.apply_entry(
        "turn.started", {"turn": "t1", "message": "m1", "address": "/a", "attempt": 1}, 2, 1, b""
    )
    remember(state, "/b", "main")
    assert kept(state) == [("/a", "main"), ("/b", "main")]
    state.apply_entry("turn.ended", {"turn": "t1", "status": "ok"}, 3, 1, b"")
    remember(state, "/b", "main")
    assert kept(state) == [("/b", "main")]


STEPS = st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.integers(0, 40), st.integers(0, 9))


@settings(deadline=None, max_examples=200)
@given(st.lists(STEPS, max_size=60), st.sets(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"))))
def test_sessions_are_what_a_plain_list_of_them_would_be(
    steps: list[tuple[str, str, int, int]], open_: set[Key]
) -> None:
    sessions = Sessions((3, 50), 5, 120, (), open_.__contains__)
    plain: dict[Key, list[tuple[int, int]]] = {}
    for address, name, size, what in steps:
        key = address, name
        if what == 0:
            sessions.forget_all(address)
            plain = {other: turns for other, turns in plain.items() if other[0] != address}
            continue
        sessions.keeps()["session"](key, ([{}] * (what % 3), size, None))
        turns = [*plain.pop(key, []), (what % 3, size)]
        while len(turns) > 1 and (sum(n for n, _ in turns) > 3 or sum(s for _, s in turns) > 50):
            del turns[0]
        plain[key] = turns
        for other in list(plain):
            held = sum(s for turns in plain.values() for _, s in turns)
            if other == key or (len(plain) <= 5 and held <= 120):
                break
            if other not in open_:
                del plain[other]
    assert list(sessions) == list(plain)
    assert sessions.bytes == sum(size for turns in plain.values() for _, size in turns)


# -- on a kernel -----------------------------------------------------------------------------------------------------


async def say(twin: Twin, name: str, session: str, text: str = "") -> Delivery:
    """One turn of that session, which remembers ``text``; without one it stays open."""
    mail = await twin.send(name, session=session)
    at = await twin.delivery()
    if text:
        twin.finish(at, "", remember=[{"said": text}])
        await twin.end_of(mail)
    return at


ONE, MANY = Bounds(sessions=1, session_records=1), Bounds()


@pytest.mark.parametrize(("before", "after"), [(MANY, ONE), (ONE, MANY)])
def test_a_turn_that_is_open_over_a_restart_is_handed_the_same_history_whatever_the_limits_are_then(
    tmp_path: Path, before: Bounds, after: Bounds
) -> None:
    handed: list[Any] = []

    async def first(twin: Twin) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name)
            await say(twin, name, "main", "one")
            await say(twin, name, "main", "two")
        await say(twin, "ada", "other", "three")
        handed.append((await say(twin, "ada", "main")).history)
        handed.append((await say(twin, "bob", "main")).history)

    async def then(twin: Twin) -> None:
        resumed = [await twin.delivery(), await twin.delivery()]
        assert [at.history for at in resumed] == handed
        assert ("/user/ada", "other") in twin.kernel.state.sessions

    on_twin(tmp_path, first, bounds=before)
    on_twin(tmp_path, then, bounds=after)
    assert [len(history) for history in handed] == ([2, 2] if before is MANY else [0, 0])


def test_a_new_limit_lets_sessions_go_once_the_node_runs_and_they_do_not_come_back(tmp_path: Path) -> None:
    def left(count: int) -> Callable[[Twin], Awaitable[None]]:
        async def body(twin: Twin) -> None:
            for _ in range(10):  # rounds of the loop, each with some of them
                await asyncio.sleep(0)
            assert kept(twin.kernel.state) == [
                ("/user/ada", f"s{number}") for number in range(150 - count, 150)
            ]
            said = totals(twin.kernel)
            assert said["sessions"] == f"{count} of {twin.kernel.env.bounds.sessions}"
            evicted.append(said["sessions_evicted"])

        return body

    async def first(twin: Twin) -> None:
        await twin.spawn("ada")
        for number in range(150):
            await say(twin, "ada", f"s{number}", "it")

    evicted: list[Any] = []
    on_twin(tmp_path, first)
    on_twin(tmp_path, left(2), bounds=Bounds(sessions=2))
    on_twin(tmp_path, left(2), bounds=MANY)
    assert evicted == [148, 0]


def test_sessions_go_by_bytes_while_the_node_runs(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for session in "abc":
            await say(twin, "ada", session, "x" * 400)
        assert kept(twin.kernel.state) == [("/user/ada", "b"), ("/user/ada", "c")]
        assert twin.kernel.state.sessions.bytes <= 1000

    on_twin(tmp_path, body, bounds=Bounds(session_bytes=1000, sessions_bytes=1000))


def test_dead_letters_are_bounded_by_bytes_and_drops_are_on_the_record(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        letters = [await twin.send("ada", "x" * 400) for _ in range(4)]
        at = await twin.delivery()
        for letter in letters[1:]:
            twin.kernel.messaging.dead_letter(letter.id, "the test said so")
        assert list(twin.kernel.state.dead) == [letter.id for letter in letters[2:]]
        assert twin.kernel.state.dead_bytes == sum(
            letter.mail.size_bytes for letter in twin.kernel.state.dead.values()
        )
        dropped = [record.body for record in await twin.entries("message.dropped")]
        assert dropped == [
            {"id": letters[1].id, "why": "more than 3000 bytes of dead letters", "by": "bound"}
        ]
        tally = twin.kernel.state.tally
        assert tally.accepted == tally.acknowledged + tally.dead + tally.dropped + twin.kernel.state.in_flight
        twin.finish(at)

    on_twin(tmp_path, body, bounds=Bounds(dead_letters_bytes=3000, message_bytes=900))


def test_a_message_is_a_dead_letter_though_what_its_letter_drops_has_to_wait(tmp_path: Path) -> None:
    """Somebody waits for the disk, and the end of the ask goes behind that, and the drop behind the end."""

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.spawn("eve")
        await twin.send("eve")
        at = await twin.delivery()
        first = await twin.send("ada")
        await twin.delivery()
        twin.ask_tool(at, "ask", {"to": "ada", "text": "well"})
        asked = list(twin.kernel.state.mail["/user/ada"])[1]
        twin.kernel.messaging.dead_letter(first.id, "the test said so")
        twin.kernel.recorder.when_writable("somebody", lambda: None)
        assert twin.kernel.messaging.dead_letter(asked, "the test said so") is not None
        assert (await twin.result())["status"] == "error"
        await twin.kernel.recorder.writable()
        assert list(twin.kernel.state.dead) == [asked]

    on_twin(tmp_path, body, bounds=Bounds(dead_letters=1))


def test_one_large_dead_letter_makes_room_for_itself(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        letters = [await twin.send("ada", "x" * size) for size in (1, 300, 300, 300, 4000)]
        for letter in letters[1:]:
            twin.kernel.messaging.dead_letter(letter.id, "the test said so")
        assert list(twin.kernel.state.dead) == [letters[4].id]

    on_twin(tmp_path, body, bounds=Bounds(dead_letters_bytes=5000, message_bytes=4000))


def test_a_node_starts_with_more_mail_than_may_be_and_takes_more_when_some_is_gone(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.spawn("bob")
        for name in ("ada", "ada", "bob"):
            await twin.send(name, "x" * 400)

    async def after(twin: Twin) -> None:
        held = twin.kernel.state.mail_bytes
        assert held == sum(
            mail.size_bytes for box in twin.kernel.state.mail.values() for mail in box.values()
        )
        with pytest.raises(Busy, match=f"{held} bytes of messages wait in this node, limit 3000"):
            await twin.send("bob")
        for ident in list(twin.kernel.state.mail["/user/ada"]):
            twin.kernel.messaging.dead_letter(ident, "the test said so")
        await twin.send("bob")

    on_twin(tmp_path, before)
    on_twin(tmp_path, after, bounds=Bounds(mail_bytes=3000, peer_mail_bytes=3000, message_bytes=900))


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(turn_bytes=3000), "the calls of this turn hold 3"),
        (Bounds(turns_bytes=3000), "the calls of all open turns hold 3"),
    ],
)
def test_a_turn_that_holds_too_much_is_ended_in_words(tmp_path: Path, bounds: Bounds, said: str) -> None:
    async def body(twin: Twin) -> None:
        twin.gateway.answer = lambda request: answer_of("x" * 1500)
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        for round_ in range(2):
            twin.ask_model(at, [{"role": "user", "content": f"{round_}"}], round_)
            await twin.result()
        assert twin.kernel.state.kept_bytes == twin.kernel.state.calls.kept[at.turn] > 3000
        twin.ask_model(at, [{"role": "user", "content": "more"}], 2)
        end = await twin.end_of(mail)
        assert end["status"] == "error" and said in end["reply"]
        assert (twin.kernel.state.calls.kept, twin.kernel.state.kept_bytes) == ({}, 0)

    on_twin(tmp_path, body, bounds=bounds)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(asked_bytes=200_000, model_request_bytes=1000), "the calls of this turn without an answer"),
        (
            Bounds(all_asked_bytes=200_000, asked_bytes=200_000, model_request_bytes=1000),
            "the calls of all turns without an answer",
        ),
    ],
)
@pytest.mark.parametrize("parts", [1, 1000])
def test_a_turn_whose_calls_without_an_answer_are_too_much_is_ended(
    tmp_path: Path, bounds: Bounds, said: str, parts: int
) -> None:
    """Many small calls are as much as one large one."""
    bounds = replace(bounds, syscalls_per_turn=3 * parts)

    async def body(twin: Twin) -> None:
        twin.gateway.answer = never_answered
        for name in ("ada", "bob"):
            await twin.spawn(name)
        mails = [await twin.send(name) for name in ("ada", "bob")]
        ats = [await twin.delivery() for _ in mails]
        args = ModelQuestion(())

        def ask(at: Delivery, round_: int) -> None:
            for index in range(parts):
                twin.say(CellAsked(at.pid, CellCall(at.turn, round_, index, "model", args, 80_000 // parts)))

        ask(ats[0], 0)
        ask(ats[0], 1)
        assert totals(twin.kernel)["asked_bytes"] == f"160000 of {bounds.all_asked_bytes}"
        last, mail = (ats[0], mails[0]) if "this turn" in said else (ats[1], mails[1])
        ask(last, 2)
        end = await twin.end_of(mail)
        assert end["status"] == "error"
        assert f"{said} have {200_000 + 80_000 // parts if parts > 1 else 240_000} bytes" in end["reply"]
        assert twin.kernel.live.asked.bytes == (0 if last is ats[0] else 160_000)

    on_twin(tmp_path, body, bounds=bounds)


async def never_answered_later() -> Any:
    return await asyncio.get_running_loop().create_future()


def never_answered(request: dict[str, Any]) -> Any:
    """A model that says nothing."""
    return never_answered_later()


def test_a_question_counts_until_it_is_answered_though_who_asked_has_crashed(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def wait() -> Any:
            return await answer

        twin.gateway.answer = lambda request: wait()
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        args = ModelQuestion(())
        asked = twin.kernel.live.asked
        twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "model", args, 80_000)))
        twin.crash(at)
        assert asked.bytes == 80_000
        at = await twin.delivery()
        twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "model", args, 80_000)))
        assert asked.bytes == 80_000 and not twin.gateway.cancelled
        answer.set_result(answer_of("hello"))
        assert (await twin.result())["text"] == "hello"
        assert asked.bytes == 0
        twin.finish(at)
        assert (await twin.end_of(mail))["status"] == "ok"

    on_twin(tmp_path, body)


@pytest.mark.parametrize("how", ["answered", "stop", "kill", "cancel", "poison"])
def test_what_was_counted_is_given_back(tmp_path: Path, how: str) -> None:
    async def body(twin: Twin) -> None:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def wait() -> Any:
            return await answer

        twin.gateway.answer = lambda request: wait()
        twin.workers.free.clear()
        await twin.spawn("ada", restart="temporary" if how == "kill" else "permanent")
        mail = await twin.send("ada")
        args = ModelQuestion(())
        tool = ToolCall("pay", "{}")
        asked, processes = twin.kernel.live.asked, twin.kernel.processes
        for _ in range(1 + (how == "poison")):
            at = await twin.delivery()
            twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "model", args, 80_000)))
            twin.say(CellAsked(at.pid, CellCall(at.turn, 1, 0, "tool", tool, 1_000)))
            assert asked.bytes == asked.of(at.turn) == 81_000
            if how == "poison":
                twin.crash(at)
        if how == "answered":
            answer.set_result(answer_of("hello"))
            twin.workers.free.set()
            for _ in range(2):
                await twin.result()
        elif how == "cancel":
            ada = twin.kernel.live.at("/user/ada")
            assert ada is not None and twin.kernel.turns.cut_short(ada, "cancelled", "the test said so")
        elif how in ("stop", "kill"):
            processes.stop("/user/ada") if how == "stop" else processes.exit(at.pid, "killed", "")
            if how == "stop":
                twin.finish(at)
        if how != "answered":
            await twin.end_of(mail)
        assert asked.bytes == 0

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=2))


def test_a_call_that_is_held_back_is_given_up_with_its_process(tmp_path: Path) -> None:
    """It has megabytes, and the disk may refuse for hours."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        await twin.ledger.barrier()
        disk.full = True
        twin.ledger.commit([Draft("message.refused", {"to": "", "sender": "", "why": ""})], durable=True)
        async with asyncio.timeout(HANG_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        args = ModelQuestion(())
        twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "model", args, 80_000)))
        key = ("call", at.turn, "0.0")
        assert key in twin.kernel.recorder._waiting and twin.kernel.live.asked.bytes == 80_000
        twin.crash(at)
        assert key not in twin.kernel.recorder._waiting and twin.kernel.live.asked.bytes == 0
        disk.full = False
        await twin.delivery()
        assert twin.gateway.asked == []

    on_twin(tmp_path, body, disk=disk)


def test_a_long_request_is_not_read_to_its_end_when_its_turn_has_ended(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        twin.ask_model(at, [{"role": "user", "content": "x" * SLICE_BYTES} for _ in range(1000)])
        (task,) = twin.kernel.model_calls._preparing
        twin.finish(at)
        for _ in range(5):  # rounds of the loop, where its slices take a thousand
            await asyncio.sleep(0)
        assert task.done() and not twin.kernel.model_calls._preparing
        assert (await twin.end_of(mail))["status"] == "ok"

    on_twin(tmp_path, body)


SIZES = st.tuples(
    st.sampled_from("hhhrk"), st.sampled_from("xyz"), st.sampled_from("0123"), st.integers(0, 9)
)


@given(st.lists(SIZES, max_size=40))
def test_what_is_counted_is_what_a_plain_table_would_say(steps: list[tuple[str, str, str, int]]) -> None:
    asked, plain = Asked(), dict[tuple[str, str], int]()
    for what, turn, ordinal, size in steps:
        if what == "h":
            asked.hold(turn, ordinal, size)
            plain[turn, ordinal] = size
        elif what == "r":
            asked.release(turn, ordinal)
            plain.pop((turn, ordinal), None)
        else:
            gone = {number for key, number in plain if key == turn and number != ordinal}
            assert set(asked.keep(turn, [ordinal])) == gone
            plain = {key: held for key, held in plain.items() if key[0] != turn or key[1] == ordinal}
        assert asked.bytes == sum(plain.values())
        assert asked.size(turn, ordinal) == plain.get((turn, ordinal), 0)
        assert all(asked.of(one) == sum(s for (t, _), s in plain.items() if t == one) for one in "xyz")


def test_an_answer_makes_room_for_the_next_call(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        args = ModelQuestion(())
        for round_ in range(4):
            twin.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, "model", args, 80_000)))
            assert (await twin.result())["status"] == "ok"
        twin.finish(at)
        assert (await twin.end_of(mail))["status"] == "ok"

    on_twin(tmp_path, body, bounds=Bounds(asked_bytes=100_000, model_request_bytes=1000))


def test_of_a_result_no_more_is_kept_than_is_ever_handed_over(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        result = twin.workers.answer(None)  # type: ignore[arg-type]
        twin.workers.answer = lambda call: type(result)("ok", "é" * 5000, False, "", 10_000)
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        told = await twin.call_tool(at, "pay", {})
        assert (len(told["text"]), told["truncated"]) == (500, True)
        outcome = twin.kernel.state.turns[at.turn].calls["0.0"].outcome
        assert outcome is not None and outcome["result"] == told["text"]

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        told = await twin.call_tool(at, "pay", {})
        assert (told["text"], told["truncated"]) == ("é" * 500, True)

    bounds = Bounds(tool_result_bytes=1000)
    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_status_says_what_is_kept_and_of_how_much(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        twin.finish(await twin.delivery(), "done", [{"role": "user", "content": "hi"}])
        await twin.end_of(mail)
        found = totals(twin.kernel)
        assert found["sessions"] == "1 of 10000"
        assert found["counters"] == len(twin.ledger._sequencer.counts) > 0
        assert set(found) == {
            "sessions", "sessions_bytes", "sessions_evicted", "dead_letters", "dead_letters_bytes",
            "open_turns_bytes", "asked_bytes", "doubts", "doubts_bytes", "counters", "mail_bytes",
        }  # fmt: skip

    on_twin(tmp_path, body)


PASSED_BY = (ModuleType, type, asyncio.AbstractEventLoop, Ledger, TwinCells)


def held(node: Kernel) -> int:
    """Bytes of all that is reached from the parts of a kernel, but for code, the loop, the ledger and cells."""
    seen: dict[int, object] = {}
    found: list[object] = list(vars(node).values())
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, PASSED_BY):
            seen[id(one)] = one
            found += (one.__closure__ or ()) if isinstance(one, FunctionType) else gc.get_referents(one)
    return sum(map(sys.getsizeof, seen.values()))


@pytest.mark.parametrize(
    ("name", "session", "most_bytes"), [("ada", "main", 20), ("ada", "new", 1_400), ("t", "main", 200)]
)
def test_a_turn_that_has_ended_leaves_its_session_alone_and_a_temporary_process_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, session: str, most_bytes: int
) -> None:
    """Each leaves some bytes in the node's memory, as they are counted; not how it ended, which the ledger has. What is
    seen of turns, and the rules that they began with, are kept within bounds of their own, here of the newest alone.
    """
    monkeypatch.setattr(kernel.slices.feed.turn_logs, "MOST_TURNS", 1)
    monkeypatch.setattr(kernel.message.events, "RING", 1)
    monkeypatch.setattr(kernel.policy.rules.in_force, "MOST_KEPT", 1)

    async def turn(twin: Twin, number: int) -> None:
        target = name if name == "ada" else f"{name}{number}"
        if target != "ada":
            await twin.spawn(target, restart="temporary")
        mail = await twin.send(target, session=session if session == "main" else f"{session}{number}")
        at = await twin.delivery()
        await twin.call_tool(at, "calculator", {"expression": "6*7"})
        twin.finish(at, "x" * 100, [{"role": "user", "content": "hi"}] if session == "new" else [])
        await twin.end_of(mail)
        twin.ends.clear()
        if target != "ada":
            twin.kernel.processes.exit(at.pid, "normal", told=True)
            await twin.kernel.processes.effects.settled()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for number in range(40):
            await turn(twin, number)
        before = held(twin.kernel)
        for number in range(40, 160):
            await turn(twin, number)
        assert len(twin.kernel.state.slots) == 2  # /user and ada
        assert held(twin.kernel) - before < 120 * most_bytes

    on_twin(tmp_path, body)


def test_the_newest_pids_are_remembered_and_a_replay_from_a_snapshot_forgets_the_same() -> None:
    def started(state: State, pids: range) -> State:
        for pid in pids:
            state.apply_entry("process.started", {"address": "/a", "pid": pid, "cell": "c"}, pid, 1, b"")
        return state

    most = REMEMBERED_PIDS + FORGOTTEN_AT_ONCE
    first, state = State(10, 1000), State(10, 1000)
    restore_state(state, encode_state(started(first, range(most - 1))))
    assert len(first.pids) == most - 1
    for each in (first, state):
        started(each, range(most - 1, most + 1))
        assert list(each.pids) == list(range(FORGOTTEN_AT_ONCE, most + 1))


def test_a_watcher_that_does_not_read_holds_the_newest_events_within_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel.message.watch, "WATCH_CHARS", 100)
    watchers = Watchers()
    queue = watchers.watch("m1")
    for number in range(20):
        watchers.emit("m1", {"event": "delta", "text": f"{number:035}"})
    assert [queue.get_nowait()["text"] for _ in range(queue.qsize())] == [f"{18:035}", f"{19:035}"]
    watchers.emit("m1", {"event": "delta", "text": "x"})
    watchers.ended("m1", {"status": "ok", "reply": "y" * 1000})
    assert [queue.get_nowait()["event"] for _ in range(queue.qsize())] == ["end"]


def test_what_is_shown_of_a_tool_that_does_not_exist_is_a_name(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        queue = twin.kernel.watchers.watch(mail.id)
        at = await twin.delivery()
        await twin.call_tool(at, "x" * 100_000, {})
        shown = [
            event for event in (queue.get_nowait() for _ in range(queue.qsize())) if event["event"] == "tool"
        ]
        assert [len(event["name"]) <= 64 for event in shown] == [True]

    on_twin(tmp_path, body)


def test_the_bytes_of_logs_are_those_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 10)
    (tmp_path / "b.log").write_bytes(b"x" * 5)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    assert log_bytes(tmp_path) == 15
