"""Reads a published ledger (``ledger/``, or a copy of it): leaves, bodies, and any node of the tree.

Beside a running node a partial file may be gone when it is looked for, since its tile is full: then the full one, or a
wider partial one, holds the same at its beginning. Everything is bounded by what its file may hold at most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from chain.disk import Disk
from chain.entry.entry import MAX_BODY_BYTES, MAX_LEAF_BYTES, SALT_BYTES
from chain.errors import MissingTile, TileError
from chain.merkle import tree
from chain.merkle.head import TreeHead, parse_head
from chain.merkle.merkle import HASH_BYTES, CompactRange, next_level
from chain.notes.note import MAX_NOTE_BYTES, parse
from chain.tiles.tile_paths import (
    CHECKPOINT,
    VKEYS,
    WIDTH,
    body_file,
    body_piece,
    entry_bundle,
    hash_tile,
    parse_piece,
    parse_width,
    partials,
)

MAX_BUNDLE_BYTES = WIDTH * (2 + MAX_LEAF_BYTES)
MAX_VKEYS_BYTES = 2**20
_BODY_PREFIX_BYTES = 4
_TILES_KEPT = 64
_WINDOW_BYTES = _BODY_PREFIX_BYTES + SALT_BYTES + MAX_BODY_BYTES  # so the longest body fits
_PASSED_BYTES = 4096  # read at a time of bodies that are not wanted: many short ones, or the length of one
_NODE_LEVELS = 8  # tree levels between two levels of tiles
_RETRIES = 8

Body = tuple[bytes, bytes]  # salt, body
T = TypeVar("T")


class TileStore:
    """The published ledger in ``directory``.

    ``size`` is that of the checkpoint when it was looked at last (:meth:`refresh`), 0 when there is none yet, and less
    when no more than that is to be looked at (:meth:`cut`).
    """

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._directory = directory
        self._disk = disk or Disk()
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self.head: TreeHead | None = None
        self._most: int | None = None
        self.refresh()

    @property
    def size(self) -> int:
        size = self.head.size if self.head else 0
        return size if self._most is None else min(size, self._most)

    def cut(self, size: int) -> None:
        """Look at the first ``size`` entries alone."""
        self._most = size
        self._tiles.clear()

    def refresh(self) -> None:
        """Look at the checkpoint anew; its signatures are not checked here. Raises NoteError, HeadError."""
        note = self.checkpoint()
        self.head = parse_head(parse(note).text) if note is not None else None

    def checkpoint(self) -> bytes | None:
        """The note with the newest published head. Raises TileError, OSError."""
        return self._file(CHECKPOINT, MAX_NOTE_BYTES)

    def vkeys(self) -> bytes | None:
        """The text of the verifier keys. Raises TileError, OSError."""
        return self._file(VKEYS, MAX_VKEYS_BYTES)

    def node(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree ``index`` of ``2**level`` leaves. Raises TileError."""
        tile_level, below = divmod(level, _NODE_LEVELS)
        first, count = index << below, 1 << below
        hashes = self._hashes(tile_level, first // WIDTH, first % WIDTH + count)
        row = [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
        row = row[first % WIDTH : first % WIDTH + count]
        while len(row) > 1:
            row = next_level(row)
        return row[0]

    def compact_range(self, size: int) -> CompactRange:
        """That of the first ``size`` leaves."""
        return tree.compact_range(self.node, size)

    def root(self, size: int) -> bytes:
        """The root over the first ``size`` leaves."""
        return self.compact_range(size).root()

    def hash_tile(self, level: int, number: int, width: int) -> bytes:
        """The first ``width`` hashes of a hash tile, read anew. Raises TileError."""
        limit = WIDTH * HASH_BYTES

        def read(path: str, held: int) -> bytes | None:
            data = self._file(path, limit)
            if data is not None and len(data) != held * HASH_BYTES:
                raise TileError(path, f"holds {len(data)} bytes, must hold {held} hashes of {HASH_BYTES}")
            return data

        found = self._widest(lambda wide: hash_tile(level, number, wide), width, read)
        return found[: width * HASH_BYTES]

    def _hashes(self, level: int, number: int, width: int) -> bytes:
        """As :meth:`hash_tile`, kept: what a tile holds never changes."""
        kept = self._tiles.get((level, number), b"")
        if len(kept) < width * HASH_BYTES:
            count = (self.size >> (_NODE_LEVELS * level)) - number * WIDTH
            kept = self._tiles[level, number] = self.hash_tile(level, number, max(width, min(count, WIDTH)))
            if len(self._tiles) > _TILES_KEPT:
                self._tiles.popitem(last=False)
        return kept

    def leaves(self, start: int, end: int) -> Iterator[bytes]:
        """Leaves ``start`` to ``end - 1``. Raises TileError."""
        for number, first, stop in _bundles(start, end):
            yield from self.bundle(number, stop)[first:]

    def bundle(self, number: int, width: int) -> list[bytes]:
        """The first ``width`` leaves of an entry bundle, the whole file checked for its form. Raises TileError."""

        def read(path: str, held: int) -> list[bytes] | None:
            data = self._file(path, MAX_BUNDLE_BYTES)
            return None if data is None else _split_bundle(path, data, held)

        return self._widest(lambda wide: entry_bundle(number, wide), width, read)[:width]

    def has_full(self, number: int) -> bool:
        """Whether all files are there that the entries of bundle ``number`` made full."""
        found = [entry_bundle(number), body_file(number), hash_tile(0, number)]
        level, end = 1, number + 1
        while end % WIDTH == 0:
            end //= WIDTH
            found.append(hash_tile(level, end - 1))
            level += 1
        return all(self._exists(path) for path in found)

    def partial_widths(self, path: str) -> list[int]:
        """The widths of the partial files there are of the tile whose full file is ``path``."""
        folder = partials(path)
        found = ((parse_width(name), f"{folder}/{name}") for name in self._names(folder))
        return sorted(width for width, file in found if width is not None and self._exists(file))

    def partial(self, path: str, width: int) -> bytes | None:
        """A partial file as it is; None when it has gone meanwhile. Raises TileError."""
        return self._file(f"{partials(path)}/{width}", MAX_BUNDLE_BYTES)

    def bodies(self, start: int, end: int) -> Iterator[Body | None]:
        """Salt and body of entries ``start`` to ``end - 1``, None for one that was erased. Raises TileError."""
        for number, first, stop in _bundles(start, end):
            yield from self._bodies(number, first, stop)

    def pieces(self, number: int) -> list[tuple[int, int]]:
        """First and end of each piece of the bodies of a bundle."""
        folder = partials(body_file(number))
        files = [
            name
            for name in self._names(folder)
            if not self._disk.is_directory(self._directory / folder / name)
        ]
        return [piece for piece in map(parse_piece, files) if piece is not None]

    def _bodies(self, number: int, first: int, stop: int) -> Iterator[Body | None]:
        """Of one bundle; read again when a piece goes while it is looked for, because the bundle is full now."""
        for _ in range(_RETRIES):
            try:
                for at, body in enumerate(self._read_bodies(number, first, stop)):
                    if at >= stop:
                        return
                    if at >= first:
                        first = at + 1
                        yield body
                return
            except FileNotFoundError:
                continue
        raise TileError(body_file(number), f"bodies of its entries from {first} on are missing")

    def _read_bodies(self, number: int, first: int, stop: int) -> Iterator[Body | None]:
        """Those of one bundle; None for each before ``first``, which is passed over unread."""
        full = body_file(number)
        if self._exists(full):
            yield from self._split_bodies(full, first, WIDTH)
            return
        at = 0
        while at < stop:
            ends = [end for first, end in self.pieces(number) if first == at]
            if not ends:
                if self._exists(full):
                    raise FileNotFoundError(full)
                raise TileError(full, f"the piece that begins with its entry {at} is missing")
            path = body_piece(number, at, max(ends))
            yield from self._split_bodies(path, first - at, max(ends) - at)
            at = max(ends)

    def _split_bodies(self, path: str, first: int, count: int) -> Iterator[Body | None]:
        """The bodies in a file, one at a time: together they may be hundreds of megabytes. Of those before ``first``
        the lengths are read alone.
        """
        try:
            handle = self._disk.open_to_read(self._directory / path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TileError(path, error.strerror or str(error)) from error
        try:
            window, begin, at = b"", 0, 0  # the window is what the file holds from ``begin`` on
            for number in range(count):
                start = at - begin + _BODY_PREFIX_BYTES
                length = int.from_bytes(window[at - begin : start], "big")
                if start + (length if number >= first else 0) > len(window):
                    wanted = _WINDOW_BYTES if number >= first else _PASSED_BYTES
                    window, begin = self._disk.read_open(handle, at, wanted), at
                    start, length = _BODY_PREFIX_BYTES, int.from_bytes(window[:_BODY_PREFIX_BYTES], "big")
                if len(window) < start or 0 < length <= SALT_BYTES:
                    raise TileError(path, f"its body {number} has no right length ({window[:start].hex()})")
                if length > SALT_BYTES + MAX_BODY_BYTES:
                    raise TileError(path, f"its body {number} would have {length} bytes")
                end = start + length
                if number < first:
                    at = begin + end
                    yield None
                    continue
                if end > len(window):
                    raise TileError(path, f"its body {number} has {len(window) - start} of {length} bytes")
                at = begin + end
                salt_end = start + SALT_BYTES
                yield (window[start:salt_end], window[salt_end:end]) if length else None
            if self._disk.read_open(handle, at, 1):
                raise TileError(path, f"goes on behind its {count} bodies")
        except OSError as error:
            raise TileError(path, error.strerror or str(error)) from error
        finally:
            self._disk.close(handle)

    def _widest(self, path: Callable[[int], str], width: int, read: Callable[[str, int], T | None]) -> T:
        """What ``read`` makes of the file with at least ``width``: that very one, the full one, or a wider one."""
        for _ in range(_RETRIES):
            for candidate in (width, WIDTH):
                if (found := read(path(candidate), candidate)) is not None:
                    return found
            names = self._names(partials(path(WIDTH)))
            wider = [wide for wide in map(parse_width, names) if wide is not None and wide > width]
            if not wider:
                break
            if (found := read(path(max(wider)), max(wider))) is not None:
                return found
        raise MissingTile(path(width), "is missing")

    def _exists(self, path: str) -> bool:
        """Whether there is such a file; a directory is none."""
        try:
            self._disk.size(self._directory / path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise TileError(path, error.strerror or str(error)) from error
        return not self._disk.is_directory(self._directory / path)

    def _names(self, path: str) -> list[str]:
        try:
            return self._disk.names(self._directory / path)
        except NotADirectoryError:
            return []
        except OSError as error:
            raise TileError(path, error.strerror or str(error)) from error

    def _file(self, path: str, limit: int) -> bytes | None:
        try:
            data = self._disk.read_at(self._directory / path, 0, limit + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise TileError(path, error.strerror or str(error)) from error
        if len(data) > limit:
            raise TileError(path, f"is longer than {limit} bytes")
        return data


def _split_bundle(path: str, data: bytes, width: int) -> list[bytes]:
    leaves, at = [], 0
    for number in range(width):
        length = int.from_bytes(data[at : at + 2], "big")
        leaf = data[at + 2 : at + 2 + length]
        if len(data) < at + 2 or len(leaf) != length or length > MAX_LEAF_BYTES:
            raise TileError(path, f"its leaf {number} has no right length")
        leaves.append(leaf)
        at += 2 + length
    if at != len(data):
        raise TileError(path, f"goes on behind its {width} leaves")
    return leaves


def _bundles(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number of each bundle that holds some of ``start`` to ``end - 1``, and from where to where in it."""
    while start < end:
        number, first = divmod(start, WIDTH)
        stop = min(WIDTH, end - number * WIDTH)
        yield number, first, stop
        start = number * WIDTH + stop
