"""What leaves a command: tables and trees on a pipe and on a terminal, paged where it is not high enough."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.places import ROOT
from weftos.cli.agents.processes import nest
from weftos.cli.terminal.branches import Branch, branch_lines
from weftos.cli.terminal.output import Output
from weftos.cli.terminal.styles import joined, styled

CODES = re.compile(r"\x1b\[[0-9;]*m")
TABLE = """
from weftos.cli.terminal.output import Output
Output(False).table(("PID", "ADDRESS", "STATE", "TEXT"),
                    [[n, f"/user/agent-{n}", "running", "a few words more than fit"] for n in range(ROWS)], keys=2)
"""


def on_a_terminal(code: str, columns: int, lines: int, **environment: str) -> str:
    """What ``code`` writes to a terminal of that size, which types nothing."""
    screen, inside = pty.openpty()
    ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    given = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=given | {"TERM": "xterm", **environment},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    told = b""
    while select.select([screen], [], [], HANG_S)[0]:
        try:
            told += os.read(screen, 65536)
        except OSError:  # nobody has it open any more
            break
    os.close(screen)
    assert process.wait(HANG_S) == 0, told
    return told.decode().replace("\r\n", "\n")


def table(rows: int, columns: int, lines: int, **environment: str) -> str:
    return on_a_terminal(TABLE.replace("ROWS", str(rows)), columns, lines, **environment)


def test_a_number_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output(False).table(
        ("KEY", "VALUE"), [["share", 0.95], ["least", 0.25], ["wait", 5.0], ["both", [0.05, 1]]]
    )
    assert [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        "0.95",
        "0.25",
        "5.0",
        "0.05, 1",
    ]


def test_a_pipe_has_a_line_a_row_without_styles(capsys: pytest.CaptureFixture[str]) -> None:
    Output(False).table(("PID", "STATE", "TEXT"), [[1, "running", "x" * 300], [20, None, "y"]])
    assert capsys.readouterr().out == f"PID  STATE    TEXT\n  1  running  {'x' * 300}\n 20           y\n"


def test_a_pipe_is_as_wide_as_it_is_said_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for said, fits in (
        ("40", True),
        ("", False),
        ("0", False),
        ("-3", False),
        ("x", False),
        ("9" * 50, False),
    ):
        monkeypatch.setenv("COLUMNS", said)
        Output(False).table(("ID", "TEXT"), [["a" * 20, "word " * 20]])
        out = capsys.readouterr().out
        assert (max(map(len, out.splitlines())) <= 40) is fits
        assert "a" * 20 in out


def test_a_narrow_terminal_shows_addresses_whole_and_states_in_colour() -> None:
    told = table(3, 44, 50)
    assert "\x1b[32mrunning\x1b[0m" in told and "\x1b[1mADDRESS\x1b[0m" in told
    lines = CODES.sub("", told).splitlines()
    assert max(map(len, lines)) <= 44
    assert [line.split()[:2] for line in lines if "/user" in line] == [
        [str(n), f"/user/agent-{n}"] for n in range(3)
    ]
    assert len(lines) > 4


@pytest.mark.parametrize(("environment", "codes"), [({"NO_COLOR": "1"}, {"1"}), ({"TERM": "dumb"}, set())])
def test_no_colours_where_they_are_not_wanted(environment: dict[str, str], codes: set[str]) -> None:
    told = table(1, 80, 50, **environment)
    assert {code[2:-1] for code in CODES.findall(told)} - {"0"} == codes


def test_a_long_table_goes_through_the_pager_and_a_short_one_does_not(tmp_path: Path) -> None:
    kept = tmp_path / "paged"
    pager = f"tee {kept}"
    assert "/user/agent-29" in table(30, 80, 50, PAGER=pager)
    assert not kept.exists()
    assert "/user/agent-99" in table(100, 80, 50, PAGER=pager)
    assert len(CODES.sub("", kept.read_text()).splitlines()) == 101


def test_a_pager_that_is_left_early_or_is_not_there_is_no_error() -> None:
    assert "/user/agent-0 " in table(5_000, 80, 24, PAGER="head -3")
    for none in ("", "/no/such/pager", "'"):
        assert "/user/agent-99" in table(100, 80, 24, PAGER=none)


def test_json_is_neither_a_table_nor_paged(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(True)
    out.document([1])
    out.table(("A",), [[1]])
    out.tree(Branch(styled("root")))
    assert json.loads(capsys.readouterr().out) == [1]


def test_a_tree_is_drawn_in_order_and_as_deep_as_it_is() -> None:
    root = Branch(joined(styled("root"), styled("  x")))
    first = root.add(styled("a"))
    first.add(styled("a1")).add(styled("a11"))
    first.add(styled("a2"))
    root.add(styled("b")).add(styled("b1"))
    assert [*branch_lines(root)] == [
        "root  x", "├── a", "│   ├── a1", "│   │   └── a11", "│   └── a2", "└── b", "    └── b1",
    ]  # fmt: skip
    assert [*branch_lines(root, ascii=True)][1:3] == ["+-- a", "|   +-- a1"]
    deep = Branch(styled("0"))
    at = deep
    for depth in range(3_000):
        at = at.add(styled(str(depth)))
    assert sum(1 for _ in branch_lines(deep)) == 3_001


def test_a_tree_of_processes_shows_foreign_names_and_does_not_obey_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from weftos.cli.agents.processes import _drawn

    rows = [
        {"pid": 1, "address": "/", "state": "running", "type": "supervisor"},
        {"pid": 7, "address": "/\x1b]0;x", "name": "\x1b]0;x", "state": "parked", "restarts": 2},
    ]
    for root in nest(rows):
        Output(False).tree(_drawn(root))
    said = capsys.readouterr().out.splitlines()
    assert said == ["/  PID 1  running  supervisor", "└── \\x1b]0;x  PID 7  parked  2 restarts"]
