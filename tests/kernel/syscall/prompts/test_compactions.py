"""Compactions on record, their facts in MEMORY.md: what is there stays, nothing outside is written, and once only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.abi import Compaction, Flushed
from kernel.cells.cell_events import CellAsked, CellCall
from kernel.syscall.prompts.memory_file import FACT_CHARS, MOST_FACTS, checked_facts, write_facts
from kernel.syscall.prompts.workspace_files import FILES, MEMORY
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

DONE = Compaction("done", 14, "ab" * 32, "t1", "t7", 900, 40, ("Ada likes tea", "Bob is away"))


def write(workspace: Path, *facts: str) -> Flushed:
    return write_facts(str(workspace), facts, NOTHING_PROTECTED)


def test_facts_are_added_behind_what_is_there_and_none_twice(tmp_path: Path) -> None:
    memory = tmp_path / MEMORY
    assert write(tmp_path, "a", "b") == Flushed(2)
    assert memory.read_text() == "# Memory\n\n- a\n- b\n"
    memory.write_text("mine, without an end\n- b")
    assert write(tmp_path, "b", "c") == Flushed(1)
    assert memory.read_text() == "mine, without an end\n- b\n- c\n"
    assert write(tmp_path, "b", "c") == Flushed(0)


def test_a_memory_is_not_written_beyond_what_a_prompt_shows(tmp_path: Path) -> None:
    memory = tmp_path / MEMORY
    memory.write_text("x" * (FILES[MEMORY] - 6))
    first = write(tmp_path, "a", "b")
    assert (first.written, memory.stat().st_size) == (1, FILES[MEMORY] - 1) and "is full" in first.why
    memory.write_text("x")
    with memory.open("r+b") as file:
        file.truncate(2**30)
    assert write(tmp_path, "a").why.startswith(f"{MEMORY} has {2**30} bytes")
    assert memory.stat().st_size == 2**30


@pytest.mark.parametrize("kind", ["link", "directory", "protected", "nowhere", "none"])
def test_what_is_no_file_of_the_workspace_is_not_written(tmp_path: Path, kind: str) -> None:
    workspace, outside = tmp_path / "w", tmp_path / "outside"
    workspace.mkdir()
    outside.write_text("theirs")
    memory, protected = workspace / MEMORY, NOTHING_PROTECTED
    if kind == "link":
        memory.symlink_to(outside)
    elif kind == "directory":
        memory.mkdir()
    elif kind == "protected":
        protected = ProtectedPaths([str(memory)])
    where = {"nowhere": str(tmp_path / "x"), "none": ""}.get(kind, str(workspace))
    flushed = write_facts(where, ["a"], protected)
    assert flushed.written == 0 and "was not written" in flushed.why
    assert (outside.read_text() == "theirs" and not memory.is_file()) or kind == "link"


def test_facts_of_two_sessions_of_one_agent_that_are_compacted_at_once_are_all_kept(tmp_path: Path) -> None:
    facts = [[f"{of} {number}" for number in range(5)] for of in range(4)]
    with ThreadPoolExecutor(len(facts)) as pool:
        flushed = list(pool.map(lambda each: write_facts(str(tmp_path), each, NOTHING_PROTECTED), facts))
    assert [each.written for each in flushed] == [5] * len(facts)
    lines = (tmp_path / MEMORY).read_text().splitlines()
    assert {f"- {fact}" for each in facts for fact in each} <= set(lines)


def test_facts_are_lines_bounded_in_number_and_length() -> None:
    assert checked_facts(["a\n b\t c", "", "  ", "a b c", "x" * 999]) == ["a b c", "x" * FACT_CHARS]
    assert len(checked_facts([str(n) for n in range(99)])) == MOST_FACTS


def test_one_is_recorded_answered_again_and_seen_and_its_facts_are_written_once(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    data = tmp_path / "data"
    data.mkdir()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", workspace=str(workspace))
        await twin.send("ada")
        at = await twin.delivery()
        for told, flushed in ((replace(DONE, state="started"), (0, "")), (DONE, (2, ""))):
            twin.say(CellAsked(at.pid, CellCall(at.turn, int(told is DONE), 0, "compaction", told)))
            assert tuple((await twin.result()).values()) == flushed
        twin.crash(at)
        again = await twin.delivery()
        (workspace / MEMORY).unlink()
        twin.say(CellAsked(again.pid, CellCall(again.turn, 1, 0, "compaction", DONE)))
        assert tuple((await twin.result()).values()) == (2, "")
        assert not (workspace / MEMORY).exists(), "what is recorded is not done again"
        started, done = [record.body for record in await twin.entries("sys.compaction")]
        assert (started["state"], started["written"], started["last"]) == ("started", 0, "t7")
        assert (done["state"], done["written"], done["facts"]) == (
            "done",
            2,
            '["Ada likes tea","Bob is away"]',
        )
        log = twin.kernel.state.turn_logs.get(at.turn)
        assert log is not None and [one.name for one in log.events].count("memory_flush") == 1
        twin.say(CellAsked(again.pid, CellCall(again.turn, 0, 0, "compaction", DONE)))
        [diverged] = await twin.entries("turn.diverged")
        assert diverged.body["ordinal"] == "0.0"

    on_twin(data, body)
