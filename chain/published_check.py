"""Holds the files of a published ledger against the entries that an audit goes through.

Leaves and bodies are compared one by one, and each hash tile when the entries under it have passed. Nothing is held
but the hashes of the last tile of each level.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chain.audit import Finding
from chain.disk import Disk
from chain.entry import commit_body, decode_entry
from chain.errors import ChainError, TileError
from chain.merkle import HASH_BYTES, CompactRange, leaf_hash, node_hash
from chain.record import RawEntry
from chain.tile_paths import CHECKPOINT, VKEYS, WIDTH, hash_tile, tiles_of
from chain.tile_store import Body, TileStore

KIND = "published"
MOST_UNREADABLE = 16  # bundles in a row
MOST_FINDINGS = 1_000


class PublishedCheck:
    """``store`` is looked at up to the size of its checkpoint when this was made."""

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
        self._broken = False

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

    def entries(self, start: int, end: int) -> Iterator[tuple[RawEntry | None, str]]:
        """What is published as entries ``start`` to ``end - 1``, each with where; None where a bundle is unreadable.

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
                for leaf, body in zip(leaves, self.store.bodies(first, number * WIDTH + stop), strict=True):
                    salt, data = body or (None, None)
                    yield RawEntry(leaf, salt, data), f"ledger/tile/entries, bundle {number}"
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

    def _compare_entry(self, seq: int, raw: RawEntry, hash_: bytes) -> tuple[bool, bytes]:
        """Compare what is published with an entry from elsewhere: whether its body is not published, and the hash of
        the leaf that is.
        """
        if self._leaves is None:
            self._leaves, self._bodies = self.store.leaves(seq, self.size), self.store.bodies(seq, self.size)
        leaf, body = next(self._leaves), next(self._bodies)
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
        self._compare(level, self._next // WIDTH ** (level + 1) - 1, row)
        self._rows[level] = []
        while len(row) > 1:
            row = [node_hash(row[at], row[at + 1]) for at in range(0, len(row), 2)]
        if level + 1 == len(self._rows):
            self._rows.append([])
        above = self._rows[level + 1]
        above.append(row[0])
        if len(above) == WIDTH:
            self._full_tile(level + 1)

    def _last_tiles(self) -> None:
        for level, number, width in tiles_of(self.size):
            if width < WIDTH:
                self._compare(level, number, self._rows[level])

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

    def _add(self, seq: int, where: str, expected: str, found: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(seq, KIND, where, expected, found))
