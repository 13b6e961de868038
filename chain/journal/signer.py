"""The second signature: a thread that makes full heads out of provisional ones, off the hot path.

ML-DSA-65 takes 0.6 ms, and the newest head is all that needs it: whatever heads came in the meantime are
skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from chain.errors import UnsoundHead
from chain.journal.group import Group
from chain.keys.keys import Keys
from chain.merkle.signed_tree import SignedTree
from chain.notes.note import parse
from chain.notes.slots import HeadSlots

INTERVAL_S = 0.035
RETRY_S = 1.0


class Signer:
    """Adds the ML-DSA-65 line to the newest head it was offered and stores the note in a slot, every 35 ms at
    most.

    ``on_signed(note)`` is called on this thread once the note is in its slot. ``fault`` says why the last
    attempt failed, whatever it was; it is tried again after a second. ``failures`` counts attempts that did.
    ``on_fault`` is told, on this thread, when the fault changes.

    It signs only what continues what it signed before (:class:`SignedTree`); for anything else
    ``on_refused(why)`` is called on this thread, which then ends.
    """

    def __init__(
        self,
        keys: Keys,
        slots: HeadSlots,
        on_signed: Callable[[bytes], None],
        on_refused: Callable[[str], None],
        on_fault: Callable[[str | None], None],
    ) -> None:
        self._keys = keys
        self._slots = slots
        self._on_signed = on_signed
        self._on_refused = on_refused
        self._changed = threading.Condition()
        self._tree = SignedTree(keys.origin)
        self._newest = b""
        self._signed = b""
        self._stopping = False
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="ledger-signer", daemon=True)
        self.fault: str | None = None
        self.failures = 0
        self._on_fault = on_fault

    def start(self, size: int, nodes: tuple[bytes, ...], note: bytes = b"") -> None:
        """Begin, behind a verified tree of ``size`` leaves. ``note``: its head, when it lacks the second line."""
        self._tree, self._newest = SignedTree(self._keys.origin, size, nodes), note
        self._thread.start()

    def offer(self, group: Group, keys: Keys | None = None) -> None:
        """Hand over a group that is on the disk, and whose head is newer; ``keys`` sign from it on. Any thread."""
        with self._changed:
            self._tree.extend(group.leaf_hashes)
            self._newest = group.note
            self._keys = keys or self._keys
            if self._idle:  # else it looks again by itself, within the interval
                self._changed.notify()

    def stop(self) -> None:
        """Sign what was offered last, end the thread. Blocks. See :attr:`fault` for whether it was stored; an attempt
        that was under way is not the last one.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._signed_last():
                pass
        except UnsoundHead as error:
            self._say(str(error))
            self._on_refused(str(error))
        except Exception as error:  # a fault of ours: whoever waits is told
            self._say(f"heads are not signed any more, on {type(error).__name__}: {error}; restart the node")
            raise

    def _signed_last(self) -> bool:
        """Wait for a head and sign it; true when it was the last one."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._stopping or self._newest is not self._signed)
            self._idle = False
            newest, keys, stopping = self._newest, self._keys, self._stopping
            text = self._tree.sign_text(parse(newest).text) if newest is not self._signed else b""
        if text:
            self._sign(newest, text, keys)
        with self._changed:
            if stopping and (self._newest is self._signed or self.fault):
                return True
            self._changed.wait_for(lambda: self._stopping, RETRY_S if self.fault else INTERVAL_S)
        return False

    def _sign(self, newest: bytes, text: bytes, keys: Keys) -> None:
        try:
            note = newest + keys.mldsa_line(text)
            self._slots.store(note)
        except OSError as error:
            self._say(f"the head cannot be stored: {error}")
        except Exception as error:
            self._say(f"the head cannot be signed: {type(error).__name__}: {error}")
        else:
            self._say(None)
            self._signed = newest
            self._on_signed(note)

    def fault_since(self, failures: int) -> str | None:
        """Why an attempt failed after so many others had, or why there will be none any more; else None. Any thread."""
        return self.fault if self.failures > failures or not self._thread.is_alive() else None

    def _say(self, fault: str | None) -> None:
        """That this is the fault now, None for none."""
        before, self.fault = self.fault, fault
        self.failures += fault is not None
        if before != fault:
            self._on_fault(fault)
