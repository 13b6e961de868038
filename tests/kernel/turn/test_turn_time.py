"""A turn has so much time: what counts as it, and what becomes of a turn that has none left."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any

from kernel.model.states import ProcessState
from kernel.process.turn_time import TurnTime
from kernel.worker.workers import WorkerResult
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin, answer_of


def test_it_stands_while_anything_is_waited_for_that_is_nobodys_work() -> None:
    now = [100.0]
    time = TurnTime(10, lambda: now[0])
    seen = []
    for at_s, event in (
        (104, "hold"), (105, "hold"), (150, "go_on"), (200, ""), (300, "go_on"), (300, "go_on"), (303, ""), (999, ""),
    ):  # fmt: skip
        now[0] = at_s
        if event:
            getattr(time, event)()
        seen.append(time.left_s())
    assert seen == [6, 6, 6, 6, 6, 6, 3, 0]  # the last word that it goes on was one too many
    assert TurnTime(None, lambda: 9e9).left_s() == inf


def run_out(twin: Twin) -> None:
    """The time of the only turn is over."""
    process = next(one for one in twin.kernel.live.all() if one.turn)
    process.time.limit_s = 0.0
    twin.kernel.turns._look_at_time(process, process.turn)


def test_a_question_under_way_is_given_up_and_nothing_more_is_begun(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        never = asyncio.Event()

        async def silent(request: dict[str, Any]) -> Any:
            await never.wait()

        twin.gateway.answer = silent
        at = await turn_of_ada(twin)
        twin.ask_model(at, [{"role": "user", "content": "hi"}])
        while not twin.gateway.asked:
            await asyncio.sleep(0)
        run_out(twin)
        answer = await twin.result()
        assert (answer["status"], answer["error_kind"]) == ("error", "cancelled")
        assert "the most it may (total_timeout_secs)" in answer["text"] and twin.gateway.cancelled
        refused = await twin.call_tool(at, "pay", {"amount": 1}, 1)
        assert refused["status"] == "denied" and "total_timeout_secs" in refused["text"]
        twin.ask_model(at, [{"role": "user", "content": "then?"}], 2)
        again = await twin.result()
        assert (again["status"], again["error_kind"]) == ("error", "refused") and not twin.workers.calls
        twin.finish(at, "as far as it went", [{"role": "user", "content": "hi"}], "error")
        await twin.ledger.barrier()
        assert twin.kernel.state.sessions[at.message.sender and "/user/ada", "main"].records == 1

    on_twin(tmp_path, body)


def test_a_turn_that_does_not_end_then_by_itself_is_ended(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        run_out(twin)
        run_out(twin)
        end = await twin.end_of(mail)
        assert end["status"] == "error" and "(total_timeout_secs)" in end["reply"]
        assert (at.pid, at.turn, end["reply"]) in twin.cells.ended

    on_twin(tmp_path, body)


def test_a_place_at_a_provider_and_a_back_off_take_no_time_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        turn = twin.kernel.state.turns[at.turn]
        [process] = [one for one in twin.kernel.live.all() if one.turn]
        held: list[bool] = []
        before = process.time
        process.time = _Heard(held)
        twin.ask_model(at, [{"role": "user", "content": "hi"}])
        await twin.result()
        assert held == []  # it was neither put later nor had to wait
        twin.kernel.turns.stands(turn, True)
        twin.kernel.turns.stands(turn, False)
        assert held == [True, False]
        process.time = before

    on_twin(tmp_path, body)


class _Heard(TurnTime):
    def __init__(self, held: list[bool]) -> None:
        super().__init__()
        self._heard = held

    def hold(self) -> None:
        self._heard.append(True)

    def go_on(self) -> None:
        self._heard.append(False)


def test_a_person_is_waited_for_beside_the_time_of_the_turn(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        [process] = [one for one in twin.kernel.live.all() if one.turn]
        twin.workers.answer = lambda call: WorkerResult("changed", "somebody else did", False, "", 4)
        twin.ask_tool(at, "pay", {"amount": 1})
        while process.state is not ProcessState.SUSPENDED:
            await asyncio.sleep(0.001)
        left = process.time.left_s()
        await asyncio.sleep(0.01)
        assert process.time.left_s() == left > 0
        run_out(twin)
        run_out(twin)  # a turn that waits for a person is not ended
        assert at.turn in twin.kernel.state.turns
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "lost", "operator")
        assert (await twin.result())["status"] == "lost"
        used = process.time.used_s()
        await asyncio.sleep(0.01)
        assert process.time.used_s() > used

    on_twin(tmp_path, body)


def test_a_call_has_no_more_than_the_turn_has_left_and_no_more_than_is_configured(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.call_tool(at, "pay", {"amount": 1})
        await twin.call_tool(at, "ping", {}, 1)
        [process] = [one for one in twin.kernel.live.all() if one.turn]
        process.time.limit_s = 5.0
        await twin.call_tool(at, "ping", {"again": 1}, 2)
        first, second, third = (call.timeout_s for call in twin.workers.calls)
        assert (first, second) == (2.0, 9.0) and 0 < third <= 5

    agent = {"execution": {"tool_timeout_secs": 9}, "tools": {"pay": {"timeout_secs": 2}}}
    on_twin(tmp_path, body, agent=agent)


def test_an_answer_is_there_again_when_the_next_delivery_begins_its_time_anew(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        twin.gateway.answer = lambda request: answer_of("known")
        at = await turn_of_ada(twin)
        twin.ask_model(at, [{"role": "user", "content": "hi"}])
        await twin.result()
        run_out(twin)
        twin.crash(at)
        after = await twin.delivery()
        twin.ask_model(after, [{"role": "user", "content": "hi"}])
        assert (await twin.result())["text"] == "known"
        refused = await twin.call_tool(after, "calculator", {"expression": "1+1"}, 1)
        assert refused == {"status": "ok", "text": "2", "truncated": False}

    on_twin(tmp_path, body)
