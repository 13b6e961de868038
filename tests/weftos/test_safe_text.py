"""Foreign text is shown, not obeyed; checked against what really leaves a rich console."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from weftos.cli.terminal.output import Output
from weftos.safe_text import safe_markup, safe_text

OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x1b[2J\x1b[1;1H", r"\x1b[2J\x1b[1;1H"),
        ("\x9b31m", r"\x9b31m"),
        ("user‮gnp.exe", r"user\u202egnp.exe"),
        ("a⁦b⁩c؜", r"a\u2066b\u2069c\u061c"),
        ("pass​word﻿", r"pass\u200bword\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("one\r\nINFO forged line", r"one\r\nINFO forged line"),
        ("a\u2028b\u2029c\x85", r"a\u2028b\u2029c\x85"),
        ("half \ud800", r"half \ud800"),
        ("\x7f\b\x00", r"\x7f\x08\x00"),
    ],
)
def test_hostile_text_is_shown(hostile: str, shown: str) -> None:
    assert safe_text(hostile) == shown


@pytest.mark.parametrize("text", ["", "plain", "Grüße, 世界, مرحبا, שלום 🎉", "[bold] C:\\temp 17*23 = 391"])
def test_ordinary_text_of_any_script_stays(text: str) -> None:
    assert safe_text(text) == text


def test_lines_stay_lines_only_when_asked_and_a_carriage_return_never() -> None:
    assert safe_text("a\n\tb\rc", lines=True) == "a\n\tb\\rc"
    assert safe_text("a\n\tb") == r"a\n\tb"


@given(st.text(st.characters()))
def test_nothing_that_is_obeyed_comes_through(text: str) -> None:
    for lines, allowed in ((False, ""), (True, "\n\t")):
        left = {c for c in safe_text(text, lines=lines) if unicodedata.category(c) in OBEYED}
        assert left <= set(allowed)


@pytest.mark.parametrize(
    "hostile", ["[link=https://evil]click[/link]", "[red]x[/red]", "\\[bold]y", "[/nothing]", ":bomb:"]
)
def test_markup_is_printed_as_it_was_written(hostile: str) -> None:
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, width=200, highlight=False, emoji=False).print(
        safe_markup(hostile)
    )
    assert screen.getvalue() == hostile + "\n"


def test_the_names_of_a_tables_columns_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """``chain sql`` has them from whoever wrote the statement."""
    Output(False).table(["\x1b]0;owned\x07", "[red]x[/red]"], [[1, 2]])
    assert capsys.readouterr().out.split("\n")[0] == "\\x1b]0;owned\\x07  [red]x[/red]"
