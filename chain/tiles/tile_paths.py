"""Where a published ledger keeps what: the paths of C2SP tlog-tiles (c2sp.org/tlog-tiles), and of the bodies beside.

A *hash tile* of level L and number N holds the hashes of the complete subtrees of ``256 ** L`` leaves, those numbered
``256 * N`` to ``256 * N + 255``. An *entry bundle* holds 256 leaves, a *body file* their bodies. Until the last of each
kind is full, its *partial files* lie in a directory beside its place, one for each width that it had at a checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

WIDTH = 256
CHECKPOINT = "checkpoint"
VKEYS = "vkeys"
_PIECE = re.compile(r"([0-9]{3})-([0-9]{3})").fullmatch
_WIDTH = re.compile(r"[1-9][0-9]{0,2}").fullmatch
_FOLDER = re.compile(r"([0-9]{3})\.p").fullmatch
_FAN = 1000  # tiles in a directory


def spelled(number: int) -> str:
    """``number`` in groups of three digits, all but the last with an x before: 1234067 is ``x001/x234/067``."""
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])


def partials(path: str) -> str:
    """The directory of the partial files of the tile whose full file is ``path``."""
    return f"{path}.p"


def _width(path: str, width: int) -> str:
    return path if width == WIDTH else f"{partials(path)}/{width}"


def hash_tile(level: int, number: int, width: int = WIDTH) -> str:
    """The hash tile with ``width`` hashes."""
    return _width(f"tile/{level}/{spelled(number)}", width)


def entry_bundle(number: int, width: int = WIDTH) -> str:
    """The entry bundle with ``width`` leaves."""
    return _width(f"tile/entries/{spelled(number)}", width)


def body_file(number: int) -> str:
    """The bodies of a full bundle."""
    return f"tile/bodies/{spelled(number)}"


def body_piece(number: int, first: int, end: int) -> str:
    """The bodies of entries ``first`` to ``end - 1`` within a bundle that is not full yet."""
    return f"{partials(body_file(number))}/{first:03}-{end:03}"


def parse_piece(name: str) -> tuple[int, int] | None:
    """First and end of the piece of that file name; None when it is no such name."""
    match = _PIECE(name)
    if match is None:
        return None
    first, end = int(match[1]), int(match[2])
    return (first, end) if first < end <= WIDTH else None


def parse_width(name: str) -> int | None:
    """The width of the partial tile of that file name; None when it is no such name."""
    return int(name) if _WIDTH(name) and int(name) < WIDTH else None


def tiles_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Level, number and width of the last hash tile of each level that a tree of ``size`` leaves has."""
    level, count = 0, size
    while count:
        yield level, (count - 1) // WIDTH, (count - 1) % WIDTH + 1
        level, count = level + 1, count // WIDTH


def superseded(size: int, names: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """The directories of partial files that are there although the tile is full in a tree of ``size`` leaves.
    ``names(path)`` lists a directory.
    """
    kinds, level, count = ["entries", "bodies"], 0, size // WIDTH
    while count:
        for kind in (*kinds, str(level)):
            yield from _superseded(kind, count, names)
        kinds, level, count = [], level + 1, count // WIDTH


def _superseded(kind: str, count: int, names: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Of the first ``count`` tiles of a kind."""
    for first in range(0, count, _FAN):
        directory = f"tile/{kind}/{spelled(first)}".rpartition("/")[0]
        for name in names(directory):
            match = _FOLDER(name)
            if match is not None and first + int(match[1]) < count:
                yield f"{directory}/{name}"
