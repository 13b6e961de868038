"""Tool calls whose turn ends before they do: withdrawn when they had not begun, otherwise kept until it is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.errors import LedgerUnavailable
from kernel.abi import Effects, OnDoubt
from kernel.bounds import Bounds
from kernel.control.erasure import check_unused
from kernel.errors import NotFound, Refused
from kernel.slices.turns import Call
from kernel.syscall.doubts import node_policy
from kernel.upkeep.erasure import Plan
from kernel.worker.workers import WorkerCall, WorkerLost, WorkerResult, WorkerUnavailable
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins import kernel_twin
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin
from tests.patience import HANG_S

PAY = {"amount": 5}
WRITE = {"path": "a", "content": "b"}


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():
            await asyncio.sleep(0.001)


async def held_back(twin: Twin, **fields: Any) -> Delivery:
    """Ada pays in a turn, and no worker is free for it."""
    at = await turn_of_ada(twin, **fields)
    twin.workers.free.clear()
    twin.ask_tool(at, "pay", PAY)
    await until(lambda: twin.workers.waiting)
    return at


async def under_way(twin: Twin, tool: str = "pay", arguments: Mapping[str, object] = PAY) -> Delivery:
    """Ada makes a call in a turn, and a worker is at it until the test lets it go on."""
    at = await turn_of_ada(twin)
    twin.workers.hold.clear()
    twin.ask_tool(at, tool, arguments)
    await until(lambda: twin.workers.calls)
    return at


async def filled(twin: Twin, disk: FullDisk, to: str = "ada") -> asyncio.Task[Any]:
    """The disk is full from now on, and the ledger knows it by the message that is being sent."""
    await twin.ledger.barrier()
    disk.full = True
    sending = asyncio.create_task(twin.send(to))
    await until(lambda: twin.ledger.read_only is not None)
    return sending


def cut(twin: Twin, at: Delivery) -> None:
    process = twin.kernel.live.get(at.pid)
    assert process is not None
    assert twin.kernel.turns.cut_short(process, "cancelled", "enough")


def lost(call: WorkerCall) -> WorkerResult:
    raise WorkerLost("its worker died")


async def outcomes(twin: Twin) -> list[tuple[str, str]]:
    return [(r.body["tool"], r.body["status"]) for r in await twin.entries("tool.outcome")]


async def settled(twin: Twin) -> None:
    """Another call has gone all the way: whatever was to be handed over before it has been."""
    twin.workers.free.set()
    await twin.spawn("eve")
    await twin.send("eve")
    eve = await twin.delivery()
    assert (await twin.call_tool(eve, "ping", {}))["status"] == "ok"


# -- what had not begun ----------------------------------------------------------------------------------------------


def _cancel(twin: Twin, at: Delivery) -> None:
    cut(twin, at)


def _stop(twin: Twin, at: Delivery) -> None:
    twin.kernel.processes.stop("/user/ada")
    twin.kernel.processes.exit(at.pid, "killed", "did not stop within 5 s")


def _return(twin: Twin, at: Delivery) -> None:
    twin.finish(at)


@pytest.mark.parametrize("end", [_cancel, _stop, _return])
def test_what_was_not_handed_over_is_withdrawn_when_its_turn_ends(
    tmp_path: Path, end: Callable[[Twin, Delivery], None]
) -> None:
    async def body(twin: Twin) -> None:
        at = await held_back(twin, restart="temporary")
        end(twin, at)
        await settled(twin)
        assert [call.tool for call in twin.workers.calls] == ["ping"]
        assert await outcomes(twin) == [("pay", "killed"), ("ping", "ok")]
        assert not twin.kernel.state.doubts() and not len(twin.kernel.state.intents)

    on_twin(tmp_path, body)


def test_a_call_whose_intent_is_not_on_the_disk_yet_is_withdrawn_too(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_tool(at, "pay", PAY)
        cut(twin, at)
        await settled(twin)
        assert await outcomes(twin) == [("pay", "killed"), ("ping", "ok")]

    on_twin(tmp_path, body)


def test_who_is_killed_finds_that_nothing_was_done(tmp_path: Path) -> None:
    """The turn goes on in the next incarnation, which is told so and may decide anew."""

    async def body(twin: Twin) -> None:
        at = await held_back(twin)
        twin.kernel.processes.kill("/user/ada", "kill")
        again = await twin.delivery()
        assert again.turn == at.turn
        twin.ask_tool(again, "pay", PAY)
        told = await twin.result()
        assert (told["status"], "nothing was done" in told["text"]) == ("killed", True)
        await settled(twin)
        assert [call.tool for call in twin.workers.calls] == ["ping"]

    on_twin(tmp_path, body)


def test_a_crash_withdraws_nothing(tmp_path: Path) -> None:
    """It is an accident: the turn goes on, and so does what it asked for."""

    async def body(twin: Twin) -> None:
        at = await held_back(twin)
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "pay", PAY)
        twin.workers.free.set()
        assert (await twin.result())["status"] == "ok"
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


def test_who_is_killed_before_it_takes_up_the_turn_of_its_predecessor_has_its_calls_withdrawn(
    tmp_path: Path,
) -> None:
    """The turn is that of the address, and nobody runs it just then: its call waits all the same."""

    async def body(twin: Twin) -> None:
        at = await held_back(twin)
        twin.crash(at)
        starting = twin.kernel.live.at("/user/ada")
        assert starting is not None and (starting.pid != at.pid, starting.turn) == (True, "")
        twin.kernel.processes.kill("/user/ada", "kill")
        again = await twin.delivery()
        twin.ask_tool(again, "pay", PAY)
        told = await twin.result()
        assert (told["status"], "nothing was done" in told["text"]) == ("killed", True)
        await settled(twin)
        assert [call.tool for call in twin.workers.calls] == ["ping"]

    on_twin(tmp_path, body)


@pytest.mark.parametrize("tool", ["pay", "file_write"])
def test_a_call_is_withdrawn_in_the_very_round_in_which_it_was_asked(tmp_path: Path, tool: str) -> None:
    """Its attempt has not taken its first step by then."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        arguments = WRITE if tool == "file_write" else PAY
        twin.ask_tool(at, tool, arguments)
        twin.kernel.processes.kill("/user/ada", "kill")
        again = await twin.delivery()
        twin.ask_tool(again, tool, arguments)
        told = await twin.result()
        assert (told["status"], "nothing was done" in told["text"]) == ("killed", True)
        assert not twin.workers.calls

    on_twin(tmp_path, body)


def test_a_withdrawal_is_recorded_once_when_the_disk_refuses_it_at_first(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await held_back(twin)
        sending = await filled(twin, disk)
        cut(twin, at)
        await until(lambda: not twin.workers.waiting)
        assert twin.kernel.state.turns
        disk.full = False
        await until(lambda: at.turn not in twin.kernel.state.turns)
        assert await outcomes(twin) == [("pay", "killed")]
        assert not twin.workers.calls
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


@pytest.mark.parametrize("how", [_cancel, _return])
def test_a_call_that_was_held_back_is_not_made_when_its_turn_has_ended_meanwhile(
    tmp_path: Path, how: Callable[[Twin, Delivery], None]
) -> None:
    """The end waits for the disk as the call does, and behind it."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        sending = await filled(twin, disk)
        twin.ask_tool(at, "send_message", {"to": "ada", "text": "too late"})
        how(twin, at)
        disk.full = False
        await until(lambda: at.turn not in twin.kernel.state.turns)
        texts = [record.body["text"] for record in await twin.entries("message.accepted")]
        assert "too late" not in texts
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_known_of_a_call_is_recorded_though_its_turn_ends_before_the_disk_takes_it(
    tmp_path: Path, killed: bool
) -> None:
    """No worker took it: that is no doubt, and nothing is done in its place."""
    disk, asked = FullDisk(), asyncio.Event()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()

        async def run(call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> WorkerResult:
            asked.set()
            await twin.workers.hold.wait()
            raise WorkerUnavailable("it does not start")

        twin.workers.run = run  # type: ignore[method-assign]  # a worker that does not start, when the test says so
        twin.ask_tool(at, "pay", PAY)
        await asked.wait()
        sending = await filled(twin, disk)
        twin.workers.hold.set()
        await until(lambda: twin.kernel.recorder.waiting)
        if killed:
            twin.kernel.processes.kill("/user/ada", "kill")
        else:
            cut(twin, at)
        disk.full = False
        await until(lambda: twin.ledger.read_only is None and not len(twin.kernel.state.intents))
        assert await outcomes(twin) == [("pay", "error")]
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_a_call_that_had_not_begun_when_the_node_stopped_is_made_at_the_next_boot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await held_back(twin)

    async def after(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()
        at = await twin.delivery()
        assert (await twin.call_tool(at, "pay", PAY))["status"] == "ok"
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize("tool", ["pay", "file_write"])
def test_a_call_of_a_process_that_was_killed_just_before_the_node_stopped_is_not_made_at_the_next_boot(
    tmp_path: Path, tool: str
) -> None:
    arguments = PAY if tool == "pay" else WRITE

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.free.clear()
        twin.ask_tool(at, tool, arguments)
        twin.kernel.processes.kill("/user/ada", "kill")

    async def after(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()
        at = await twin.delivery()
        told = await twin.call_tool(at, tool, arguments)
        assert (told["status"], "nothing was done" in told["text"]) == ("killed", True)
        assert not twin.workers.calls

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


# -- what had begun --------------------------------------------------------------------------------------------------


async def pay_and_cancel(twin: Twin) -> Delivery:
    at = await under_way(twin)
    cut(twin, at)
    await until(lambda: at.turn not in twin.kernel.state.turns)
    return at


async def pay_and_cancel_lost(twin: Twin) -> None:
    """Ada pays, is cancelled meanwhile, and the worker dies of it."""
    if not twin.kernel.live.at("/user/ada"):
        await twin.spawn("ada")
    await twin.send("ada")
    at, before = await twin.delivery(), len(twin.kernel.state.doubts())
    twin.workers.answer = lost
    twin.workers.hold.clear()
    twin.ask_tool(at, "pay", PAY)
    await until(lambda: len(twin.workers.calls) > before)
    cut(twin, at)
    twin.workers.hold.set()
    await until(lambda: len(twin.kernel.state.doubts()) > before)


def test_a_cancelled_call_that_was_under_way_when_the_node_died_is_in_doubt(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await pay_and_cancel(twin)

    async def after(twin: Twin) -> None:
        [doubt] = twin.kernel.state.doubts()
        assert (doubt.call.name, doubt.address, doubt.turn in twin.kernel.state.turns) == (
            "pay",
            "/user/ada",
            False,
        )
        with pytest.raises(Refused, match="has ended"):
            await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        with pytest.raises(Refused, match="has no outcome yet"):
            check_unused(Plan(turns=[doubt.turn]), twin.kernel.state)
        await twin.kernel.tool_calls.resolve(doubt.id, "done", "operator:0")
        assert await outcomes(twin) == [("pay", "in_doubt"), ("pay", "ok")]
        assert not len(twin.kernel.state.intents)
        check_unused(Plan(turns=[doubt.turn]), twin.kernel.state)
        with pytest.raises(NotFound):
            await twin.kernel.tool_calls.resolve(doubt.id, "done", "operator:0")

    async def later(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)
    on_twin(tmp_path, later)


def test_what_comes_of_a_call_after_its_turn_is_recorded(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await pay_and_cancel(twin)
        assert await outcomes(twin) == []
        twin.workers.hold.set()
        await until(lambda: not len(twin.kernel.state.intents))
        assert await outcomes(twin) == [("pay", "ok")]

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [("pay", PAY, "in_doubt"), ("file_write", WRITE, "in_doubt"), ("ping", {}, "lost")],
)
def test_a_worker_lost_after_the_turn_leaves_what_the_tool_says(
    tmp_path: Path, tool: str, arguments: dict[str, object], status: str
) -> None:
    """Nothing is done again for a turn that is over."""

    async def body(twin: Twin) -> None:
        at = await under_way(twin, tool, arguments)
        cut(twin, at)
        twin.workers.answer = lost
        twin.workers.hold.set()
        await until(lambda: not any(not one.call.doubt for one in twin.kernel.state.intents))
        assert await outcomes(twin) == [(tool, status)]
        assert [doubt.call.name for doubt in twin.kernel.state.doubts()] == [tool] * (status == "in_doubt")
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


async def _another_ada(twin: Twin) -> int:
    """The process at the address is removed, and another one begun there; its PID."""
    twin.kernel.processes.stop("/user/ada")
    await until(lambda: twin.kernel.live.at("/user/ada") is None)
    await twin.kernel.processes.remove("/user/ada", True)
    return await twin.spawn("ada")


def test_what_comes_of_a_call_is_said_of_who_made_it_though_another_has_its_address(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await under_way(twin)
        cut(twin, at)
        assert await _another_ada(twin) > at.pid
        twin.workers.answer = lost
        twin.workers.hold.set()
        await until(twin.kernel.state.doubts)
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "lost", "operator:0")
        found = await twin.entries("tool.intent", "tool.outcome", "tool.resolved")
        kinds = ["tool.intent", "tool.outcome", "tool.resolved", "tool.outcome"]
        assert [(r.entry.kind, r.entry.pid) for r in found] == [(kind, at.pid) for kind in kinds]

    on_twin(tmp_path, body)


def test_who_made_a_call_is_known_over_a_boot_and_whoever_made_the_next_attempt_after_it(
    tmp_path: Path,
) -> None:
    first: list[Delivery] = []

    async def before(twin: Twin) -> None:
        first.append(await under_way(twin))

    async def after(twin: Twin) -> None:
        again = await twin.delivery()
        [doubt] = twin.kernel.state.doubts()
        twin.ask_tool(again, "pay", PAY)
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        assert (await twin.result())["status"] == "ok"
        found = await twin.entries("tool.intent", "tool.outcome", "tool.resolved")
        assert [(r.entry.kind, r.entry.pid) for r in found] == [
            ("tool.intent", first[0].pid),
            ("tool.outcome", first[0].pid),
            ("tool.resolved", first[0].pid),
            ("tool.intent", again.pid),
            ("tool.outcome", again.pid),
        ]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_doubt_outlives_the_cancelling_of_its_turn(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.answer = lost
        twin.ask_tool(at, "pay", PAY)
        await until(twin.kernel.state.doubts)
        cut(twin, at)
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "lost", "operator:0")
        assert await outcomes(twin) == [("pay", "in_doubt"), ("pay", "lost")]
        twin.workers.answer = lambda call: WorkerResult("ok", "done", False, "", 4)
        await twin.send("ada")
        assert (await twin.call_tool(await twin.delivery(), "pay", {"amount": 6}))["status"] == "ok"

    on_twin(tmp_path, body)


def test_a_retry_that_nobody_asked_for_again_is_in_doubt_when_its_turn_ends(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await under_way(twin, "file_write", WRITE)

    async def after(twin: Twin) -> None:
        cut(twin, await twin.delivery())
        await until(twin.kernel.state.doubts)  # its probe does not know
        assert [doubt.call.name for doubt in twin.kernel.state.doubts()] == ["file_write"]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize("how", ["unavailable", "refused", "withdrawn", "denied"])
def test_that_a_second_attempt_was_not_made_says_nothing_of_the_first(tmp_path: Path, how: str) -> None:
    async def before(twin: Twin) -> None:
        await under_way(twin, "file_write", WRITE)

    def refuse(call: WorkerCall) -> WorkerResult:
        if how == "refused":
            return WorkerResult("refused", "no", False, "", 2)
        raise WorkerUnavailable("no such worker")

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.workers.answer = refuse
        if how == "withdrawn":
            twin.workers.free.clear()
        if how == "denied":
            process = twin.kernel.live.get(at.pid)
            assert process is not None
            process.rights = frozenset()
        twin.ask_tool(at, "file_write", WRITE)
        if how == "withdrawn":
            await until(lambda: twin.workers.waiting)
            cut(twin, at)
        await until(twin.kernel.state.doubts)
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "done", "operator:0")
        assert await outcomes(twin) == [("file_write", "in_doubt"), ("file_write", "ok")]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_question_is_not_sent_twice_when_its_answer_was_given_up_in_vain(tmp_path: Path) -> None:
    """The letter was to be dead, the disk refused, the process died: its successor waits for the same answer."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        asked = await twin.delivery()
        sending = await filled(twin, disk, "bob")
        with pytest.raises(LedgerUnavailable):
            twin.kernel.turns.poison(twin.kernel.state.turns[at.turn], at.pid, "it crashed")
        twin.crash(at)
        disk.full = False
        await asyncio.gather(sending, return_exceptions=True)
        again = await twin.delivery()
        twin.ask_tool(again, "ask", {"to": "bob", "text": "?"})
        await until(lambda: twin.ledger.read_only is None)
        twin.finish(asked, "it is 42")
        assert (await twin.result())["text"] == "it is 42"
        questions = [r for r in await twin.entries("message.accepted") if r.body["text"] == "?"]
        assert len(questions) == 1

    on_twin(tmp_path, body, disk=disk)


def test_a_word_that_comes_before_its_doubt_is_on_the_disk_is_heard(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        at = await under_way(twin)
        disk.ready.clear()
        twin.workers.answer = lost
        twin.workers.hold.set()
        await until(twin.kernel.state.doubts)
        twin.workers.answer = lambda call: WorkerResult("ok", "paid", False, "", 4)
        word = asyncio.create_task(twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "retry", "operator:0"))
        await until(lambda: not twin.kernel.state.doubts())
        disk.ready.set()
        await word
        assert (await twin.result())["text"] == "paid"
        assert len(twin.workers.calls) == 2

    on_twin(tmp_path, body, disk=disk)


def test_a_word_that_the_disk_takes_late_is_heard_when_it_does(tmp_path: Path) -> None:
    """It is recorded and cannot be said again: whoever said it is told that the disk refuses, and the turn goes on."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.answer = lost
        twin.ask_tool(at, "pay", PAY)
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        await until(lambda: process.state == "suspended")
        await twin.ledger.barrier()
        disk.full = True
        with pytest.raises(LedgerUnavailable):
            await twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "done", "operator:0")
        assert twin.cells.results.empty()
        disk.full = False
        assert (await twin.result())["status"] == "ok"
        assert process.state == "running"

    on_twin(tmp_path, body, disk=disk)


@pytest.mark.parametrize("effects", ["external", "local"])
def test_a_tool_that_had_effects_when_it_was_called_is_in_doubt_though_it_has_none_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effects: Effects
) -> None:
    async def call(twin: Twin) -> None:
        await under_way(twin)

    async def boot(twin: Twin) -> None:
        at = await twin.delivery()
        assert [doubt.call.name for doubt in twin.kernel.state.doubts()] == ["pay"]
        twin.ask_tool(at, "pay", PAY)
        await settled(twin)
        assert [call.tool for call in twin.workers.calls] == ["ping"]

    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, effects=effects))
    on_twin(tmp_path, call)
    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, effects="none"))
    on_twin(tmp_path, boot)


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ("ask", "retry", "in_doubt"),
        ("ask", "lost", "in_doubt"),
        ("lost", "retry", "in_doubt"),
        ("retry", "lost", "in_doubt"),
        ("retry", "ask", "in_doubt"),
        ("lost", "lost", "lost"),
        ("retry", "retry", ""),
    ],
)
def test_a_doubt_is_decided_without_a_person_when_its_tool_said_so_then_and_says_so_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: OnDoubt, now: OnDoubt, told: str
) -> None:
    async def call(twin: Twin) -> None:
        await under_way(twin)

    async def boot(twin: Twin) -> None:
        at = await twin.delivery()
        assert await outcomes(twin) == ([("pay", told)] if told else [])
        twin.ask_tool(at, "pay", PAY)
        if told != "in_doubt":
            assert (await twin.result())["status"] == (told or "ok")
        await settled(twin)
        assert [call.tool for call in twin.workers.calls] == (["ping"] if told else ["pay", "ping"])

    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, on_doubt=then))
    on_twin(tmp_path, call)
    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, on_doubt=now))
    on_twin(tmp_path, boot)


@pytest.mark.parametrize(("then", "now"), [("ask", "lost"), ("lost", "ask"), ("lost", "retry")])
def test_a_call_at_which_the_node_fails_is_put_before_a_person_unless_its_tool_said_and_says_that_it_is_lost(
    then: OnDoubt, now: OnDoubt
) -> None:
    call = Call("0.0", "h", "tool", 1, "pay", attempt=1, effects="external", on_doubt=then)
    assert node_policy(replace(kernel_twin.EXTERNAL, on_doubt=now), call) == "ask"
    assert (
        node_policy(replace(kernel_twin.EXTERNAL, on_doubt="lost"), replace(call, on_doubt="lost")) == "lost"
    )


@pytest.mark.parametrize("bounds", [Bounds(doubts=2), Bounds(tool_arguments_bytes=14, doubts_bytes=16)])
def test_while_too_many_calls_are_in_doubt_no_other_is_made(tmp_path: Path, bounds: Bounds) -> None:
    """They are kept until a person decides, though their turns are over; a restart forgets none."""

    async def before(twin: Twin) -> None:
        for _ in range(2):
            await pay_and_cancel_lost(twin)

    async def after(twin: Twin) -> None:
        await twin.spawn("bob")
        await twin.send("bob")
        at = await twin.delivery()
        told = await twin.call_tool(at, "pay", {"amount": 7})
        assert (told["status"], "doubts: 2 calls" in told["text"]) == ("denied", True)
        assert (await twin.call_tool(at, "calculator", {"expression": "1+1"}, 1))["status"] != "denied"
        assert not twin.workers.calls
        [doubt, _] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "lost", "operator:0")
        assert (await twin.call_tool(at, "pay", {"amount": 7}, 2))["status"] == "ok"

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


# -- a write that is made again --------------------------------------------------------------------------------------


async def write_and_die(twin: Twin) -> None:
    twin.workers.version = "before"
    await under_way(twin, "file_write", WRITE)


def test_each_attempt_at_a_write_bears_what_was_there_before_the_first(tmp_path: Path) -> None:
    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.workers.version = "newer"
        twin.workers.answer = lambda call: WorkerResult("changed", "changed by somebody else", False, "", 7)
        twin.ask_tool(at, "file_write", WRITE)
        await until(twin.kernel.state.doubts)
        [doubt] = twin.kernel.state.doubts()
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        await until(lambda: process.state == "suspended")
        twin.workers.answer = lambda call: WorkerResult("ok", "written", False, "", 7)
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        assert (await twin.result())["text"] == "written"
        intents = await twin.entries("tool.intent")
        assert [r.body["replaces"] for r in intents] == ["before", "before", "newer"]
        said = (await twin.entries("tool.outcome"))[0].body
        assert (said["status"], said["result"]) == ("in_doubt", "changed by somebody else")

    on_twin(tmp_path, write_and_die)
    on_twin(tmp_path, after)


@pytest.mark.parametrize("fault", [WorkerLost("died"), WorkerUnavailable("no such worker")])
def test_a_write_of_which_nobody_can_look_at_the_file_is_not_begun(tmp_path: Path, fault: Exception) -> None:
    async def body(twin: Twin) -> None:
        twin.workers.version = fault
        at = await turn_of_ada(twin)
        told = await twin.call_tool(at, "file_write", WRITE)
        assert (told["status"], "nothing was done" in told["text"]) == ("error", True)
        assert await twin.entries("tool.intent") == []

    on_twin(tmp_path, body)


def test_a_write_is_withdrawn_while_its_file_is_looked_at(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_tool(at, "file_write", WRITE)
        cut(twin, at)
        await settled(twin)
        assert await outcomes(twin) == [("file_write", "killed"), ("ping", "ok")]
        assert [call.tool for call in twin.workers.calls] == ["ping"]

    on_twin(tmp_path, body)
