"""Python's cycle collector, kept from stopping the event loop.

A full collection looks at every container there is: some hundred milliseconds on a node with thousands of processes,
during which nothing is answered, and nearly all it looks at is there to stay. So what a boot has built is put aside
(:func:`gc.freeze`), unseen, and what survives a collection that took longer than ``PAUSE_S`` is put aside too: the next
one looks only at what is newer, so that each of the objects of thousands of processes that are made is looked at once.
What is put aside and then dropped goes as ever, by its reference count; only a cycle that had been put aside waits,
until as much again (and ``MARGIN`` objects) has gathered. Then everything is looked at once more, and before that
nothing is put aside.
"""

from __future__ import annotations

import gc
import time

PAUSE_S = 0.001
MARGIN = 500_000
FULL = 2
"""The oldest generation."""


class Collector:
    """Installed for the process by :meth:`start`, until :meth:`stop`. ``aside``: objects put aside since all was
    looked at.
    """

    def __init__(self, pause_s: float = PAUSE_S, margin: int = MARGIN) -> None:
        self.aside = 0
        self._pause_s = pause_s
        self._margin = margin
        self._settled = 0
        self._began_s = 0.0
        self._looks = False

    def start(self) -> None:
        """Put aside what there is. It is not looked through before: nearly all of it is there to stay, and somebody may
        wait for the node already.
        """
        gc.freeze()
        self._settled = gc.get_freeze_count()
        gc.callbacks.append(self._collected)

    def stop(self) -> None:
        """Back to Python's own way."""
        gc.callbacks.remove(self._collected)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
        elif self._looks and info["generation"] < FULL:
            return
        elif time.perf_counter() - self._began_s > self._pause_s:
            self._put_aside()

    def _put_aside(self) -> None:
        self._looks = False
        self.aside += sum(len(gc.get_objects(generation=old)) for old in (FULL - 1, FULL))
        gc.freeze()
        if self.aside > self._settled + self._margin:
            self._settled += self.aside
            self.aside = 0
            self._looks = True
            gc.unfreeze()  # the next full collection looks at everything, and what survives it is put aside
