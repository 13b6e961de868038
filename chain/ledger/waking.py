"""When what has gathered is written: once it is old, or somebody waits for it: then when all that a link had to say
is heard, or at the end of the loop's round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

LAZY_S = 0.04
MARGIN_S = 0.005


class Waking:
    """Calls ``write`` for ``pending``, once for all commits of a round of the loop; before :meth:`start` never.

    As a context it is a hearing: what is committed in one and waited for is written at its end if ``lone()``, since
    nobody else comes in that round whose commits could be written with it.
    """

    def __init__(
        self, pending: Collection[object], write: Callable[[], None], lone: Callable[[], bool]
    ) -> None:
        self._pending = pending
        self._write = write
        self._lone = lone
        self._hears = self._held = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = False
        self._woken = False  # since the newest commit; the writer takes all there is
        self._timer_due = False
        self._since_s = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop`` runs; what is there already is written in its next round."""
        self._loop = loop
        self._since_s = loop.time()
        if self._pending:
            self.soon()

    def comes(self) -> None:
        """A commit is about to be added."""
        if not self._pending and self._loop is not None:
            self._since_s = self._loop.time()
        self._woken = False

    def soon(self) -> None:
        """Somebody waits: write when the loop's present round is over, unless that has been done for all there is."""
        if not self._due and not self._woken and self._loop is not None:
            self._due = True
            if self._hears:
                self._held = True
            else:
                self._loop.call_soon(self._wake)

    def __enter__(self) -> None:
        self._hears = True

    def __exit__(self, *error: object) -> None:
        self._hears = False
        if not self._held:
            return
        self._held = False
        if self._lone():
            self._wake()
        elif self._loop is not None:
            self._loop.call_soon(self._wake)

    def lazily(self) -> None:
        """Nobody waits: write once the oldest of them is 40 ms old."""
        if not self._timer_due and self._loop is not None:
            self._timer_due = True
            self._loop.call_later(LAZY_S, self._look)

    def _look(self) -> None:
        self._timer_due = False
        if not self._pending or self._loop is None:
            return
        left_s = self._since_s + LAZY_S - self._loop.time()
        if left_s > MARGIN_S:
            self._timer_due = True
            self._loop.call_later(left_s, self._look)
        else:
            self._wake()

    def _wake(self) -> None:
        self._due = False
        self._woken = True
        self._write()
