"""So many calls of one turn are with workers at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernel.bounds import Bounds
from kernel.syscall.execution.at_once import AtOnce
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin


def test_who_waits_begins_when_another_is_over_in_the_order_of_their_coming() -> None:
    begun: list[str] = []
    at_once = AtOnce(2)
    for who in "abcd":
        at_once.enter("t1", who, lambda who=who: begun.append(who))  # type: ignore[misc]
    at_once.enter("t2", "e", lambda: begun.append("e"))
    assert begun == ["a", "b", "e"]
    at_once.leave("t1", "c")  # it was taken back, and had not begun
    at_once.leave("t1", "nobody")
    at_once.leave("t1", "a")
    assert begun == ["a", "b", "e", "d"]
    for turn, who in (("t1", "a"), ("t1", "b"), ("t1", "d"), ("t2", "e"), ("t2", "e")):
        at_once.leave(turn, who)
    at_once.enter("t1", "f", lambda: begun.append("f"))
    assert begun[-1] == "f" and list(at_once._turns) == ["t1"]


def test_one_whose_begin_ends_at_once_makes_room_in_turn() -> None:
    at_once, begun = AtOnce(1), list[str]()

    def begin(who: str) -> None:
        begun.append(who)
        at_once.leave("t", who)

    at_once.enter("t", "first", lambda: begun.append("first"))
    for who in ("a", "b", "c"):
        at_once.enter("t", who, lambda who=who: begin(who))  # type: ignore[misc]
    at_once.leave("t", "first")
    assert begun == ["first", "a", "b", "c"] and not at_once._turns


def test_the_calls_of_a_round_beyond_them_wait_in_the_node_and_are_withdrawn_with_their_turn(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()
        for index in range(4):
            twin.ask_tool(at, "pay", {"amount": index}, index=index)
        while len(twin.workers.calls) < 2:
            await asyncio.sleep(0)
        await twin.ledger.barrier()
        for _ in range(20):
            await asyncio.sleep(0)
        assert [call.arguments for call in twin.workers.calls] == ['{"amount":0}', '{"amount":1}']
        assert len(await twin.entries("tool.intent")) == 4
        twin.finish(at)  # the behaviour ends the turn while they are under way
        await twin.ledger.barrier()
        outcomes = [(one.body["ordinal"], one.body["status"]) for one in await twin.entries("tool.outcome")]
        assert sorted(outcomes) == [("0.2", "killed"), ("0.3", "killed")]
        twin.workers.hold.set()
        while len(await twin.entries("tool.outcome")) < 4:
            await asyncio.sleep(0.01)
        assert len(twin.workers.calls) == 2

    on_twin(tmp_path, body, bounds=Bounds(worker_calls_per_turn=2))


def test_a_call_that_was_withdrawn_before_its_intent_was_on_disk_keeps_no_place(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_tool(at, "pay", {"amount": 1})
        twin.kernel.processes.exit(at.pid, "killed")
        again = await twin.delivery()
        outcome = await twin.call_tool(again, "pay", {"amount": 1})
        assert outcome["status"] in ("ok", "killed")
        assert (await twin.call_tool(again, "ping", {}, 1))["status"] == "ok"

    on_twin(tmp_path, body, bounds=Bounds(worker_calls_per_turn=1))
