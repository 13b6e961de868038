"""Python's cycle collector, kept from stopping the event loop.

A full collection looks at every container there is: some hundred milliseconds on a node with thousands of processes,
during which nothing is answered, and nearly all it looks at is there to stay. So what a boot has built is put aside
(:func:`gc.freeze`), unseen, and what survives a collection of more than the youngest that took longer than
``PAUSE_S`` is put aside too: the next one looks only at what is newer. What is put aside and then dropped goes as ever,
by its reference count; only a cycle that had been put aside waits, until as much again (and ``MARGIN`` objects) has
gathered. Then everything is looked at once more.
"""

from __future__ import annotations

import gc
import time

PAUSE_S = 0.003
MARGIN = 500_000


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
        if not info["generation"]:
            return
        if phase == "start":
            self._began_s = time.perf_counter()
        elif time.perf_counter() - self._began_s > self._pause_s:
            self._put_aside()

    def _put_aside(self) -> None:
        self.aside += len(gc.get_objects(generation=2))
        gc.freeze()
        if self.aside > self._settled + self._margin:
            self._settled += self.aside
            self.aside = 0
            gc.unfreeze()  # the next full collection looks at everything, and what survives it is put aside
