"""Says when the machine's clock was set: in the ledger, in the log, and to whoever asks for the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chain.entry.draft import Draft
from kernel.state.recorder import Recorder

LOOK_S = 1.0
JUMP_US = 2_000_000

Log = Callable[..., None]


class ClockWatch:
    """Looks once a second how far the machine's clock is ahead of the node's (``ahead_us``); runs until :meth:`stop`.

    An entry ``node.clock`` is written when the difference is other than it was by more than two seconds and half of
    itself: once for a jump, and once when it is gone.
    """

    def __init__(self, ahead_us: Callable[[], int], recorder: Recorder, log: Log) -> None:
        self._ahead_us = ahead_us
        self._recorder = recorder
        self._log = log
        self._said_us = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def ahead_s(self) -> float:
        """Seconds by which the machine's clock is ahead."""
        return round(self._ahead_us() / 1e6, 3)

    def _tick(self) -> None:
        self.look()
        self.start()

    def look(self) -> None:
        """Look now."""
        ahead_us = self._ahead_us()
        if abs(ahead_us - self._said_us) <= max(JUMP_US, abs(self._said_us) // 2):
            return
        self._said_us = ahead_us if abs(ahead_us) > JUMP_US else 0
        self._recorder.must([Draft("node.clock", {"ahead_us": ahead_us})])
        self._log("the machine's clock was set; the node's does not jump", ahead_s=ahead_us / 1e6)
