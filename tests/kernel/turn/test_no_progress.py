"""The kernel's counter of calls that get nowhere, on a node with twins around it."""

from __future__ import annotations

from pathlib import Path

from kernel.bounds import Bounds
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin

SUM = {"expression": "1 + 1"}
BOUNDS = Bounds(same_calls=3, failed_calls=2)


async def ask_in_vain(twin: Twin, at: Delivery, first: int, count: int) -> None:
    for round_ in range(first, first + count):
        assert (await twin.call_tool(at, "calculator", SUM, round_))["text"] == "2"


def test_the_same_call_too_often_ends_the_process_and_its_successor_may_do_otherwise(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await ask_in_vain(twin, at, 0, 3)
        twin.ask_tool(at, "calculator", SUM, 3)
        again = await twin.delivery()
        [exited] = await twin.entries("process.exited")
        words = "calculator was called 3 times in a row with the same arguments and the same result"
        assert (exited.body["reason"], exited.body["detail"]) == ("no_progress", words)
        assert again.message.ends[0].reason == "no_progress"
        await ask_in_vain(twin, again, 0, 3)  # from the record
        assert (await twin.call_tool(again, "calculator", {"expression": "2"}, 3))["text"] == "2"
        twin.finish(again, "two")
        await until(lambda: not twin.kernel.state.mail.get("/user/ada"))
        assert len(await twin.entries("process.exited")) == 1

    on_twin(tmp_path, body, bounds=BOUNDS)


def test_errors_only_end_it_too_and_what_its_spec_says_follows(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin, on_logical="park")
        for round_ in range(2):
            assert (await twin.call_tool(at, "calculator", {"expression": f"{round_} /"}, round_))[
                "status"
            ] == "error"
        twin.ask_tool(at, "calculator", SUM, 2)
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == "parked")
        assert (
            twin.kernel.state.slots["/user/ada"].last_exit.detail == "2 calls of tools in a row have failed"
        )

    on_twin(tmp_path, body, bounds=BOUNDS)


def test_after_a_boot_what_is_on_record_does_not_count(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await ask_in_vain(twin, await turn_of_ada(twin), 0, 3)

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        await ask_in_vain(twin, at, 0, 6)
        twin.ask_tool(at, "calculator", SUM, 6)
        assert (await twin.delivery()).pid > at.pid

    on_twin(tmp_path, before, bounds=BOUNDS)
    on_twin(tmp_path, after, bounds=BOUNDS)


def test_0_ends_nobody(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await ask_in_vain(twin, await turn_of_ada(twin), 0, 9)

    on_twin(tmp_path, body, bounds=Bounds(same_calls=0, failed_calls=0))
