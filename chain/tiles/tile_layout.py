"""Which files a growing ledger is published in, and what they hold. Pure: entries in, files out.

A :class:`Layout` stands behind the last entry that was laid out. It holds of each level the hashes of the tile that is
not full yet, the leaves of the bundle that is not full yet, and which of its bodies are in pieces already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chain.entry.entry import SALT_BYTES
from chain.errors import MissingTile, TileError
from chain.merkle.merkle import HASH_BYTES, leaf_hash, next_level
from chain.tiles.tile_paths import (
    CHECKPOINT,
    WIDTH,
    body_file,
    body_piece,
    entry_bundle,
    hash_tile,
    parse_piece,
    parse_width,
    partials,
    tiles_of,
)
from chain.tiles.tile_store import TileStore

Item = tuple[bytes, bytes, bytes | None, bytes | None]
"""Leaf, leaf hash, salt and body; the last two None once erased."""

_ERASED = bytes(4)


@dataclass(frozen=True, slots=True)
class Output:
    """A file to write: the contents of the files ``before``, and then ``parts``."""

    path: str
    parts: Sequence[bytes]
    before: Sequence[str] = ()


@dataclass(slots=True)
class Layout:
    """See the module. ``size``: how many entries were laid out; ``_finished``: how many were so at the last finish."""

    size: int = 0
    _finished: int = 0
    _rows: list[list[bytes]] = field(default_factory=list)
    _leaves: list[bytes] = field(default_factory=list)
    _pieces: list[tuple[int, int]] = field(default_factory=list)
    _bodies: list[bytes] = field(default_factory=list)
    _stale: set[str] = field(default_factory=set)

    @classmethod
    def resume(cls, store: TileStore) -> Layout:
        """Where the published ledger ``store`` ends. Raises TileError when its last files do not fit each other."""
        layout = cls(store.size, store.size)
        for level, number, width in tiles_of(store.size):
            hashes = store.hash_tile(level, number, width) if width < WIDTH else b""
            layout._rows.append([hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)])
        number, width = divmod(store.size, WIDTH)
        if width:
            layout._leaves = store.bundle(number, width)
            layout._pieces = _pieces(store.pieces(number), width, body_file(number))
            if [leaf_hash(leaf) for leaf in layout._leaves] != layout._rows[0]:
                raise TileError(entry_bundle(number, width), "its leaves are not those of the hash tile")
        return layout

    @classmethod
    def resume_whole(cls, store: TileStore, begin: int) -> Layout:
        """As :meth:`resume`, or before it, but not before entry ``begin``, when files are missing from there on; the
        store is cut to that.

        So it is in a copy of the folder of a running node whose checkpoint was copied later than other files.
        """
        fault = MissingTile(CHECKPOINT, "no size is whole")
        for size in _whole_sizes(store, begin):
            store.cut(size)
            try:
                layout = cls.resume(store)
                store.root(size)
            except MissingTile as error:
                fault = error
            else:
                return layout
        raise MissingTile(
            fault.file,
            f"{fault.what}; the journal, from which it could be published again, begins with entry {begin}: "
            "when this is a copy of a running node, make it anew, with `ledger/checkpoint` as it was before the rest "
            "of `ledger/` was copied",
        )

    def extend(self, items: Iterable[Item]) -> Iterator[Output]:
        """Lay out more entries: the files that are full now."""
        for leaf, hash_, salt, body in items:
            self._leaves.append(leaf)
            self._bodies.append(encode_body_record(salt, body))
            self.size += 1
            if len(self._leaves) == WIDTH:
                number = self.size // WIDTH - 1
                pieces = [body_piece(number, *piece) for piece in self._pieces]
                yield Output(body_file(number), self._bodies, pieces)
                yield Output(entry_bundle(number), [encode_leaves(self._leaves)])
                self._leaves, self._bodies, self._pieces = [], [], []
            yield from self._append(0, hash_)

    def finish(self) -> Iterator[Output]:
        """The partial files of the tree as it stands, but for those that it had at the last finish."""
        done, self._finished = self._finished, self.size
        number, width = divmod(self.size, WIDTH)
        if self._bodies:
            piece = (self._pieces[-1][1] if self._pieces else 0, width)
            yield Output(body_piece(number, *piece), self._bodies)
            self._pieces.append(piece)
            self._bodies = []
        if width and self.size != done:
            yield Output(entry_bundle(number, width), [encode_leaves(self._leaves)])
        old = set(tiles_of(done))
        for level, number, width in tiles_of(self.size):
            if width < WIDTH and (level, number, width) not in old:
                yield Output(hash_tile(level, number, width), [b"".join(self._rows[level])])
        self._stale |= _folders(done) - _folders(self.size)

    def take_stale(self) -> set[str]:
        """The directories of partial files whose tile has become full since the last call."""
        stale, self._stale = self._stale, set()
        return stale

    def leftovers(self, names: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """What lies in the directories that partial files are written to next and is none, or is a piece of the bodies
        behind the last entry: ``names(path)`` lists one.
        """
        number, width = divmod(self.size, WIDTH)
        pieces = partials(body_file(number))
        kept = {body_piece(number, *piece) for piece in self._pieces}
        for name in names(pieces):
            path = f"{pieces}/{name}"
            piece = parse_piece(name)
            if path not in kept and (piece is None or piece[1] > width):
                yield path
        levels = range(len(self._rows) + 1)
        tiles = (hash_tile(level, self.size // WIDTH ** (level + 1)) for level in levels)
        for folder in map(partials, (entry_bundle(number), *tiles)):
            for name in names(folder):
                if parse_width(name) is None:
                    yield f"{folder}/{name}"

    def _append(self, level: int, hash_: bytes) -> Iterator[Output]:
        if level == len(self._rows):
            self._rows.append([])
        row = self._rows[level]
        row.append(hash_)
        if len(row) == WIDTH:
            number = (self.size >> (8 * (level + 1))) - 1
            yield Output(hash_tile(level, number), [b"".join(row)])
            self._rows[level] = []
            while len(row) > 1:
                row = next_level(row)
            yield from self._append(level + 1, row[0])


def _whole_sizes(store: TileStore, begin: int) -> Iterator[int]:
    """The sizes from ``begin`` up to that of the checkpoint that may be whole, the largest first: all full files of
    entries are there from ``begin`` on. Last that of the checkpoint, however it stands with those.
    """
    size = store.size
    number = begin // WIDTH
    while number < size // WIDTH and store.has_full(number):
        number += 1
    if number == size // WIDTH:
        yield size
    for first in range(number * WIDTH, begin - WIDTH, -WIDTH):
        widths = reversed(store.partial_widths(entry_bundle(first // WIDTH)))
        yield from (first + width for width in (*widths, 0) if begin <= first + width < size)
    yield size


def _folders(size: int) -> set[str]:
    """The directories of the partial files of a tree of ``size`` leaves."""
    number, width = divmod(size, WIDTH)
    found = {partials(hash_tile(level, last)) for level, last, held in tiles_of(size) if held < WIDTH}
    return found | {partials(entry_bundle(number)), partials(body_file(number))} if width else found


def encode_leaves(leaves: Sequence[bytes]) -> bytes:
    """An entry bundle."""
    return b"".join([part for leaf in leaves for part in (len(leaf).to_bytes(2, "big"), leaf)])


def encode_body_record(salt: bytes | None, body: bytes | None) -> bytes:
    """What stands in a body file for one entry."""
    if salt is None or body is None:
        return _ERASED
    return (SALT_BYTES + len(body)).to_bytes(4, "big") + salt + body


def _pieces(found: Iterable[tuple[int, int]], width: int, path: str) -> list[tuple[int, int]]:
    """The chain of pieces that covers exactly the first ``width`` bodies."""
    ends = {first: end for first, end in sorted(found) if end <= width}
    pieces, at = [], 0
    while at < width:
        if at not in ends:
            raise MissingTile(path, f"the piece that begins with its entry {at} is missing")
        pieces.append((at, ends[at]))
        at = ends[at]
    return pieces
