"""The folders of the product and what imports what, drawn for any commit:
``python -m tools.house_drawing [COMMIT] > drawing.svg``.

A folder is a box with a square for each of its files, red above what a folder should hold. It stands above everything
that it imports; a line goes down to each folder that it imports and that nothing between the two leads to anyway. A red
line is part of a cycle. The files that lie in a package itself have floors of their own, so each has a box, unless they
are too many for a folder.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape

from tools.house import MANY_FILES, Source, asked_for, imports

Graph = Mapping[str, set[str]]
WIDTH, MARGIN, GAP, FLOOR_GAP = 1500, 16, 14, 34
SQUARE, PER_ROW, LETTER, HEAD = 8, 14, 6.3, 18
COLOURS = {
    "chain": "#4f7cac",
    "cognition": "#8f6bb3",
    "kernel": "#3f8f5f",
    "mesh": "#b08030",
    "weftos": "#607080",
}


@dataclass(frozen=True, slots=True)
class Box:
    """Where a folder is drawn, in pixels."""

    x: float
    y: float
    width: float
    height: float


def folders(modules: list[Source]) -> tuple[Counter[str], dict[str, set[str]]]:
    """How many files each folder has, and which folders it imports."""
    together = Counter(str(one.path.parent) for one in modules)
    place = {one.module: _place(one, together) for one in modules}
    files = Counter(place.values())
    graph: dict[str, set[str]] = {folder: set() for folder in files}
    for one in modules:
        graph[place[one.module]] |= {place[other] for other in imports(one, set(place))} - {place[one.module]}
    return files, graph


def _place(one: Source, together: Mapping[str, int]) -> str:
    folder = str(one.path.parent)
    return str(one.path) if "/" not in folder and together[folder] <= MANY_FILES else folder


def reachable(graph: Graph, start: str) -> set[str]:
    """All that ``start`` leads to, itself only on a cycle."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.add(folder)
            waiting += graph[folder]
    return found


def floors(graph: Graph) -> dict[str, int]:
    """The floor of each folder: one above the highest that it imports. Folders on a common cycle share one."""
    below = {folder: reachable(graph, folder) for folder in graph}

    @cache
    def floor(folder: str) -> int:
        cycle = {other for other in below[folder] if folder in below[other]} | {folder}
        under = set().union(*(graph[one] for one in cycle)) - cycle
        return max((floor(other) + 1 for other in under), default=0)

    return {folder: floor(folder) for folder in graph}


def lines(graph: Graph) -> Iterator[tuple[str, str, bool]]:
    """From, to, and whether it is part of a cycle. Without those that a longer way stands for."""
    below = {folder: reachable(graph, folder) for folder in graph}
    for folder, others in graph.items():
        for other in sorted(others):
            if folder in below[other]:
                yield folder, other, True
            elif not any(other in below[one] for one in others - {other} if folder not in below[one]):
                yield folder, other, False


def draw(modules: list[Source]) -> str:
    """The drawing, as SVG."""
    files, graph = folders(modules)
    boxes, height = _placed(files, graph)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
        *(_line(boxes[start], boxes[end], cycle) for start, end, cycle in lines(graph)),
        *(_box(folder, boxes[folder], count) for folder, count in sorted(files.items())),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _placed(files: Mapping[str, int], graph: Graph) -> tuple[dict[str, Box], float]:
    """Floor by floor from the top, each folder near the middle of those that import it."""
    boxes: dict[str, Box] = {}
    floor_of = floors(graph)
    y = float(MARGIN)

    def middle(folder: str) -> float:
        above = [box.x + box.width / 2 for other, box in boxes.items() if folder in graph[other]]
        return sum(above) / len(above) if above else WIDTH / 2

    for floor in sorted(set(floor_of.values()), reverse=True):
        for row in _rows(sorted((one for one in files if floor_of[one] == floor), key=middle), files):
            sizes = [_size(folder, files[folder]) for folder in row]
            x = (WIDTH - sum(width for width, _ in sizes) - GAP * (len(row) - 1)) / 2
            for folder, (width, height) in zip(row, sizes, strict=True):
                boxes[folder] = Box(x, y, width, height)
                x += width + GAP
            y += max(height for _, height in sizes) + FLOOR_GAP
    return boxes, y - FLOOR_GAP + MARGIN


def _rows(names: list[str], files: Mapping[str, int]) -> Iterator[list[str]]:
    row: list[str] = []
    used = 0.0
    for folder in names:
        width = _size(folder, files[folder])[0] + GAP
        if row and used + width > WIDTH - 2 * MARGIN:
            yield row
            row, used = [], 0.0
        row.append(folder)
        used += width
    yield row


def _size(folder: str, count: int) -> tuple[float, float]:
    columns = min(count, PER_ROW)
    return max(len(folder) * LETTER, columns * SQUARE) + 12, HEAD + -(-count // PER_ROW) * SQUARE + 6


def _box(folder: str, box: Box, count: int) -> str:
    colour = COLOURS[folder.partition("/")[0]]
    square = "#c03030" if count > MANY_FILES else colour
    squares = "".join(
        f'<rect x="{box.x + 6 + index % PER_ROW * SQUARE:.1f}" y="{box.y + HEAD + index // PER_ROW * SQUARE:.1f}" '
        f'width="{SQUARE - 2}" height="{SQUARE - 2}" fill="{square}"/>'
        for index in range(count)
    )
    return (
        f'<g><title>{escape(folder)}: {count} files</title><rect x="{box.x:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="3" fill="#fafafa" stroke="{colour}"/>'
        f'<text x="{box.x + 6:.1f}" y="{box.y + 13:.1f}">{escape(folder)}</text>{squares}</g>'
    )


def _line(start: Box, end: Box, cycle: bool) -> str:
    x1, y1 = start.x + start.width / 2, start.y + start.height
    x2, y2 = end.x + end.width / 2, end.y
    middle = (y1 + y2) / 2
    colour, opacity = ("#c03030", 0.8) if cycle else ("#8090a0", 0.45)
    return (
        f'<path d="M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}" fill="none" '
        f'stroke="{colour}" stroke-opacity="{opacity}"/>'
    )


def main() -> int:
    """Run the command. Exit status 2 for what is no commit."""
    parser = argparse.ArgumentParser(
        prog="tools.house_drawing", description="Draw the folders of a commit as SVG."
    )
    parser.add_argument("commit", nargs="?", help="a commit; the working tree without one")
    sys.stdout.write(draw(asked_for(parser.parse_args().commit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
