"""The examples, named as their README says, in a real worker and through the cells' own loader."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chain.keys.keys import Keys
from kernel.abi import Message, ProcessInfo, ToolResult
from kernel.cell.load import load_behaviour
from kernel.toolbox.arguments import Validator, canonical_json
from kernel.toolbox.files import FileError, list_directory, read_file
from kernel.toolbox.registry import Registry, ToolSource, builtin_declarations
from kernel.worker.loader import load_tool
from kernel.worker.workers import WorkerLimits, Workers, worker_command
from tests.places import ROOT

EXAMPLES = ROOT / "examples"


def readme_settings() -> dict[str, Any]:
    """The TOML of the README, its placeholder filled in as it tells the reader to."""
    text = (EXAMPLES / "README.md").read_text().split("```toml\n")[1].split("```")[0]
    return tomllib.loads(text.replace("/path/to/examples", str(EXAMPLES)))


def tool_source() -> ToolSource:
    settings = readme_settings()["tools"]["word_count"]
    return ToolSource("word_count", settings["import"], tuple(settings["python_path"]))


def test_the_tool_describes_itself_from_a_worker_and_registers(tmp_path: Path) -> None:
    source = tool_source()
    limits = WorkerLimits()
    key = Keys(b"k" * 32, b"m" * 32).ed25519.text

    async def main() -> None:
        workers = Workers(7, key, lambda name: worker_command(name, tmp_path, tmp_path, limits), [source])
        try:
            described = await workers.describe()
        finally:
            await workers.close()
        assert described.faults == {}
        registry = Registry([*builtin_declarations(), *described.declarations], [source])
        declaration = registry["word_count"].declaration
        assert declaration.effects == "none"
        assert declaration.description == "Count the lines, words and characters of a text."
        assert declaration.parameters["properties"]["longest"] == {
            "type": "boolean",
            "default": False,
            "description": "Whether to name the longest word too.",
        }
        registry["word_count"].validator.check({"text": "a b"})

    asyncio.run(main())


def test_the_tool_counts() -> None:
    source = tool_source()
    loaded = load_tool(source.name, source.import_string, source.python_path)
    assert loaded.function(text="one two\nthree", longest=True) == {
        "lines": 2,
        "words": 3,
        "characters": 13,
        "longest": "three",
    }
    Validator(loaded.declaration.parameters).check({"text": ""})


class TwinSyscalls:
    """The tools that the README gives the behaviour, called directly."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace)
        source = tool_source()
        self._count = load_tool(source.name, source.import_string, source.python_path).function
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append((name, arguments))
        tools: dict[str, Callable[..., str]] = {"file_list": list_directory, "file_read": read_file}
        try:
            if name == "word_count":
                text = canonical_json(self._count(**arguments))
            else:
                text = tools[name](self._workspace, **arguments)
        except FileError as error:
            return ToolResult("", name, "error", str(error))
        return ToolResult("", name, "ok", text)


def survey(workspace: Path, text: str) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    settings = readme_settings()["behaviours"]["surveyor"]
    surveyor = load_behaviour(settings["import"], settings["python_path"])
    assert surveyor.__weftos_behaviour__ is True  # type: ignore[attr-defined]
    sys = TwinSyscalls(workspace)
    message = Message("m1", "operator", text, "s1", True)
    behaviour = surveyor(ProcessInfo(7, "/user/surveyor", "surveyor", "surveyor"))
    reply = asyncio.run(behaviour.handle(message, sys))  # type: ignore[arg-type]
    assert isinstance(reply, str)
    return reply, sys.calls


def test_the_behaviour_surveys_a_directory_by_tool_calls_alone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("one two")
    (tmp_path / "b.txt").write_text("three")
    reply, calls = survey(tmp_path, "")
    assert reply == "a.txt: 2\nb.txt: 1"
    assert [name for name, _ in calls] == ["file_list"] + ["file_read", "word_count"] * 2
    assert survey(tmp_path, "") == (reply, calls)


def test_the_behaviour_answers_when_it_may_not_look(tmp_path: Path) -> None:
    reply, calls = survey(tmp_path, "../..")
    assert reply.startswith("surveyor cannot look there: ")
    assert len(calls) == 1
    assert survey(tmp_path, ".")[0] == "no files there"
