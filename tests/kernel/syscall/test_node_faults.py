"""When the node itself fails at a call: whoever asked is answered, nothing is lost, and the neighbours go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.cell.link.frames import FrameError
from kernel.model.states import ProcessState
from kernel.syscall import tool_calls
from kernel.turn import turns
from kernel.worker.workers import WorkerCall, WorkerResult
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin, go_off

QUESTION = [{"role": "user", "content": "?"}]


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("nobody thought of this")


async def turn_of_ada(twin: Twin) -> Any:
    await twin.spawn("ada")
    await twin.send("ada")
    return await twin.delivery()


def test_a_call_without_effects_at_which_the_node_fails_is_an_error(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.answer = fail
        outcome = await twin.call_tool(at, "file_read", {"path": "x"})
        assert outcome["status"] == "error"
        assert outcome["text"] == "the node failed at this call (RuntimeError)"
        twin.crash(at)
        again = await twin.delivery()
        assert await twin.call_tool(again, "file_read", {"path": "x"}) == outcome

    on_twin(tmp_path, body)


def test_a_call_with_effects_at_which_the_node_fails_is_in_doubt(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.answer = fail
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(LIMIT_S):
            while not twin.kernel.state.doubts():
                await asyncio.sleep(0)
        assert (await twin.call_tool(at, "ping", {}, 1))["status"] == "lost"
        process = twin.kernel.live.get(at.pid)
        assert process is not None and process.state is ProcessState.SUSPENDED
        twin.workers.answer = lambda call: WorkerResult("ok", "paid", False, "", 4)
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        assert (await twin.result())["text"] == "paid"

    on_twin(tmp_path, body)


def test_a_call_that_fails_before_it_is_under_way_is_recorded_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        with monkeypatch.context() as broken:
            broken.setattr(tool_calls, "parse_arguments", fail)
            outcome = await twin.call_tool(at, "pay", {"amount": 5})
        assert (outcome["status"], "RuntimeError" in outcome["text"]) == ("error", True)
        kinds = [r.entry.kind for r in await twin.entries("tool.proposed", "tool.verdict", "tool.intent")]
        assert kinds == ["tool.proposed", "tool.verdict"]
        twin.crash(at)
        assert await twin.call_tool(await twin.delivery(), "pay", {"amount": 5}) == outcome
        assert not twin.workers.calls

    on_twin(tmp_path, body)


def test_a_model_question_at_which_the_node_fails_is_an_error(tmp_path: Path) -> None:
    """As when it was larger as a frame than as characters: its task died, and nobody ever heard of it."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def too_large(request: dict[str, Any]) -> Any:
            raise FrameError("frame of 17000000 bytes, limit 16777216")

        twin.gateway.answer = too_large
        twin.ask_model(at, QUESTION)
        outcome = await twin.result()
        assert (outcome["status"], "FrameError" in outcome["text"]) == ("error", True)
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_model(again, QUESTION)
        assert await twin.result() == outcome

    on_twin(tmp_path, body)


def test_what_cannot_even_be_refused_ends_its_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("bob")
        at = await turn_of_ada(twin)
        monkeypatch.setattr(twin.gateway, "resolve", fail)
        for _ in range(5):
            twin.ask_model(at, QUESTION)
            if twin.kernel.state.turns.get(at.turn) is None:
                break
            at = await twin.delivery()
        [letter] = twin.kernel.state.dead.values()
        assert letter.why == "poison: 5 incarnations crashed while handling it"
        await twin.send("bob")
        assert (await twin.call_tool(await twin.delivery(), "calculator", {"expression": "1+1"}))[
            "text"
        ] == "2"

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=5))


def test_a_result_at_which_the_node_fails_ends_its_turn_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        monkeypatch.setattr(turns, "plain", fail)
        twin.finish(at)
        end = await twin.end_of(mail)
        assert (end["status"], "RuntimeError" in end["reply"]) == ("error", True)
        assert twin.kernel.live.get(at.pid) is not None

    on_twin(tmp_path, body)


def test_a_turn_has_a_deadline(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail, behind = await twin.send("ada"), await twin.send("ada", "next")
        at = await twin.delivery()
        end = await twin.end_of(mail)
        assert (end["status"], end["reply"]) == ("error", "the turn did not end within 0.2 s")
        assert (at.pid, at.turn, end["reply"]) in twin.cells.ended
        assert (await twin.delivery()).message.id == behind.id

    on_twin(tmp_path, body, bounds=Bounds(turn_timeout_s=0.2))


def test_a_turn_that_waits_for_a_person_has_none(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def lost(call: WorkerCall) -> WorkerResult:
            raise RuntimeError

        twin.workers.answer = lost
        twin.ask_tool(at, "pay", {"amount": 5})
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        async with asyncio.timeout(LIMIT_S):
            while process.state is not ProcessState.SUSPENDED:
                await asyncio.sleep(0)
        first = process.overdue
        go_off(first)
        assert process.overdue not in (None, first)  # it found the doubt, and began anew
        assert (process.turn, twin.cells.ended) == (at.turn, [])

    on_twin(tmp_path, body)
