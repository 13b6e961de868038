"""The files that stand in a prompt: bounded, nothing from outside of the workspace, the same in a resumed turn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kernel.abi import TurnResult
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall, TurnDone
from kernel.slices.history import told_files
from kernel.syscall.prompts.workspace_files import FILES, look, read_files
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin


def read(workspace: Path, protected: ProtectedPaths = NOTHING_PROTECTED) -> dict[str, tuple[str, str]]:
    files = read_files(str(workspace), look(str(workspace)), protected)
    return {each.name: (each.text, each.note) for each in files}


def test_those_that_are_there_are_read_in_their_order(tmp_path: Path) -> None:
    for name in [*FILES][::-1]:
        (tmp_path / name).write_text(name)
    (tmp_path / "OTHER.md").write_text("x")
    assert read(tmp_path) == {name: (name, "") for name in FILES}
    assert list(read(tmp_path)) == list(FILES)
    assert look("") == look(str(tmp_path / "nowhere")) == look("relative") == ()


def test_a_memory_of_a_gigabyte_is_shown_as_far_as_it_may_be(tmp_path: Path) -> None:
    with (tmp_path / "MEMORY.md").open("wb") as file:
        file.write("é".encode() * 5_000)
        file.truncate(2**30)
    text, note = read(tmp_path)["MEMORY.md"]
    assert text == "é" * 4_096 and note == f"the first 8192 of {2**30} bytes"


@pytest.mark.parametrize("kind", ["link", "hard", "pipe", "directory", "bytes", "protected"])
def test_what_is_no_file_of_the_workspace_is_not_shown_and_says_why(tmp_path: Path, kind: str) -> None:
    workspace, outside = tmp_path / "w", tmp_path / "outside"
    workspace.mkdir()
    outside.write_text("a secret of others")
    memory, protected = workspace / "MEMORY.md", NOTHING_PROTECTED
    match kind:
        case "link":
            memory.symlink_to(outside)
        case "hard":
            os.link(outside, memory)
        case "pipe":
            os.mkfifo(memory)
        case "directory":
            memory.mkdir()
        case "bytes":
            memory.write_bytes(b"\xff\xfe\x00")
        case _:
            memory.write_text("a secret of others")
            protected = ProtectedPaths([str(memory)])
    text, note = read(workspace, protected)["MEMORY.md"]
    assert text == "" and note.startswith("not shown: ") and "secret" not in note


async def asked(twin: Twin, at: Any) -> dict[str, tuple[str, str]]:
    twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "prompt_files", Nothing())))
    return {each["name"]: (each["text"], each["note"]) for each in (await twin.result())["files"]}


def test_a_resumed_turn_is_given_what_it_was_given_and_the_ledger_says_each_text_once(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    memory = workspace / "MEMORY.md"

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", workspace=str(workspace))
        memory.write_text("first")
        await twin.send("ada")
        at = await twin.delivery()
        assert await asked(twin, at) == {"MEMORY.md": ("first", "")}
        memory.write_text("then")
        twin.crash(at)
        again = await twin.delivery()
        assert await asked(twin, again) == {"MEMORY.md": ("first", "")}
        twin.say(TurnDone(again.pid, again.turn, TurnResult("")))
        for expected in ("then", "then"):
            await twin.send("ada")
            at = await twin.delivery()
            assert await asked(twin, at) == {"MEMORY.md": (expected, "")}
            twin.say(TurnDone(at.pid, at.turn, TurnResult("")))
        told = [record.body["new"] for record in await twin.entries("sys.files")]
        assert ["first" in told[0], "then" in told[1], told[2]] == [True, True, "{}"]

    data = tmp_path / "data"
    data.mkdir()
    on_twin(data, body)


def test_what_sessions_were_told_is_bounded_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.kernel.slices.told import Told

    told = Told()
    monkeypatch.setattr(told_files, "MOST_BYTES", 1_000)
    for number in (1, 2):
        told.message(number, f"/{number}")
        told.turn(number, f"/{number}")
        told.entry(
            "sys.files", turn=f"t{number}", ordinal="0.0", call_hash="h", files='[["A.md","d",""]]',
            new='{"d":"' + "x" * 700 + '"}',
        )  # fmt: skip
    known = told.state.told_files.known
    assert "d" not in known(("/1", "main")) and "d" in known(("/2", "main"))
    assert told.restored().told_files.rows() == told.state.told_files.rows()
    assert "xxx" in str(told.state.turns["t1"].calls["0.0"].outcome), "an open turn keeps what it was given"
    told.entry("process.slot", address="/2", state="removed", why="")
    assert told.state.told_files.rows() == []
