"""Holds the files of a published ledger against the entries: each must be what the layout makes of them, to the byte.

The entries come from whoever audits them, one by one; this follows with its own :class:`~chain.tile_layout.Layout`, and
compares each file it makes with the one on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chain.audit import Finding
from chain.disk import Disk
from chain.errors import ChainError, TileError
from chain.merkle import CompactRange, leaf_hash
from chain.record import RawEntry
from chain.tile_layout import Layout, Output
from chain.tile_paths import CHECKPOINT, VKEYS, WIDTH
from chain.tile_store import TileStore

KIND = "published"
MOST_UNREAD = 4
MAX_UNREADABLE = 16  # bundles in a row


class PublishedCheck:
    """``store`` is looked at up to the size of its checkpoint when this was made."""

    def __init__(self, directory: Path, disk: Disk, store: TileStore) -> None:
        self._directory = directory
        self._disk = disk
        self.store = store
        self.size = store.size
        self.findings: list[Finding] = []
        self._layout = Layout()
        self._tree = CompactRange()
        self._leaves = store.leaves(0, self.size)
        self._bodies = store.bodies(0, self.size)
        self._broken = False
        self._partly = False

    def entries(self, start: int, end: int) -> Iterator[tuple[RawEntry | None, str]]:
        """What is published as entries ``start`` to ``end - 1``, each with where; None where a bundle is unreadable.

        It ends where several in a row are: nobody may make a reader look for more than there is.
        """
        unreadable = 0
        unread = 0
        for number in range(start // WIDTH, -(-end // WIDTH)):
            if unread == MOST_UNREAD:
                return
            first, stop = max(start - number * WIDTH, 0), min(WIDTH, end - number * WIDTH)
            try:
                leaves = self.store.bundle(number, stop)[first:]
                bodies = list(self.store.bodies(number * WIDTH + first, number * WIDTH + stop))
                unreadable = 0
            except TileError as error:
                yield None, str(error)
                unreadable += 1
                if unreadable > MAX_UNREADABLE:  # the checkpoint may claim any number of entries
                    return
                continue
            for leaf, body in zip(leaves, bodies, strict=True):
                salt, data = body or (None, None)
                yield RawEntry(leaf, salt, data), f"ledger/tile/entries, bundle {number}"

    def follow(self, seq: int, raw: RawEntry) -> None:
        """The audited entry ``seq``, wherever it was read: the published one must be the same."""
        if self._broken or seq != self._layout.size or seq >= self.size:
            return
        try:
            leaf, published = next(self._leaves), next(self._bodies)
            if leaf != raw.leaf:
                self._add(seq, "ledger/tile/entries", raw.leaf.hex(), leaf.hex())
            elif raw.body is not None and published is not None and published != (raw.salt, raw.body):
                self._add(seq, "ledger/tile/bodies", "salt and body as in the journal", "others")
            salt, body = published or (None, None)
            hash_ = leaf_hash(leaf)
            self._tree.append(hash_)
            if self._partly:
                self._layout.size += 1
            else:
                for output in self._layout.extend([(leaf, hash_, salt, body)]):
                    self._compare(output)
            if self._layout.size == self.size:
                self._last()
        except (ChainError, StopIteration) as error:
            self._broken = True
            self._add(seq, "ledger", "a published ledger", str(error))

    def _last(self) -> None:
        for output in () if self._partly else self._layout.finish():
            if not output.path.startswith("tile/bodies"):  # in pieces; each body was compared
                self._compare(output)
        head = self.store.head
        if head is not None and head.root != self._tree.root():
            self._add(-1, "ledger/checkpoint", self._tree.root().hex(), head.root.hex())

    def root(self, size: int) -> bytes | None:
        """The root over the first ``size`` published entries; None when the tiles do not tell."""
        try:
            return self.store.root(size) if size <= self.size else None
        except ChainError:
            return None

    def begin_at(self, seq: int) -> None:
        """Entries before ``seq`` do not come: files are not compared then, only entry by entry, and the root."""
        self._layout.size = seq
        self._partly = True
        self._tree = self.store.compact_range(seq)
        self._leaves = self.store.leaves(seq, self.size)
        self._bodies = self.store.bodies(seq, self.size)

    def finish(self) -> None:
        """All entries came. Were they as many as are published?"""
        if not self._broken and self._layout.size < self.size:
            self._add(
                self._layout.size, "ledger", f"{self.size} entries", f"{self._layout.size} could be compared"
            )
        for name in self._disk.names(self._directory):
            if name not in (CHECKPOINT, VKEYS, "tile") and not name.endswith(".new"):
                self._add(-1, f"ledger/{name}", "no such file", "a file the node does not write")

    def _compare(self, output: Output) -> None:
        wanted = b"".join(output.parts)
        try:
            found = self._disk.read_at(self._directory / output.path, 0, len(wanted) + 1)
        except FileNotFoundError:
            found = self._wider(output.path, len(wanted))
        except OSError as error:
            raise TileError(output.path, error.strerror or str(error)) from error
        if found != wanted:
            at = next(
                (at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), len(found)
            )
            what = f"{found[at : at + 16].hex() or 'nothing'} at byte {at}"
            self._add(self._first(output), f"ledger/{output.path}", wanted[at : at + 16].hex(), what)

    def _wider(self, path: str, length: int) -> bytes:
        """A partial file that has gone since the ledger grew: what a wider one holds at its beginning."""
        whole, _, width = path.rpartition(".p/")
        if not whole:
            raise TileError(path, "is missing")
        folder = self._directory / f"{whole}.p"
        wider = [name for name in self._disk.names(folder) if name.isdigit() and int(name) > int(width)]
        for candidate in (self._directory / whole, *(folder / name for name in wider)):
            try:
                return self._disk.read_at(candidate, 0, length)
            except FileNotFoundError:
                continue
        raise TileError(path, "is missing")

    def _first(self, output: Output) -> int:
        return max(0, self._layout.size - 1) // WIDTH * WIDTH if "/entries/" in output.path else -1

    def _add(self, seq: int, where: str, expected: str, found: str) -> None:
        self.findings.append(Finding(seq, KIND, where, expected, found))
