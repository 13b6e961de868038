"""Publishes the ledger as C2SP tiles (``ledger/``), so that a copy of the folder and a key are enough to verify it.

Theory of operation. The writer thread hands over each group that is on the disk (:meth:`Publisher.offer`), the signer
each new full head (:meth:`Publisher.signed`), and the loop the newest once more when somebody waits for it, which may
come behind a newer one. A thread of its own publishes at most once in ``publish_s``: it lays out the entries up to the
head (:class:`chain.tiles.tile_layout.Layout`, pure), writes each file beside its place, syncs and renames it, syncs the
directories, and replaces the checkpoint last. So whatever a checkpoint promises is there, and a crash leaves nothing
but files that the next publication writes again with the same bytes. A layout of which a file could not be written is
not gone on from: another is made from what is published, before anything else is.

Partial files stay until their tile is full, since whoever has an older checkpoint asks for those of its size; then they
go, one publication later for the sake of whoever is copying. Which of them a crash, or a stop, has kept from going is
looked up after the first publication, and after one that failed.

What cannot be published waits in memory up to a limit; beyond it, and at a start, it is read from the journal.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from chain.disk import COPY_BYTES, Disk, joined
from chain.errors import ChainError, TileError
from chain.journal.sequencer import Written
from chain.merkle.head import parse_head
from chain.notes.note import parse
from chain.tiles.tile_layout import Item, Layout, Output
from chain.tiles.tile_paths import CHECKPOINT, VKEYS, parse_piece, parse_width, superseded
from chain.tiles.tile_store import TileStore

PUBLISH_S = 1.0
RETRY_S = 5.0
HURRY_BYTES = 4 * 2**20
BACKLOG_BYTES = 32 * 2**20
BATCH_ITEMS = 8192
NEW = ".new"

T = TypeVar("T")
ReadFrom = Callable[[int], Iterable[Item]]


class Publisher:
    """Publishes into ``directory``. ``read_from(seq)`` reads entries from the journal, from ``seq`` on; those from
    ``begin`` on are published again when files of them are missing, none without it.

    ``published`` is called on this thread with the size of each new checkpoint. ``fault`` says why the last attempt
    failed, whatever it was; it is tried again. ``failures`` counts attempts that did. Who starts it is told, on this
    thread, when the fault changes. Raises TileError, NoteError, OSError when what is there cannot be gone on from.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        read_from: ReadFrom,
        published: Callable[[int], None],
        publish_s: float = PUBLISH_S,
        begin: int | None = None,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._read_from = read_from
        self._published = published
        self._publish_s = publish_s
        self._begin = begin
        disk.make_directory(directory)
        self._made: set[Path] = set()
        self._stale: set[str] = set()
        self._stale_known = False
        store = TileStore(directory, disk)
        layout = self._resumed()
        self._layout: Layout | None = layout
        self.size = layout.size
        self._vkeys = store.vkeys() or b""
        self._wanted_vkeys = self._vkeys
        self._backlog: deque[Item] = deque()
        self._next = self._coming = self.size  # seq of the first entry in the backlog, of the next to come
        self._backlog_bytes = 0
        self._behind = False
        self._note = b""
        self._hurry = self._stopping = self._idle = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ledger-publisher", daemon=True)
        self.fault: str | None = None
        self.failures = 0
        self._on_fault: Callable[[str | None], None] = lambda why: None
        self._exclusive = threading.Lock()

    def start(self, on_fault: Callable[[str | None], None]) -> None:
        self._on_fault = on_fault
        self._thread.start()

    def vkeys(self, text: bytes) -> None:
        """What is to stand in ``vkeys`` from the next publication on. Any thread."""
        self._wanted_vkeys = text

    def offer(self, entries: Iterable[Written]) -> None:
        """Entries that are on the disk, each exactly once and in order. Any thread."""
        with self._changed:
            for entry in entries:
                self.take((entry.leaf, entry.leaf_hash, entry.salt, entry.body))
            if self._backlog_bytes > HURRY_BYTES:
                self._changed.notify()

    def take(self, item: Item) -> None:
        """One entry more. For recovery, before :meth:`start`."""
        self._coming += 1
        if self._behind:
            return
        self._backlog.append(item)
        self._backlog_bytes += len(item[0]) + len(item[3] or b"")
        if self._backlog_bytes > BACKLOG_BYTES:
            self._behind = True
            self._backlog.clear()
            self._backlog_bytes = 0

    def signed(self, note: bytes, *, hurry: bool = False) -> None:
        """A full head, of which the newest counts. ``hurry``: publish it at once. Any thread."""
        with self._changed:
            if not self._note or self._note_size(note) > self._note_size(self._note):
                self._note = note
            self._hurry = self._hurry or hurry
            if self._hurry or self._idle:  # else it looks again when the next publication is due
                self._changed.notify()

    def stop(self) -> None:
        """Publish the newest head and end the thread. Blocks. See :attr:`fault` for whether it succeeded."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # a fault of ours: whoever waits is told
            self._say(
                f"the ledger is not published any more, on {type(error).__name__}: {error}; restart the node"
            )
            raise

    def fault_since(self, failures: int) -> str | None:
        """Why an attempt failed after so many others had, or why there will be none any more; else None. Any thread."""
        return self.fault if self.failures > failures or not self._thread.is_alive() else None

    def _say(self, fault: str | None) -> None:
        """That this is the fault now, None for none."""
        before, self.fault = self.fault, fault
        self.failures += fault is not None
        if before != fault:
            self._on_fault(fault)

    def _serve(self) -> None:
        last, pause = float("-inf"), self._publish_s
        while True:
            with self._changed:
                while not self._due(last, pause):
                    if self._stopping:
                        return
                    left = last + pause - time.monotonic()
                    self._idle = not self._note or left <= 0
                    self._changed.wait(None if self._idle else max(left, 0.001))
                    self._idle = False
                note, self._hurry = self._note, False
            self._attempt(note)
            last, pause = time.monotonic(), RETRY_S if self.fault else self._publish_s
            if self._stopping and (self.fault or note is self._note):
                return

    def _due(self, last: float, pause: float) -> bool:
        if not self._note:
            return False
        is_new = self._note_size(self._note) > self.size or self._vkeys != self._wanted_vkeys
        if not is_new and self.fault is None:
            return False
        hurry = self._hurry or (self._backlog_bytes > HURRY_BYTES and self.fault is None)
        return self._stopping or hurry or time.monotonic() >= last + pause

    @staticmethod
    def _note_size(note: bytes) -> int:
        return parse_head(parse(note).text).size

    def alone(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done while nothing is published. Blocks; any thread but the loop's."""
        with self._exclusive:
            return work()

    def _attempt(self, note: bytes) -> None:
        with self._exclusive:
            fault = self._try(note)
        self._say(fault)
        if fault is None:
            self._published(self.size)

    def _try(self, note: bytes) -> str | None:
        """Publish; why that failed, None when it did not."""
        layout, self._layout = self._layout, None
        try:
            layout = layout or self._resumed()
            self._publish(layout, note)
        except Exception as error:
            fault = _words(error)
        else:
            self._layout = layout
            return None
        try:
            self._layout = self._resumed()
        except Exception as error:
            fault = _words(error)
        return fault

    def _resumed(self) -> Layout:
        """The layout of what is published; what a crash or a failure has left behind that is removed."""
        store = TileStore(self._directory, self._disk)
        covered = store.size
        if self._begin is None or self._begin > covered:
            layout = Layout.resume(store)
        else:
            layout = Layout.resume_whole(store, self._begin)
        self._stale_known = False
        if layout.size == covered:  # else what lies behind it is what a checkpoint promises
            self._clear(layout)
        return layout

    def _publish(self, layout: Layout, note: bytes) -> None:
        size = self._note_size(note)
        touched: set[Path] = set()
        items = self._items(layout.size, size)
        while batch := next_batch(items):
            self._write_all(layout.extend(batch), touched)
        if layout.size != size:
            raise TileError(CHECKPOINT, f"{layout.size} entries are at hand, the head covers {size}")
        self._write_all(layout.finish(), touched)
        vkeys = self._wanted_vkeys  # another thread may want others meanwhile
        if self._vkeys != vkeys:
            self._write(Output(VKEYS, [vkeys]), touched)
        for directory in touched:
            self._disk.sync_directory(directory)
        self._write(Output(CHECKPOINT, [note]), set())
        self._disk.sync_directory(self._directory)
        self._vkeys = vkeys
        self.size = size
        self._forget(size)
        self._remove_stale(layout)

    def _remove_stale(self, layout: Layout) -> None:
        """Remove the directories of partial files whose tile was full before the newest publication."""
        new = layout.take_stale()
        stale = self._stale if self._stale_known else set(superseded(self.size, self._names)) - new
        for folder in stale:
            for name in self._names(folder):
                path = self._directory / folder / name
                ours = parse_width(name) or parse_piece(name) or name.endswith(NEW)
                if ours and not self._disk.is_directory(path):
                    self._disk.remove(path)
            if self._names(
                folder
            ):  # somebody else's: what was ours there must not come back with bodies erased later
                self._disk.sync_directory(self._directory / folder)
            elif self._disk.is_directory(self._directory / folder):
                self._disk.remove_directory(self._directory / folder)
            self._made.discard(self._directory / folder)
        self._stale, self._stale_known = new, True

    def _names(self, path: str) -> list[str]:
        return self._disk.names(self._directory / path)

    def _items(self, at: int, size: int) -> Iterator[Item]:
        """Those from ``at`` on, up to ``size``; from memory if they are all there."""
        with self._changed:
            behind = self._behind or not self._next <= at <= size <= self._next + len(self._backlog)
            held = [] if behind else [self._backlog[number - self._next] for number in range(at, size)]
        if not behind:
            yield from held
            return
        for item in self._read_from(at):
            yield item
            at += 1
            if at == size:
                return

    def _forget(self, size: int) -> None:
        """Entries below ``size`` need not be kept any more."""
        with self._changed:
            if self._behind:  # what came meanwhile was not kept: the next publication reads it too
                self._behind, self._next = False, self._coming
                return
            while self._backlog and self._next < size:
                leaf, _, _, body = self._backlog.popleft()
                self._backlog_bytes -= len(leaf) + len(body or b"")
                self._next += 1

    def _write_all(self, outputs: Iterable[Output], touched: set[Path]) -> None:
        for output in outputs:
            self._write(output, touched)

    def _write(self, output: Output, touched: set[Path]) -> None:
        path = self._directory / output.path
        self._make(path.parent)
        new = path.with_name(path.name + NEW)
        handle = self._disk.create(new)
        try:
            at = 0
            for chunk in self._chunks(output):
                self._disk.write(handle, at, chunk)
                at += len(chunk)
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)
        self._disk.rename(new, path)
        touched.add(path.parent)

    def _chunks(self, output: Output) -> Iterator[bytes]:
        for source in output.before:
            path = self._directory / source
            for at in range(0, self._disk.size(path), COPY_BYTES):
                yield self._disk.read_at(path, at, COPY_BYTES)
        yield from joined(output.parts)

    def _make(self, directory: Path) -> None:
        if directory not in self._made and directory != self._directory:
            self._make(directory.parent)
            self._disk.make_directory(directory)
            self._made.add(directory)

    def _clear(self, layout: Layout) -> None:
        """Remove what a crash has left where this publisher goes on: unfinished files, and pieces behind the
        checkpoint.
        """
        for path in layout.leftovers(self._names):
            self._disk.remove(self._directory / path)
        for name in self._disk.names(self._directory):
            if name.endswith(NEW):
                self._disk.remove(self._directory / name)


def next_batch(items: Iterator[Item]) -> list[Item]:
    """The next of ``items``, as many as are laid out in one go."""
    batch: list[Item] = []
    held = 0
    for item in items:
        batch.append(item)
        held += len(item[3] or b"")
        if len(batch) == BATCH_ITEMS or held >= HURRY_BYTES:
            break
    return batch


def _words(error: Exception) -> str:
    """An error that was to be expected says enough; of another its type belongs to it."""
    known = isinstance(error, OSError | ChainError)
    return f"the ledger cannot be published: {error if known else f'{type(error).__name__}: {error}'}"
