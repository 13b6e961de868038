"""The command line's face: which commands there are, what their help costs, and that its page tells the truth."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.weftos.twins.control_twin import Twin, served
from tools.cli_docs import TARGET, document
from weftos.cli.app import app

COMMANDS = """
init up down status doctor
cluster/up cluster/down cluster/status nodes monitor node/id node/where
peer/add peer/list peer/remove peer/heads peer/decide token/create token/list token/revoke
new run apply delete
spawn ps tree inspect children send chat cancel logs stack events stop start kill change rm
unpark restart suspend resume
tools trace trajectories rate
publish broadcast topics/list topics/subscribe topics/unsubscribe
context deadletters/list deadletters/show deadletters/replay deadletters/drop doubts/list doubts/resolve doubts/show
sessions/export sessions/import sessions/search sessions/list sessions/show sessions/delete sessions/undo
divergences/list divergences/show divergences/decide policy/explain budget/show budget/caps budget/grant
memory/add memory/search memory/show memory/forget memory/stats memory/reindex
chain/status chain/log chain/show chain/why chain/verify chain/key chain/rotate chain/erase
chain/timeline chain/turn chain/stats chain/receipt chain/check chain/prove chain/export
chain/sql chain/rebuild
config/view config/validate config/reload
"""
HEAVY = ("httpx", "starlette", "pydantic", "uvicorn", "chain", "kernel", "ray", "duckdb", "asyncio", "rich")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its path."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, below in inner.items():
        yield from leaves(below, (*path, name))


ALL = dict(leaves(get_command(app)))


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *arguments], capture_output=True, text=True)


def test_the_commands_are_exactly_these() -> None:
    assert sorted("/".join(path) for path in ALL) == sorted(COMMANDS.split())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_json_and_words_for_each_option(path: tuple[str, ...]) -> None:
    parameters = {parameter.name: parameter for parameter in ALL[path].params}
    assert "as_json" in parameters
    assert ALL[path].help
    assert [name for name, parameter in parameters.items() if not parameter.help and name != "help"] == []


def test_every_command_answers_help() -> None:
    code = f"""
from typer.main import get_command
from weftos.cli.app import app
command = get_command(app)
for path in {sorted(ALL)!r}:
    try:
        command.main([*path, "--help"], "weftos")
    except SystemExit as ended:
        assert not ended.code, path
    else:
        raise AssertionError(path)
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Print JSON on stdout") == len(ALL)


def loaded(*words: str) -> set[str]:
    """The modules outermost in what ``weftos WORDS`` has loaded when it ends, which it does well, beside the table of
    operations."""
    code = """
import sys
from weftos.cli import main
sys.argv = ["weftos", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code
    table = {name for name in sys.modules if f"{name}.".startswith("kernel.operations.")} | {"kernel"}
    print("\\nLOADED", *{module.partition(".")[0] for module in sys.modules.keys() - table})
"""
    done = python("-c", code, *words)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_help_loads_nothing_heavy() -> None:
    found = loaded("--help")
    assert "typer" in found
    assert found & set(HEAVY) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("ps",),
        ("tree", "--all"),
        ("status",),
        ("nodes",),
        ("send", "ada", "hi"),
        ("deadletters", "list"),
    ],
    ids=" ".join,
)
def test_a_command_that_asks_the_node_loads_its_client_and_nothing_heavy(words: tuple[str, ...]) -> None:
    with served(Twin()) as data:
        found = loaded(*words, "--data", str(data))
    assert "httpx" in found
    assert found & (set(HEAVY) - {"httpx"} | {"click", "pygments", "markdown_it"}) == set()


def test_python_m_weftos_is_the_command() -> None:
    done = python("-m", "weftos", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("weftos ")


def test_wrong_use_exits_2() -> None:
    assert python("-m", "weftos", "nothing").returncode == 2


def test_the_page_of_commands_is_up_to_date() -> None:
    assert TARGET.read_text() == document(), "run python -m tools.cli_docs"
