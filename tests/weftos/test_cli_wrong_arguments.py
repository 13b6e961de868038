"""Every command with wrong and hostile arguments, with a node and with none: it says what is wrong on stderr, in words,
exits with 1 or 2, and repeats neither control characters nor a megabyte.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import pytest
from typer.main import get_command

from tests.surface.test_command_line import leaves
from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.control_twin import Twin, served
from weftos.cli.app import app

HOSTILE = {
    "control": "a\x1b[31mb\x07\rc",
    "bytes": os.fsdecode(b"\xff\xfe"),
    "long": "A" * 2**20,
    "long for a request": "A" * 60_000,
    "empty": "",
    "number": "9" * 40,
}
PATHS = {
    "missing": "/proc/nowhere/at/all",
    "no directory": "file/below",
    "no user": "~nobody-of-that-name/x",
    "a pipe that nobody writes": "pipe",
}
COMMANDS = {" ".join(path): command for path, command in leaves(get_command(app))}
STARTS = {
    "up",
    "cluster up",
    "doctor",
}  # a value that is right would start a node here, or load all that one needs
ARCHIVE = {"chain sql", "chain rebuild"}  # the twin has none
MOST = 12_000


def arguments(name: str) -> list[str]:
    """One for each that the command takes."""
    return ["2" for one in COMMANDS[name].params if one.param_type_name == "argument"]


def misuses(name: str) -> Iterator[tuple[str, ...]]:
    """Command lines that are no use of it, and so never reach a node."""
    yield *name.split(), "--no-such\x1boption"
    yield *name.split(), *arguments(name), "one\x1b", "too" * 2**20, "many"


def lines(name: str, values: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Command lines with one hostile value each, in place of each argument and of each option's value."""
    good = arguments(name)
    options = [
        one.opts[0] for one in COMMANDS[name].params if one.param_type_name == "option" and not one.is_flag
    ]
    for value in () if name in STARTS else values:
        for at in range(len(good)):
            yield *name.split(), *good[:at], "--", value, *good[at + 1 :]
        for option in options:
            yield *name.split(), option, value, *good


@pytest.fixture(scope="module", params=["node", "no node"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if request.param == "node":
        with served(Twin()) as place:
            yield place
    else:
        yield tmp_path_factory.mktemp("data")


@pytest.fixture
def shell(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "file").write_bytes(bytes(range(256)))
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Shell(data, monkeypatch, capsys)


@pytest.mark.parametrize("part", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_argument_is_answered_in_words(name: str, part: int, shell: Shell) -> None:
    """Every ``part``-th line of them."""
    runs = (shell.data / "boot.json").exists()
    if runs and name in ARCHIVE:
        pytest.skip("the twin has no archive")
    wrong = lines(name, [*HOSTILE.values(), *(() if runs else PATHS.values())])
    for line in islice(wrong if runs else chain(misuses(name), wrong), len(name) % part, None, part):
        status, out, err = shell.run(*line)
        shown = " ".join(line)[:80]
        assert status in (0, 1, 2), shown
        assert status == 0 or err.strip() or out.strip(), shown
        assert len(err) <= MOST, shown
        marks = [mark for mark in ("Errno", "Traceback", "\x1b", "\x07", "\r") if mark in err + out]
        assert not marks, (shown, err)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("status", "--data", "file"), "file is not a directory: give the node's with --data"),
        (("status", "--data", "blank"), "start one with weftos up"),
        (("status", "--data", "A" * 2**20), "File name too long"),
        (("status", "--data", "~nobody-of-that-name"), "~nobody-of-that-name is nobody's home directory"),
        (("cluster", "status", "--data", "file"), "give the cluster's directory with --data"),
        (("spawn", "zed", "--isolation", "x"), "'x' is not one of 'shared', 'dedicated'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_without_a_node_it_says_what_is_wrong(line: tuple[str, ...], words: str, shell: Shell) -> None:
    Path("blank").mkdir()
    status, out, err = shell.run(*line)
    assert (status != 0, out, words in err) == (True, "", True), err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("inspect", "A" * 2**20), "too long for a name"),
        (("logs", "A" * 2**20), "too long for a name"),
        (("token", "revoke", "A" * 2**20), "too long for a name"),
        (("token", "revoke", HOSTILE["bytes"]), "give text in UTF-8"),
        (("monitor", "ada", "--timeout", "9" * 40), "less than or equal to"),
        (("peer", "add", "n2", "origin", "--may", HOSTILE["control"]), r"b\x07\rc is none of"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else "",
)
def test_with_a_node_it_says_what_is_wrong(
    line: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Twin()) as place:
        status, out, err = Shell(place, monkeypatch, capsys).run(*line)
    assert (status != 0, out, words in err) == (True, "", True), err
