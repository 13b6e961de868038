"""Who asks a process that ends without an answer is told so: an error, never an empty success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.bounds import Bounds
from kernel.cells.cell_events import CellLeft
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin

Ends = Callable[[Twin, Delivery], None]


def stopped(twin: Twin, at: Delivery) -> None:
    twin.kernel.processes.stop("/user/bob")
    twin.kernel.processes.exit(at.pid, "killed")


def parked(twin: Twin, at: Delivery) -> None:
    twin.say(CellLeft(at.pid, "refused", "I will not"))


def left(twin: Twin, at: Delivery) -> None:
    twin.say(CellLeft(at.pid, "normal", ""))


@pytest.mark.parametrize(
    ("restart", "end", "words"),
    [
        ("permanent", stopped, "is stopped"),
        ("permanent", parked, "is parked"),
        ("transient", left, "is stopped"),
        ("temporary", Twin.crash, "was removed"),
    ],
)
def test_an_ask_of_one_that_ends_for_good_is_an_error(
    tmp_path: Path, restart: str, end: Ends, words: str
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        on_logical = "restart" if restart == "temporary" else "park"
        await twin.spawn("bob", restart=restart, on_logical=on_logical)
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        end(twin, await twin.delivery())
        answer = await twin.result()
        assert answer["status"] == "error"
        assert "dead letter" in answer["text"] and words in answer["text"]

    on_twin(tmp_path, body)


def test_an_ask_of_one_that_dies_of_it_again_and_again_is_an_error(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        for _ in range(2):
            twin.crash(await twin.delivery())
        answer = await twin.result()
        assert answer["status"] == "error"
        assert "poison" in answer["text"]

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=2))


def test_an_ask_whose_answer_is_an_error_is_one(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        twin.finish(await twin.delivery(), "", status="error")
        assert (await twin.result())["status"] == "error"

    on_twin(tmp_path, body)
