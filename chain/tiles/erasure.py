"""Takes bodies out of a published ledger: in the files of ``tile/bodies`` an erased body has length 0.

Leaves, hashes and heads stay as they are, so every proof holds. Nothing here is atomic over several files, and nothing
needs to be: each file is replaced as a whole, and doing all of it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from struct import Struct

from chain.disk import COPY_BYTES, Disk, joined
from chain.errors import TileError
from chain.tiles.tile_paths import WIDTH, body_file, parse_piece, partials

_LENGTH = Struct(">I")
_NEW = ".new"

Ranges = Sequence[tuple[int, int]]


def erase_bodies(directory: Path, disk: Disk, ranges: Ranges) -> int:
    """Erase the bodies of ``ranges`` (first and last of each) in the ledger folder ``directory``, wherever they are.

    Returns how many bodies there still were; on the disk when this returns. Files that are not there are passed over.
    Nobody may write body files meanwhile. Raises TileError, OSError.
    """
    count = 0
    touched: set[Path] = set()
    for bundle, wanted in _bundles(ranges).items():
        touched |= _clear(directory, disk, bundle)
        for path, first, end in _files(directory, disk, bundle):
            here = {
                place - first for one, last in wanted for place in range(max(one, first), min(last + 1, end))
            }
            if here:
                count += _rewrite(directory, path, disk, here, end - first)
                touched.add((directory / path).parent)  # even if another run, which was killed, has done it
    for folder in sorted(touched):
        disk.sync_directory(folder)
    return count


def _bundles(ranges: Ranges) -> dict[int, list[tuple[int, int]]]:
    """For each bundle that holds any of ``ranges``: which of its entries, first and last of each row."""
    found: dict[int, list[tuple[int, int]]] = {}
    for first, last in ranges:
        for bundle in range(first // WIDTH, last // WIDTH + 1):
            at = bundle * WIDTH
            row = (max(first - at, 0), min(last - at, WIDTH - 1))
            found.setdefault(bundle, []).append(row)
    return found


def _files(directory: Path, disk: Disk, bundle: int) -> list[tuple[str, int, int]]:
    """The files that hold bodies of a bundle, each with the entries it holds."""
    whole = body_file(bundle)
    path = directory / whole
    found = [(whole, 0, WIDTH)] if path.name in disk.names(path.parent) else []
    for name in disk.names(directory / partials(whole)):
        piece = parse_piece(name)
        if piece is not None:
            found.append((f"{partials(whole)}/{name}", *piece))
    return found


def _clear(directory: Path, disk: Disk, bundle: int) -> set[Path]:
    """Remove what a publication that broke off has left unfinished of a bundle: it holds bodies too. From where."""
    whole = directory / body_file(bundle)
    pieces = whole.with_name(f"{whole.name}.p")
    left = [whole.parent / name for name in disk.names(whole.parent) if name == whole.name + _NEW]
    left += [pieces / name for name in disk.names(pieces) if name.endswith(_NEW)]
    for path in left:
        disk.remove(path)
    return {path.parent for path in left}


def _rewrite(directory: Path, name: str, disk: Disk, places: Collection[int], count: int) -> int:
    """Cut bodies out of one file, which must hold ``count``; how many there were."""
    path = directory / name
    bodies = _spans(path, disk, name)
    if len(bodies) != count:
        raise TileError(name, f"holds {len(bodies)} bodies, not {count}")
    present = {place for place in places if bodies[place][1]}
    if not present:
        return 0
    new = path.with_name(path.name + _NEW)
    handle = disk.create(new)
    try:
        end = 0
        for part in joined(_without(present, bodies, path, disk)):
            disk.write(handle, end, part)
            end += len(part)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(new, path)
    return len(present)


def _without(
    erased: Collection[int], bodies: Sequence[tuple[int, int]], path: Path, disk: Disk
) -> Iterator[bytes]:
    for place, (at, length) in enumerate(bodies):
        if place in erased:
            yield _LENGTH.pack(0)
        else:
            for offset in range(0, _LENGTH.size + length, COPY_BYTES):
                yield disk.read_at(path, at + offset, min(COPY_BYTES, _LENGTH.size + length - offset))


def _spans(path: Path, disk: Disk, name: str) -> list[tuple[int, int]]:
    """Where each record of a file begins and how long its body is, with its salt; 0 where one is erased already."""
    spans: list[tuple[int, int]] = []
    at, size = 0, disk.size(path)
    while at < size:
        if at + _LENGTH.size > size:
            raise TileError(name, f"ends within a length, at byte {at}")
        length = _LENGTH.unpack(disk.read_at(path, at, _LENGTH.size))[0]
        end = at + _LENGTH.size + length
        if end > size:
            raise TileError(name, f"the body at byte {at} would end at byte {end}, the file has {size}")
        spans.append((at, length))
        at = end
    return spans
