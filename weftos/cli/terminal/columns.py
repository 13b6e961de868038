"""Rows under columns, as lines of text. Pure: strings in, lines out.

Theory of operation. Where they fit, or nobody says how wide they may be (a pipe), each row is one line. Else empty
columns are left out, and what does not identify a row is wrapped at blanks, the widest first, and at last within words,
down to :data:`FLOOR`. The columns that identify a row keep their width, as numbers do: half an address is none. Where
that does not fit either, each row becomes a block with a line for each field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from weftos.cli.terminal.styles import Paint, cells, plain, style_of

FLOOR = 12
_GAP = "  "
_LEAST_VALUE = 16  # columns for a value beside its name, else it is left to the terminal to fold it

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Column:
    """``number``: to the right, and never wrapped. ``fixed``: it identifies a row."""

    name: str
    number: bool = False
    fixed: bool = False


def table_lines(
    columns: Sequence[Column], rows: Sequence[Row], width: int | None = None, paint: Paint = plain
) -> Iterator[str]:
    """The lines of a table of at most ``width`` columns of a terminal. All text must be safe."""
    widths = _natural(columns, rows)
    if width is None or _whole(widths) <= width:
        return _straight(columns, rows, widths, paint)
    held = [at for at in range(len(columns)) if any(row[at] for row in rows)] or list(range(len(columns)))
    columns = [columns[at] for at in held]
    rows = [[row[at] for at in held] for row in rows]
    widths = [widths[at] for at in held]
    floors = [
        natural if column.number or column.fixed else _floor(column, index, rows)
        for index, (column, natural) in enumerate(zip(columns, widths, strict=True))
    ]
    fitted = _shrunk(widths, floors, width)
    if fitted is None:
        return _blocks(columns, rows, width, paint)
    return _wrapped(columns, rows, fitted, paint)


def folded(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken at blanks where there are any."""
    if cells(text) <= width:
        return [text]
    lines, line, used = [], "", 0
    for number, word in enumerate(text.split(" ")):
        blank = " " if number else ""
        size = cells(word)
        if used + len(blank) + size <= width:
            line, used = f"{line}{blank}{word}", used + len(blank) + size
            continue
        if line.strip():
            lines.append(line)
        *full, line = _cut(word, width)
        lines += full
        used = cells(line)
    return [*lines, line]


def _natural(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    held = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return [
        max(cells(column.name), max(map(cells, values), default=0))
        for column, values in zip(columns, held, strict=True)
    ]


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _floor(column: Column, index: int, rows: Sequence[Row]) -> int:
    """The least width in which a column is readable: of its longest word, and not less than its name."""
    longest = max((cells(word) for row in rows for word in row[index].split(" ")), default=0)
    return max(cells(column.name), min(longest, FLOOR))


def _shrunk(widths: Sequence[int], floors: Sequence[int], width: int) -> list[int] | None:
    """``widths`` made to fit, the widest first, none below its floor; None when they cannot be."""

    def capped(most: int) -> list[int]:
        return [max(floor, min(wide, most)) for wide, floor in zip(widths, floors, strict=True)]

    most = bisect_right(range(max(widths) + 1), width, key=lambda most: _whole(capped(most))) - 1
    return capped(most) if most >= 0 else None


def _straight(
    columns: Sequence[Column], rows: Iterable[Row], widths: Sequence[int], paint: Paint
) -> Iterator[str]:
    form = _GAP.join(
        f"%{'' if column.number else '-'}{wide}s" for column, wide in zip(columns, widths, strict=True)
    )
    yield _line(columns, [column.name for column in columns], widths, paint, "bold")
    for row in rows:
        if paint is plain and "".join(row).isascii():
            yield (form % tuple(row)).rstrip()
        else:
            yield _line(columns, row, widths, paint)


def _line(
    columns: Sequence[Column], row: Row, widths: Sequence[int], paint: Paint, style: str | None = None
) -> str:
    parts = []
    for column, text, wide in zip(columns, row, widths, strict=True):
        painted, blanks = paint(text, style_of(text) if style is None else style), " " * (wide - cells(text))
        parts.append(blanks + painted if column.number else painted + blanks)
    return _GAP.join(parts).rstrip()


def _wrapped(
    columns: Sequence[Column], rows: Iterable[Row], widths: Sequence[int], paint: Paint
) -> Iterator[str]:
    yield _line(columns, [column.name for column in columns], widths, paint, "bold")
    for row in rows:
        parts = [folded(text, wide) for text, wide in zip(row, widths, strict=True)]
        for at in range(max(map(len, parts))):
            yield _line(columns, [part[at] if at < len(part) else "" for part in parts], widths, paint)


def _blocks(columns: Sequence[Column], rows: Sequence[Row], width: int, paint: Paint) -> Iterator[str]:
    names = max(cells(column.name) for column in columns)
    room = width - names - len(_GAP)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for column, text in zip(columns, row, strict=True):
            if not text:
                continue
            blanks = " " * (names - cells(column.name))
            first, *more = folded(text, room) if room >= _LEAST_VALUE else [text]
            yield f"{paint(column.name, 'bold')}{blanks}{_GAP}{paint(first, style_of(text))}"
            yield from (f"{' ' * names}{_GAP}{line}" for line in more)


def _cut(word: str, width: int) -> list[str]:
    """``word`` in pieces of at most ``width`` columns, each with a character at least."""
    pieces, begin, used = [], 0, 0
    for at, character in enumerate(word):
        size = cells(character)
        if at > begin and used + size > width:
            pieces.append(word[begin:at])
            begin, used = at, 0
        used += size
    return [*pieces, word[begin:]]
