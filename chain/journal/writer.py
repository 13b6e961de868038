"""The ledger's writer: forms groups, signs their heads, writes each with one sync. Two may do that, one at a time.

The event loop, with :meth:`Writer.write_now`, while the disk is quick: no other thread has a part in it. It waits for
the disk as long as :mod:`chain.journal.pace` says and no longer; what is not done by then, or has failed, the writer's
thread goes on with.

The thread, when it is woken: for a disk that is slow, refuses or is full, for new segments, and for what the loop left.
It holds the interpreter's lock for tens of microseconds a group: everything that costs per entry was done by whoever
committed it, and hashing, signing, writing and syncing release the lock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from chain.entry.record import encode_payload
from chain.errors import DamageError, UnsoundHead
from chain.journal.group import Group, HasBatch, head_text, take_group
from chain.journal.journal import Journal
from chain.journal.pace import Pace
from chain.journal.reserve import NO_SPACE, Reserve
from chain.journal.sequencer import Batch, Written
from chain.keys.keys import Keys
from chain.merkle.signed_tree import SignedTree
from chain.notes.note import join_note

RETRY_S = 1.0

_Waiting = TypeVar("_Waiting", bound=HasBatch)


@dataclass(frozen=True, slots=True)
class RollSegment:
    """A wish for a new segment. ``done(group, why)`` is called on the writer's thread: its first group, or why not."""

    done: Callable[[int, str], None]


@dataclass(slots=True)
class Formed(Generic[_Waiting]):
    """A group that is about to be written. ``payload``: the bytes of its frame, the same at each attempt. ``note``: the
    head over it, None when it has no entry.
    """

    taken: list[_Waiting]
    payload: bytes
    note: bytes | None
    hashes: tuple[bytes, ...]
    entries: tuple[Written, ...]
    first_seq: int
    before: tuple[bytes, ...]


class Writer(Generic[_Waiting]):
    """Writes what is in ``pending`` whenever it is woken.

    ``on_written(group, taken)`` is called for each group on the disk, ``on_failed(why)`` for each failed attempt,
    ``on_space(why)`` when the disk was full and ``reserve`` was given up, and with an empty ``why`` when there is room
    for it again, all on this thread. A group that failed is tried again, with the same bytes, every ``retry_s`` until
    it succeeds or the writer is stopped. A commit with ``keys`` is signed by these, and so is all behind it.

    It signs only what continues what it signed before (:class:`SignedTree`). A batch that claims another tree is
    not written, and nothing after it.
    """

    def __init__(
        self,
        journal: Journal,
        keys: Keys,
        pending: deque[_Waiting],
        on_written: Callable[[Group, list[_Waiting]], None],
        on_failed: Callable[[str], None],
        on_space: Callable[[str], None],
        reserve: Reserve,
        retry_s: float = RETRY_S,
    ) -> None:
        self._journal = journal
        self._keys = keys
        self._on_space = on_space
        self._reserve = reserve
        self._pending = pending
        self._on_written = on_written
        self._on_failed = on_failed
        self._retry_s = retry_s
        self._commands: SimpleQueue[bool | RollSegment] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._signed = SignedTree(keys.origin)
        self._note = b""
        self._refusal = ""
        self._ended = ""
        self._wish: RollSegment | None = None
        self._pace = Pace()
        self._at_work = threading.Lock()
        self._left: Formed[_Waiting] | None = None
        self._fault: Exception | None = None
        self._stopping = False

    def start(self, size: int, nodes: tuple[bytes, ...], note: bytes) -> None:
        """Begin, behind a tree of ``size`` leaves whose newest head is ``note``."""
        self._signed, self._note = SignedTree(self._keys.origin, size, nodes), note
        self._thread.start()

    def wake(self) -> None:
        """There is something in ``pending`` to be written now. Any thread."""
        self._commands.put(True)

    def write_now(
        self, hand_on: Callable[[Group, list[_Waiting]], None], *, alone: bool
    ) -> tuple[Group, list[_Waiting]] | None:
        """Write what is pending, on the loop's thread: the group, and who waits for it. ``hand_on`` has them before the
        writer's thread may write another. Raises nothing.

        None when that is left to the thread, which is woken for it: where ``alone`` is not said (little is pending,
        nothing is on its way to the disk, one caller waits), or the disk is not quick, or anything but a frame is due.
        """
        self._pace.comes(alone=alone)
        if not alone or not self._at_work.acquire(blocking=False):
            self.wake()
            return None
        try:
            wait_s = self._pace.wait_s(time.monotonic()) if self._may_write_now() else 0.0
            written = self._write_within(wait_s) if wait_s else None
            if written is not None:
                hand_on(*written)
        finally:
            self._at_work.release()
        if written is None or self._pending:
            self.wake()
        return written

    @property
    def lone(self) -> bool:
        """Whether there has been one caller alone of late."""
        return self._pace.lone

    def _may_write_now(self) -> bool:
        ends = self._stopping or self._ended or self._refusal
        if ends or self._left is not None or self._fault is not None:
            return False
        return bool(self._pending) and self._reserve.whole and self._journal.at_rest

    def _write_within(self, wait_s: float) -> tuple[Group, list[_Waiting]] | None:
        try:
            formed = self._left = self._form(take_group(self._pending))
            number = self._journal.append_within(formed.payload, self._keys.sign_ed25519, wait_s)
        except UnsoundHead as error:
            self._refusal = str(error)
            return None
        except Exception as error:  # the thread goes on from here, and tells whoever waits
            self._fault = error
            return None
        self._pace.waited(time.monotonic(), self._journal.waited_s)
        if number is None:
            return None
        self._pace.took(self._journal.waited_s)
        self._left = None
        return self._group(number, formed), formed.taken

    def roll(self, wish: RollSegment) -> None:
        """Write what is pending, and begin a new segment. Any thread."""
        self._commands.put(wish)
        if self._ended:
            self._answer_wishes()

    def refuse(self, why: str) -> None:
        """Write nothing more: somebody has found that what is being written is unsound. Any thread."""
        self._refusal = why
        self._commands.put(True)

    def stop(self) -> None:
        """Write what is pending, end the thread, give up the journal's descriptor. Blocks. A failing disk is
        not waited for: what it refused last, and what is still in ``pending``, is not written.
        """
        self._stopping = True
        self._commands.put(False)
        if self._thread.ident is not None:
            self._thread.join()
        self._journal.close()

    def _run(self) -> None:
        why = "the journal's writer has stopped"
        try:
            self._serve()
        except Exception as error:  # a fault of ours must not leave callers waiting for ever
            self._ended = why = f"{why} on {type(error).__name__}: {error}; restart the node"
            self._on_failed(why)
            raise
        finally:
            self._ended = self._refusal or why
            if self._wish is not None:
                self._wish.done(0, self._ended)
            self._answer_wishes()

    def _answer_wishes(self) -> None:
        """There is nobody any more who would begin a new segment. Any thread."""
        with contextlib.suppress(Empty):
            while True:
                command = self._commands.get_nowait()
                if isinstance(command, RollSegment):
                    command.done(0, self._ended)

    def _serve(self) -> None:
        go_on = True
        while go_on:
            command = self._command()
            go_on = bool(command)
            self._wish = command if isinstance(command, RollSegment) else None
            with self._at_work:
                if not self._write_all():
                    return
                if self._wish is not None:
                    self._roll(self._wish)
                    self._wish = None
            if self._refusal:
                self._on_failed(self._refusal)
                return

    def _write_all(self) -> bool:
        """Write what the loop has left, and what is pending. False when the writer is stopped before that is done."""
        try:
            if self._left is not None:
                left, self._left = self._left, None
                if not self._write(left, begun=True):
                    return False
            elif self._fault is not None:
                raise self._fault
            while self._pending and not self._refusal:
                if not self._write(self._form(take_group(self._pending))):
                    return False
        except UnsoundHead as error:
            self._refusal = str(error)
        return True

    def _command(self) -> bool | RollSegment:
        """The next one. While the reserve is given up, look every now and then whether there is room for it."""
        while not self._reserve.whole:
            try:
                return self._commands.get(timeout=self._retry_s)
            except Empty:
                self._make_reserve()
        return self._commands.get()

    def _make_reserve(self) -> None:
        try:
            if self._reserve.make():
                self._on_space("")
        except OSError as error:
            self._on_space(f"no space can be set aside: {error}")

    def _roll(self, wish: RollSegment) -> None:
        if self._refusal:
            wish.done(0, self._refusal)
            return
        try:
            group = self._journal.roll()
        except (OSError, DamageError) as error:
            wish.done(0, f"no new segment can be begun: {error}")
            return
        wish.done(group, "")

    def _form(self, taken: list[_Waiting]) -> Formed[_Waiting]:
        """The next group. Raises UnsoundHead."""
        batches = [waiting.batch for waiting in taken]
        entries = tuple([written for batch in batches for written in batch.entries])
        hashes = tuple([written.leaf_hash for written in entries])
        first_seq, before = self._signed.size, self._signed.nodes
        self._keys = taken[0].keys or self._keys
        note = self._sign(hashes, batches[-1]) if hashes or batches[-1].size != first_seq else None
        payload = encode_payload([record for batch in batches for record in batch.records], note)
        return Formed(taken, payload, note, hashes, entries, first_seq, before)

    def _write(self, formed: Formed[_Waiting], *, begun: bool = False) -> bool:
        """Write a group, however often that takes; ``begun``: the loop has tried, and left it. False when the writer is
        stopped instead.
        """
        while True:
            try:
                number = self._go_on(formed) if begun else self._append(formed)
                break
            except (OSError, DamageError) as error:
                begun = False
                if self._give_up_reserve(error):
                    continue
                self._on_failed(f"the journal cannot be written: {error}")
            if not self._may_retry():
                return False
        self._on_written(self._group(number, formed), formed.taken)
        return True

    def _append(self, formed: Formed[_Waiting]) -> int:
        number = self._journal.append(formed.payload, self._keys.sign_ed25519)
        self._pace.took(self._journal.waited_s)
        return number

    def _go_on(self, formed: Formed[_Waiting]) -> int:
        """With what the loop has begun: wait for the disk, or take its fault for one of the first attempt."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        number = self._journal.finish()
        self._pace.took(self._journal.waited_s)
        return number

    def _group(self, number: int, formed: Formed[_Waiting]) -> Group:
        self._note = formed.note or self._note
        size = self._signed.size
        return Group(number, formed.first_seq, size, self._note, formed.hashes, formed.before, formed.entries)

    def _give_up_reserve(self, error: Exception) -> bool:
        """Whether there is more space now for what could not be written."""
        if not isinstance(error, OSError) or error.errno not in NO_SPACE:
            return False
        try:
            given_up = self._reserve.release()
        except OSError:
            return False
        if given_up:
            self._on_space(str(error))
        return given_up

    def _sign(self, leaf_hashes: tuple[bytes, ...], last: Batch) -> bytes:
        """The provisional head over these entries too. Raises UnsoundHead when ``last`` claims another tree."""
        self._signed.extend(leaf_hashes)
        text = self._signed.sign_text(head_text(self._keys.origin, last.size, last.nodes))
        return join_note(text, self._keys.ed25519_line(text))

    def _may_retry(self) -> bool:
        """Wait until the next attempt is due; False when the writer is stopped instead."""
        due = time.monotonic() + self._retry_s
        while (left := due - time.monotonic()) > 0:
            try:
                command = self._commands.get(timeout=left)
            except Empty:
                break
            if isinstance(command, RollSegment):
                command.done(0, "the journal cannot be written")
            elif not command:
                return False
        return True
