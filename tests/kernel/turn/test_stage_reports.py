"""What a behaviour tells of the steps of its turn, on the way into the ledger."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kernel.abi import MOST_STAGES, StageReport, TurnResult
from kernel.cell.process import _result
from kernel.cell.replay import _ends
from kernel.cells.cell_events import TurnDone
from kernel.turn.stage_reports import MOST_US, STAGE_CHARS, WHY_CHARS, shown_stages
from tests.kernel.twins.kernel_twin import kernel_twin


def test_each_step_is_a_row_and_what_a_cell_says_of_it_is_bounded() -> None:
    told = [
        StageReport("route", "continue", "cheap", 17),
        StageReport("x" * 9_000, "abort", "y\x1b" * 9_000, 2**80),
        StageReport("late", "skip", "", -5),
    ]
    first, second, third = json.loads(shown_stages(told))
    assert first == ["route", "continue", "cheap", 17]
    assert len(second[0]) == STAGE_CHARS and len(second[2]) == WHY_CHARS and second[3] == MOST_US
    assert third == ["late", "skip", "", 0]


def test_more_steps_than_are_told_are_left_out_in_the_cell() -> None:
    result = _result(TurnResult("r", stages=tuple(StageReport(f"s{n}", "continue") for n in range(200))))
    assert [stage["stage"] for stage in result["stages"]] == [f"s{n}" for n in range(MOST_STAGES)]


@pytest.mark.parametrize("stages", [("text",), (None,)])
def test_what_is_no_report_is_the_behaviour_s_own_fault(stages: Any) -> None:
    with pytest.raises(TypeError, match="no StageReport"):
        _result(TurnResult("r", stages=stages))


def test_how_long_a_step_took_is_no_difference_in_a_replay_and_what_came_of_it_is() -> None:
    assert not _differs(StageReport("a", "continue", "", 99))
    assert _differs(StageReport("a", "skip", "", 17))


def _differs(then: StageReport) -> bool:
    first = _result(TurnResult("r", stages=(StageReport("a", "continue", "", 17),)))

    async def ended() -> bool:
        async def second() -> TurnResult:
            return TurnResult("r", stages=(then,))

        task = asyncio.get_running_loop().create_task(second())
        await task
        return _ends(task, first, _result) is not None

    return asyncio.run(ended())


def test_the_end_of_a_turn_records_its_steps(tmp_path: Path) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path) as twin:
            await twin.spawn("ada")
            mail = await twin.send("ada", "hello")
            at = await twin.delivery()
            steps = (StageReport("only", "respond", "it was easy", 5),)
            twin.say(TurnDone(at.pid, at.turn, TurnResult("done", (), "ok", steps)))
            await twin.end_of(mail)
            [ended] = await twin.entries("turn.ended")
            assert json.loads(ended.body["stages"]) == [["only", "respond", "it was easy", 5]]

    asyncio.run(run())
