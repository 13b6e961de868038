"""Holds the files of a published ledger against the entries that an audit goes through.

Leaves and bodies are compared one by one, and each hash tile when the entries under it have passed, together with the
partial files that are kept for who has an older checkpoint. Nothing is held but the hashes of each level's last tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from chain.audit.clean_run import CleanRun, in_columns
from chain.audit.findings import Finding
from chain.disk import Disk
from chain.entry.entry import commit_body, decode_entry
from chain.entry.record import Columns, RawEntry
from chain.errors import ChainError, TileError
from chain.merkle.merkle import HASH_BYTES, CompactRange, leaf_hash, next_level
from chain.tiles.tile_layout import encode_body_record, encode_leaves
from chain.tiles.tile_paths import (
    CHECKPOINT,
    VKEYS,
    WIDTH,
    body_file,
    entry_bundle,
    hash_tile,
    partials,
    tiles_of,
)
from chain.tiles.tile_store import MAX_BUNDLE_BYTES, Body, TileStore

KIND = "published"
MOST_UNREADABLE = 16  # bundles in a row
MOST_FINDINGS = 1_000
_MOST_AT_ONCE = 2**22  # bytes of bodies


@dataclass(frozen=True, slots=True)
class _Open:
    """A bundle, compared up to entry ``seq``: its leaves as bytes and where the next one begins, some of its bodies as
    bytes and where the next one begins, there and in their file.
    """

    seq: int
    leaves: bytes
    leaf_at: int = 0
    bodies: bytes = b""
    body_at: int = 0
    file_at: int = 0


class PublishedCheck:
    """``store`` is looked at up to ``size``, that of its checkpoint when this was made or went on (:meth:`extend`)."""

    def __init__(self, directory: Path, disk: Disk, store: TileStore) -> None:
        self._directory = directory
        self._disk = disk
        self.store = store
        self.size = store.size
        self.findings: list[Finding] = []
        self._next = 0
        self._read_here = 0
        self._rows: list[list[bytes]] = [[]]
        self._leaves: Iterator[bytes] | None = None
        self._bodies: Iterator[Body | None] = iter(())
        self._open: _Open | None = None
        self._broken = False

    def extend(self) -> None:
        """The checkpoint of ``store`` is a newer one now; entries that are only in the journal have not come yet."""
        self.size = self.store.size

    def begin_at(self, seq: int) -> CompactRange:
        """Entries before ``seq`` do not come: what is stored of their hashes is taken for true. Raises TileError."""
        rows = []
        for level, number, width in tiles_of(seq):
            count = width % WIDTH
            hashes = self.store.hash_tile(level, number, count) if count else b""
            rows.append([hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)])
        tree = self.store.compact_range(seq)
        self._rows, self._next = rows or [[]], seq
        return tree

    def entries(self, start: int, end: int) -> Iterator[tuple[Columns | None, str]]:
        """What is published as entries ``start`` to ``end - 1``, some at a time, with where; None where a bundle is
        unreadable.

        It ends where many in a row are: nobody may make a reader look for more than there is.
        """
        unreadable = 0
        self._read_here = end
        for number in range(start // WIDTH, -(-end // WIDTH)):
            first = max(start, number * WIDTH)
            stop = min(WIDTH, end - number * WIDTH)
            try:
                width = min(
                    WIDTH, self.size - number * WIDTH
                )  # the newest file, not an older and shorter one
                leaves = self.store.bundle(number, width)[first - number * WIDTH : stop]
                bodies = self.store.bodies(first, number * WIDTH + stop)
                raw = (
                    RawEntry(leaf, *(body or (None, None))) for leaf, body in zip(leaves, bodies, strict=True)
                )
                for columns in in_columns(raw):
                    yield columns, f"ledger/tile/entries, bundle {number}"
                unreadable = 0
            except TileError as error:
                yield None, str(error)
                unreadable += 1
                if unreadable == MOST_UNREADABLE:  # the checkpoint may claim any number of entries
                    return

    def follow(self, seq: int, raw: RawEntry, hash_: bytes) -> bool:
        """The audited entry ``seq``, wherever it was read, and its leaf hash: whether its body is not published."""
        if self._broken or seq != self._next or seq >= self.size:
            return False
        self._next = seq + 1
        try:
            absent = False
            if seq >= self._read_here:
                absent, hash_ = self._compare_entry(seq, raw, hash_)
            row = self._rows[0]
            row.append(hash_)
            if len(row) == WIDTH:
                self._full_tile(0)
            if self._next == self.size:
                self._last_tiles()
        except (ChainError, StopIteration) as error:
            self._broken = True
            self._add(seq, "ledger", "a published ledger", str(error))
            return False
        return absent

    def follow_run(self, seq: int, run: CleanRun) -> Set[int]:
        """As :meth:`follow`, of entries in a row, each with its body: those whose body is not published."""
        absent: set[int] = set()
        at = 0
        while at < len(run.hashes):
            end = min(len(run.hashes), at + WIDTH - (seq + at) % WIDTH)
            if not self._follow_equal(seq + at, run, at, end):
                for number in range(at, end):
                    raw = RawEntry(run.leaves[number], run.salts[number], run.bodies[number])
                    if self.follow(seq + number, raw, run.hashes[number]):
                        absent.add(seq + number)
            at = end
        return absent

    def finish(self, *, strangers: bool = True) -> None:
        """All entries came. Were they as many as are published? ``strangers``: name files that no node writes."""
        if not self._broken and self._next < self.size:
            self._add(self._next, "ledger", f"{self.size} entries", f"{self._next} could be compared")
        for name in self._disk.names(self._directory) if strangers else ():
            if name not in (CHECKPOINT, VKEYS, "tile") and not name.endswith(".new"):
                self._add(-1, f"ledger/{name}", "no such file", "a file the node does not write")

    def root(self, size: int) -> bytes | None:
        """The root over the first ``size`` published entries; None when the tiles do not tell."""
        try:
            return self.store.root(size) if size <= self.size else None
        except ChainError:
            return None

    def _follow_equal(self, seq: int, run: CleanRun, at: int, to: int) -> bool:
        """As :meth:`follow`, of the entries ``at`` to ``to - 1`` of ``run``, which are those from ``seq`` on and of one
        bundle. False, and nothing done, unless they are published just so.
        """
        end = seq + to - at
        if self._broken or seq != self._next or end > self.size or seq < self._read_here < end:
            return False
        if seq >= self._read_here and not self._same_bytes(seq, run, at, to):
            return False
        self._next = end
        self._rows[0] += run.hashes[at:to]
        if len(self._rows[0]) == WIDTH:
            self._full_tile(0)
        if end == self.size:
            self._last_tiles()
        return True

    def _same_bytes(self, seq: int, run: CleanRun, at: int, to: int) -> bool:
        """Whether the files of a full bundle go on with these leaves and bodies, and end with its last ones."""
        number, first = divmod(seq, WIDTH)
        last = first + to - at == WIDTH
        leaves = encode_leaves(run.leaves[at:to])
        bodies = b"".join(map(encode_body_record, run.salts[at:to], run.bodies[at:to]))
        try:
            if first == 0 and (number + 1) * WIDTH <= self.size:
                bundle = self._disk.read_at(self._directory / entry_bundle(number), 0, MAX_BUNDLE_BYTES + 1)
                self._open = _Open(seq, bundle)
            here = self._open
            if here is None or here.seq != seq or len(bodies) > _MOST_AT_ONCE:
                return False
            held, begin = here.bodies, here.body_at
            if len(held) < begin + len(bodies) + last:
                path = self._directory / body_file(number)
                held, begin = self._disk.read_at(path, here.file_at, _MOST_AT_ONCE + 1), 0
        except OSError:  # to be named by whoever looks closer
            return False
        leaf_end, end = here.leaf_at + len(leaves), begin + len(bodies)
        if here.leaves[here.leaf_at : len(here.leaves) if last else leaf_end] != leaves:
            return False
        if held[begin : len(held) if last else end] != bodies:
            return False
        self._open = _Open(seq + to - at, here.leaves, leaf_end, held, end, here.file_at + len(bodies))
        return True

    def _compare_entry(self, seq: int, raw: RawEntry, hash_: bytes) -> tuple[bool, bytes]:
        """Compare what is published with an entry from elsewhere: whether its body is not published, and the hash of
        the leaf that is.
        """
        end = min(self.size, (seq // WIDTH + 1) * WIDTH)
        if self._leaves is None:
            self._leaves, self._bodies = self.store.leaves(seq, end), self.store.bodies(seq, end)
        leaf, body = next(self._leaves), next(self._bodies)
        if seq + 1 == end:
            next(self._bodies, None)  # nothing may stand behind the last one: it is looked for here
            self._leaves = None
        if leaf != raw.leaf:
            self._add(seq, "ledger/tile/entries", raw.leaf.hex(), leaf.hex())
            hash_ = leaf_hash(leaf)
        elif body is not None and raw.body is None:
            if commit_body(*body) != decode_entry(leaf).commitment:
                self._add(seq, "ledger/tile/bodies", "the body that the entry commits to", "another")
        elif body is not None and body != (raw.salt, raw.body):
            self._add(seq, "ledger/tile/bodies", "salt and body as in the journal", "others")
        return body is None, hash_

    def _full_tile(self, level: int) -> None:
        row = self._rows[level]
        self._compare_tile(level, self._next // WIDTH ** (level + 1) - 1, row)
        self._rows[level] = []
        while len(row) > 1:
            row = next_level(row)
        if level + 1 == len(self._rows):
            self._rows.append([])
        above = self._rows[level + 1]
        above.append(row[0])
        if len(above) == WIDTH:
            self._full_tile(level + 1)

    def _last_tiles(self) -> None:
        for level, number, width in tiles_of(self.size):
            if width < WIDTH:
                self._compare_tile(level, number, self._rows[level])

    def _compare_tile(self, level: int, number: int, row: list[bytes]) -> None:
        """The tile that holds ``row``, and those of its partial files that were published before it."""
        self._compare(level, number, row)
        try:
            self._compare_partials(hash_tile(level, number), row)
            if level == 0 and self.store.partial_widths(entry_bundle(number)):
                leaves = [encode_leaves([leaf]) for leaf in self.store.bundle(number, len(row))]
                self._compare_partials(entry_bundle(number), leaves)
        except TileError as error:
            self._add(-1, f"ledger/{error.file}", "the first ones of the tile", error.what)

    def _compare(self, level: int, number: int, row: list[bytes]) -> None:
        try:
            found = self.store.hash_tile(level, number, len(row))
        except TileError as error:
            self._add(-1, f"ledger/{error.file}", "the hash tile that the entries make", error.what)
            return
        wanted = b"".join(row)
        if found != wanted:
            pairs = enumerate(zip(wanted, found, strict=True))
            at = next(at for at, (a, b) in pairs if a != b) // HASH_BYTES
            span = slice(at * HASH_BYTES, (at + 1) * HASH_BYTES)
            where = f"ledger/{hash_tile(level, number, len(row))}, hash {at}"
            self._add(-1, where, wanted[span].hex(), found[span].hex())

    def _compare_partials(self, path: str, items: list[bytes]) -> None:
        """Those of the tile whose full file is ``path`` and that begins with ``items``. The one of just these was held
        against the entries.
        """
        for width in self.store.partial_widths(path):
            found = self.store.partial(path, width)
            wanted = b"".join(items[:width])
            if width == len(items) or found is None:
                continue
            if found != wanted and not (width > len(items) and found.startswith(wanted)):
                what = f"the first {min(width, len(items))} of the tile"
                self._add(-1, f"ledger/{partials(path)}/{width}", what, f"others, in {len(found)} bytes")

    def _add(self, seq: int, where: str, expected: str, found: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(seq, KIND, where, expected, found))
