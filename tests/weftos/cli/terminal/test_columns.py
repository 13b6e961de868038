"""Tables: one line a row where there is room; where there is not, what identifies a row stays whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftos.cli.terminal.columns import FLOOR, Column, folded, table_lines
from weftos.cli.terminal.styles import cells

LETTERS = [Column("TIME"), Column("ID", fixed=True), Column("TO", fixed=True), Column("WHY"), Column("TEXT")]
LETTER = (
    "2026-11-22 10:00:00.123Z", "m-01JD3F8V5QJ2", "/user/a-long-name", "it was stopped before it could answer",
    "please say what happened in the last night, and what is to be done next",
)  # fmt: skip
WORDS = st.text(st.sampled_from("ab 世é"), max_size=30)


def lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    return list(table_lines(columns, rows, width))


def test_a_row_is_a_line_where_nobody_says_how_wide_it_may_be() -> None:
    head, row = lines(LETTERS, [LETTER], None)
    assert row == "  ".join(LETTER)
    assert [head.index(column.name) for column in LETTERS] == [row.index(text) for text in LETTER]


def test_numbers_stand_to_the_right_and_lines_end_with_their_text() -> None:
    made = lines(
        [Column("NAME"), Column("N", number=True), Column("X")], [("a", "7", ""), ("bb", "123", "")], 40
    )
    assert made == ["NAME    N  X", "a       7", "bb    123"]


@pytest.mark.parametrize("width", [110, 100, 90])
def test_what_identifies_a_row_keeps_its_width_and_the_rest_is_wrapped(width: int) -> None:
    made = lines(LETTERS, [LETTER] * 2, width)
    assert len(made) > 3
    assert max(map(cells, made)) <= width
    assert sum("m-01JD3F8V5QJ2  /user/a-long-name" in line for line in made) == 2
    begins = made[0].index("WHY")
    said = " ".join(line[begins : made[0].index("TEXT")].strip() for line in made[1:])
    assert said.split() == LETTER[3].split() * 2


def test_words_are_broken_at_last_and_not_below_the_floor() -> None:
    columns = [Column("ID", fixed=True), Column("ADDRESS"), Column("WHY")]
    row = ("a" * 20, "tcp://127.0.0.1:7777", "no answer to three probes")
    assert lines(columns, [row], 20 + 2 + FLOOR + 2 + FLOOR) == [
        "ID                    ADDRESS       WHY",
        "aaaaaaaaaaaaaaaaaaaa  tcp://127.0.  no answer to",
        "                      0.1:7777      three probes",
    ]


def test_a_column_without_a_value_is_left_out_before_anything_is_wrapped() -> None:
    columns = [Column("NODE", fixed=True), Column("STATE"), Column("SINCE"), Column("WHY")]
    rows = [("n1", "up", "", ""), ("n2", "up", "", "")]
    assert lines(columns, rows, None)[0].split() == ["NODE", "STATE", "SINCE", "WHY"]
    assert lines(columns, rows, 12) == ["NODE  STATE", "n1    up", "n2    up"]


@pytest.mark.parametrize("width", [60, 40, 30, 1])
def test_where_even_that_does_not_fit_each_field_has_a_line(width: int) -> None:
    made = lines(LETTERS, [LETTER, (*LETTER[:3], "", "")], width)
    first, second = made[: made.index("")], made[made.index("") + 1 :]
    assert [line.split()[0] for line in second] == ["TIME", "ID", "TO"]
    for name, text in zip((column.name for column in LETTERS), LETTER, strict=True):
        assert any(line.startswith(name) for line in first)
        assert text.replace(" ", "") in "".join("".join(first).split())


def test_a_table_without_rows_is_its_head_however_narrow() -> None:
    assert lines(LETTERS, [], None) == lines(LETTERS, [], 200) == ["TIME  ID  TO  WHY  TEXT"]
    assert len(lines(LETTERS, [], 20)) <= 1


def test_wide_and_combining_characters_are_counted_as_the_terminal_shows_them() -> None:
    made = lines([Column("NAME"), Column("X")], [("世界", "1"), ("e\u0301", "2"), ("plain", "3")], None)
    assert [cells(line[: line.rindex(mark)]) for line, mark in zip(made[1:], "123", strict=True)] == [7, 7, 7]


@given(WORDS, st.integers(2, 12))
def test_folding_loses_nothing_but_blanks_and_keeps_to_the_width(text: str, width: int) -> None:
    made = folded(text, width)
    assert "".join(made).replace(" ", "") == text.replace(" ", "")
    assert all(cells(line) <= width for line in made)


@given(
    st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=4),
    st.integers(1, 90),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_no_character_of_any_cell_is_lost_at_any_width(
    rows: list[tuple[str, str, str]], width: int, fixed: tuple[bool, bool, bool]
) -> None:
    columns = [Column(name, fixed=keep) for name, keep in zip("XYZ", fixed, strict=True)]
    made = lines(columns, rows, width)
    shown = sorted("".join(made).replace(" ", ""))
    wanted = sorted("".join(text for row in rows for text in row).replace(" ", ""))
    names = [character for character in shown if character in "XYZ"]
    assert [character for character in shown if character not in "XYZ"] == wanted
    blocks = bool(rows) and "".join(made[:1]).split() != sorted({*names})
    assert blocks or all(cells(line) <= width for line in made)
