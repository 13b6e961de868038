"""What a resumed turn may see changed without noticing, and what becomes of one that asks something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chain.errors import LedgerUnavailable
from kernel.bounds import Bounds
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall, TurnDiffers
from kernel.errors import NotFound, Refused
from kernel.model.states import ProcessState
from kernel.operations.processes import Processes
from kernel.operations.spawning import OnLogical
from kernel.worker.workers import WorkerCall, WorkerResult
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin, answer_of
from tests.patience import HANG_S

QUESTION = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "?"}]


def state_of(twin: Twin, address: str) -> ProcessState:
    process = twin.kernel.live.at(address)
    assert process is not None
    return process.state


# -- what a check finds before any crash ------------------------------------------------------------------------------


def test_a_replay_that_differed_is_on_record_with_its_turn_and_the_turn_ends_as_it_would_have(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.say(TurnDiffers(at.pid, at.turn, "1.0", "now {}", "nothing"))
        twin.say(TurnDiffers(at.pid, "t999", "1.0", "now {}", "nothing"))  # over since
        twin.finish(at)
        [differed] = await twin.entries("turn.differed")
        [started] = await twin.entries("turn.started")
        assert differed.body == {"turn": at.turn, "ordinal": "1.0", "first": "now {}", "then": "nothing"}
        assert differed.entry.cause == started.entry.seq
        assert [ended.body["status"] for ended in await twin.entries("turn.ended")] == ["ok"]

    on_twin(tmp_path, body)


# -- what the configuration may change -------------------------------------------------------------------------------


def test_a_tool_that_does_not_load_at_a_reboot_changes_nothing_for_an_open_turn(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.ask_model(at, QUESTION, tools=["calculator", "ping"])
        await twin.result()
        await twin.call_tool(at, "pay", {"amount": 5}, 1)

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.ask_model(at, QUESTION, tools=["calculator", "ping"])
        assert (await twin.result())["text"] == "hello"
        assert (await twin.call_tool(at, "pay", {"amount": 5}, 1))["status"] == "ok"
        assert (twin.gateway.asked, twin.workers.calls) == ([], [])
        [asked] = await twin.entries("model.asked")
        assert asked.body["tools"] == ["calculator", "ping"]
        assert json.loads(asked.body["asked"])["provider"] == ""
        twin.finish(at)

    on_twin(tmp_path, before)
    on_twin(tmp_path, after, without=["ping", "pay"])


def test_a_question_asked_again_under_another_configuration_is_recorded_as_it_is_put(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.gateway.answer = lambda request: twin.workers.hold.wait()  # no answer in this boot
        twin.workers.hold.clear()
        twin.ask_model(at, QUESTION, tools=["calculator", "ping"])

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.ask_model(at, QUESTION, tools=["calculator", "ping"])
        await twin.result()
        offered = [record.body["tools"] for record in await twin.entries("model.asked")]
        assert offered == [["calculator", "ping"], ["calculator"]]
        assert [tool["name"] for tool in twin.gateway.asked[0]["tools"]] == ["calculator"]
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_model(again, QUESTION, tools=["calculator", "ping"])
        await twin.result()
        assert len(twin.gateway.asked) == 1

    on_twin(tmp_path, before)
    on_twin(tmp_path, after, without=["ping"])


def test_a_turn_goes_on_with_the_limits_and_the_words_it_began_with(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        assert twin.cells.placed[-1].config["recall_tokens"] == 700
        await twin.send("ada")
        at = await twin.delivery()
        twin.workers.answer = lambda call: WorkerResult("ok", "x" * 100, False, "", 100)
        assert (await twin.call_tool(at, "pay", {}))["text"] == "x" * 64

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        assert twin.cells.placed[-1].config["recall_tokens"] == 700
        assert await twin.call_tool(at, "pay", {}) == {"status": "ok", "text": "x" * 64, "truncated": True}
        assert not twin.cells.configured
        twin.finish(at)
        await twin.send("ada")
        later = await twin.delivery()
        assert twin.cells.configured == [(later.pid, {"recall_tokens": 9})]
        twin.crash(later)
        await twin.delivery()
        assert twin.cells.placed[-1].config["recall_tokens"] == 9 and len(twin.cells.configured) == 1

    on_twin(tmp_path, before, bounds=Bounds(tool_result_bytes=64))
    on_twin(tmp_path, after, recall_tokens=9)


# -- divergence ------------------------------------------------------------------------------------------------------


async def diverged(twin: Twin, **fields: Any) -> Delivery:
    """Ada has paid 5 in a turn, crashed, and asks to pay 6 there. Another message waits behind it."""
    await twin.spawn("ada", **fields)
    await twin.send("ada", "pay")
    await twin.send("ada", "next")
    at = await twin.delivery()
    await twin.call_tool(at, "pay", {"amount": 5})
    twin.crash(at)
    again = await twin.delivery()
    twin.ask_tool(again, "pay", {"amount": 6})
    return again


def test_an_answer_to_what_was_asked_before_is_no_answer_to_a_long_question_that_is_being_read(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada", "pay")
        at = await twin.delivery()
        answered = asyncio.Event()

        async def late() -> dict[str, Any]:
            await answered.wait()
            return answer_of("yes, pay bob")

        twin.gateway.answer = lambda request: late()
        twin.ask_model(at, [{"role": "user", "content": "shall I pay bob?"}])
        await until(lambda: twin.gateway.asked)
        twin.crash(at)
        again = await twin.delivery()
        answered.set()
        twin.ask_model(again, [{"role": "user", "content": "shall I pay eve? " + "y" * 60_000}] * 50)
        await until(lambda: twin.kernel.divergences.rows())
        assert twin.cells.results.empty()
        assert [record.body["ordinal"] for record in await twin.entries("model.answered")] == ["0.0"]

    on_twin(tmp_path, body)


@pytest.mark.parametrize(("on_logical", "state"), [("park", "parked"), ("end", "stopped")])
def test_one_that_is_to_park_or_end_for_logical_reasons_does_so_of_a_turn_that_diverges(
    tmp_path: Path, on_logical: OnLogical, state: str
) -> None:
    async def body(twin: Twin) -> None:
        again = await diverged(twin, on_logical=on_logical)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == state)
        await until(lambda: not twin.kernel.state.mail.get("/user/ada"))
        [parked] = await twin.entries("turn.diverged")
        exited = (await twin.entries("process.exited"))[-1]
        assert (exited.body["reason"], exited.body["pid"]) == ("diverged", again.pid)
        assert (exited.entry.cause, exited.body["detail"]) == (
            parked.entry.seq,
            f"{again.turn} diverged at call 0.0",
        )
        dead = await twin.entries("message.dead")
        assert [one.body["id"] for one in dead][:1] == [again.message.id] and len(dead) == 2
        assert not twin.kernel.divergences.rows() and again.turn not in twin.kernel.state.turns

    on_twin(tmp_path, body)


def test_a_turn_that_has_diverged_ends_its_process_also_after_a_boot(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await diverged(twin)
        await until(lambda: twin.kernel.divergences.rows())
        assert twin.kernel.state.slots["/user/ada"].state == "running"
        await control_of(twin)(Processes.change, "ada", on_logical="park")

    async def after(twin: Twin) -> None:
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == "parked")
        assert (await twin.entries("process.exited"))[-1].body["reason"] == "diverged"

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_a_turn_that_diverges_is_parked_with_both_calls_and_its_message_is_not_dead(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await diverged(twin)
        [row] = twin.kernel.divergences.rows()
        assert (row["id"], row["address"], row["ordinal"]) == (at.turn, "/user/ada", "0.0")
        recorded, asked = row["recorded"], row["asked"]
        assert (recorded["name"], recorded["arguments"], recorded["outcome"]) == ("pay", '{"amount":5}', "ok")
        assert (asked["op"], asked["name"], json.loads(asked["arguments"])) == ("tool", "pay", {"amount": 6})
        assert twin.cells.ended[-1][:2] == (at.pid, at.turn)
        assert state_of(twin, "/user/ada") is ProcessState.SUSPENDED
        assert (dict(twin.kernel.state.dead), await twin.entries("turn.ended")) == ({}, [])
        assert len(twin.workers.calls) == 1
        twin.ask_tool(at, "pay", {"amount": 7}, 1)  # of a turn that is not open any more
        await twin.spawn("bob")
        await twin.send("bob")
        assert (await twin.delivery()).message.text == "hi"  # and nothing of ada's came before
        assert twin.cells.deliveries.empty()

    async def rebooted(twin: Twin) -> None:
        await twin.delivery()  # bob's
        [row] = twin.kernel.divergences.rows()
        assert (row["recorded"]["arguments"], row["asked"]["op"]) == ('{"amount":5}', "tool")
        assert state_of(twin, "/user/ada") is ProcessState.SUSPENDED
        assert (twin.cells.deliveries.empty(), twin.workers.calls) == (True, [])

    on_twin(tmp_path, body)
    on_twin(tmp_path, rebooted)


def test_a_parked_turn_is_handed_out_again_when_what_changed_was_put_right(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        first = await diverged(twin)
        assert await twin.kernel.divergences.decide(first.turn, "again", "operator:0") == "/user/ada"
        at = await twin.delivery()
        assert (at.turn, state_of(twin, "/user/ada")) == (first.turn, ProcessState.RUNNING)
        assert (await twin.call_tool(at, "pay", {"amount": 5}))["status"] == "ok"
        assert len(twin.workers.calls) == 1
        twin.finish(at)
        assert (await twin.delivery()).message.text == "next"
        with pytest.raises(NotFound, match="is parked; weftos divergences list"):
            await twin.kernel.divergences.decide(at.turn, "again", "operator:0")

    on_twin(tmp_path, body)


def test_a_person_may_let_the_new_call_stand(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        await twin.call_tool(at, "calculator", {"expression": "1+1"})
        await twin.call_tool(at, "pay", {"amount": 5}, 1)
        await twin.call_tool(at, "pay", {"amount": 9}, 10)
        twin.crash(at)
        at = await twin.delivery()
        await twin.call_tool(at, "calculator", {"expression": "1+1"})
        twin.ask_tool(at, "pay", {"amount": 6}, 1)
        await twin.kernel.divergences.decide(at.turn, "accept", "operator:0")
        at = await twin.delivery()
        assert list(twin.kernel.state.turns[at.turn].calls) == ["0.0"]
        await twin.call_tool(at, "calculator", {"expression": "1+1"})
        assert (await twin.call_tool(at, "pay", {"amount": 6}, 1))["status"] == "ok"
        assert [json.loads(call.arguments)["amount"] for call in twin.workers.calls] == [5, 9, 6]
        [decided] = await twin.entries("turn.decided")
        assert (decided.body["decision"], decided.body["by"]) == ("accept", "operator:0")

    on_twin(tmp_path, body)


def test_what_is_in_doubt_must_be_decided_before_it_can_be_forgotten(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        twin.workers.hold.clear()
        at = await twin.delivery()
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.ask_tool(at, "pay", {"amount": 6})
        [row] = twin.kernel.divergences.rows()
        assert row["recorded"]["outcome"] == "in doubt"
        with pytest.raises(Refused, match=r"call 0\.0 \(pay\) of t\d+ has no outcome yet"):
            await twin.kernel.divergences.decide(at.turn, "accept", "operator:0")
        assert twin.kernel.state.doubts()

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_call_that_was_never_begun_can_be_forgotten_and_one_that_may_begin_cannot(tmp_path: Path) -> None:
    async def never(call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        twin.workers.look = never  # type: ignore[method-assign]  # what its file holds is not known yet
        at = await twin.delivery()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "one"})
        twin.crash(at)
        twin.ask_tool(await twin.delivery(), "file_write", {"path": "a", "content": "two"})
        with pytest.raises(Refused, match=r"call 0\.0 \(file_write\) of t\d+ has no outcome yet"):
            await twin.kernel.divergences.decide(at.turn, "accept", "operator:0")

    async def after(twin: Twin) -> None:
        [row] = twin.kernel.divergences.rows()
        await twin.kernel.divergences.decide(row["id"], "accept", "operator:0")
        at = await twin.delivery()
        assert (await twin.call_tool(at, "file_write", {"path": "a", "content": "two"}))["status"] == "ok"
        assert [json.loads(call.arguments)["content"] for call in twin.workers.calls] == ["two"]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


async def forgotten_ask(twin: Twin) -> tuple[Delivery, Delivery]:
    """Ada asked bob, who has not answered in time, and then asked something else in its place, which a person let
    stand. Her turn, handed out again, and bob's.
    """
    await twin.spawn("ada")
    await twin.spawn("bob")
    await twin.send("ada")
    at = await twin.delivery()
    asked = await twin.call_tool(at, "ask", {"to": "bob", "text": "how many?", "timeout_s": 1})
    assert asked["status"] == "timeout"
    bob = await twin.delivery()
    twin.crash(at)
    twin.ask_tool(await twin.delivery(), "pay", {"amount": 6})
    await twin.kernel.divergences.decide(at.turn, "accept", "operator:0")
    return await twin.delivery(), bob


def test_a_late_answer_to_a_forgotten_question_is_not_the_outcome_of_the_call_in_its_place(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        at, bob = await forgotten_ask(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 6})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)
        twin.finish(bob, "forty-two")
        assert len(await twin.entries("turn.ended")) == 1
        twin.workers.hold.set()
        assert await twin.result() == {"status": "ok", "text": "done", "truncated": False}
        told = [(record.body["tool"], record.body["result"]) for record in await twin.entries("tool.outcome")]
        assert told == [("ask", "no reply within 1 s"), ("pay", "done")]

    on_twin(tmp_path, body)


def test_a_question_in_the_place_of_a_forgotten_one_has_its_own_answer_and_its_own_time(
    tmp_path: Path,
) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("abe")
        await twin.send("abe", "first")
        await twin.delivery()
        at, _ = await forgotten_ask(twin)
        twin.ask_tool(at, "ask", {"to": "abe", "text": "how much?", "timeout_s": 60})

    async def after(twin: Twin) -> None:
        turns = {at.message.text: at for at in [await twin.delivery() for _ in range(3)]}
        twin.ask_tool(turns["hi"], "ask", {"to": "abe", "text": "how much?", "timeout_s": 60})
        twin.finish(turns["how many?"], "forty-two")
        twin.finish(turns["first"])
        twin.finish(await twin.delivery(), "six")
        assert await twin.result() == {"status": "ok", "text": "six", "truncated": False}

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_person_may_give_a_parked_turn_up(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await diverged(twin)
        with pytest.raises(Refused, match="decision 'maybe' is none of again, accept, dead"):
            await twin.kernel.divergences.decide(at.turn, "maybe", "operator:0")
        await twin.kernel.divergences.decide(at.turn, "dead", "operator:0")
        assert (await twin.delivery()).message.text == "next"
        [letter] = twin.kernel.state.dead.values()
        assert letter.why == "diverged at call 0.0, and a person gave it up"
        assert [record.body["status"] for record in await twin.entries("turn.ended")] == ["diverged"]

    on_twin(tmp_path, body)


def test_a_model_question_and_a_value_diverge_in_the_same_way(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.ask_model(at, QUESTION)
        await twin.result()
        twin.say(CellAsked(at.pid, CellCall(at.turn, 1, 0, "now", Nothing())))
        await twin.result()
        twin.crash(at)
        at = await twin.delivery()
        twin.ask_model(at, [{"role": "system", "content": "be long"}, *QUESTION[1:]])
        [row] = twin.kernel.divergences.rows()
        told: list[dict[str, Any]] = [json.loads(row[side]["arguments"]) for side in ("recorded", "asked")]
        assert [json.loads(one["first"])["content"] for one in told] == ["be brief", "be long"]
        await twin.kernel.divergences.decide(at.turn, "again", "operator:0")
        at = await twin.delivery()
        twin.ask_model(at, QUESTION)
        await twin.result()
        twin.say(CellAsked(at.pid, CellCall(at.turn, 1, 0, "random", Nothing())))
        [row] = twin.kernel.divergences.rows()
        assert (row["ordinal"], row["recorded"]["op"], row["asked"]["op"]) == ("1.0", "now", "random")

    on_twin(tmp_path, body)


def test_a_parked_process_can_be_stopped_and_its_message_is_then_dead_by_that(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await diverged(twin)
        twin.kernel.processes.stop("/user/ada")
        assert [letter.why for letter in twin.kernel.state.dead.values()] == ["/user/ada is stopped"] * 2

    on_twin(tmp_path, body)


def test_a_decision_that_the_disk_takes_late_acts_when_it_does(tmp_path: Path) -> None:
    """It is recorded and cannot be made again: whoever decided is told that the disk refuses, and the turn goes on."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await diverged(twin)
        await twin.ledger.barrier()
        disk.full = True
        with pytest.raises(LedgerUnavailable):
            await twin.kernel.divergences.decide(at.turn, "again", "operator:0")
        assert state_of(twin, "/user/ada") == "suspended"
        disk.full = False
        assert (await twin.delivery()).turn == at.turn

    on_twin(tmp_path, body, disk=disk)
