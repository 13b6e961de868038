"""An event loop without sockets, threads and a clock: when nothing is ready, time is at the next timer.

What asyncio promises of the order of callbacks holds here too, and nothing else decides it; so the same calls always
come to the same. A crash of the node is :class:`Crash`, which goes through everything and ends the run of the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Coroutine
from typing import Any


class Crash(KeyboardInterrupt):
    """The node has stopped dead. Not an Exception: nothing of the kernel may take it for one and go on."""


class Idle(Exception):
    """Nothing is ready and nothing is due: whoever waits would wait for ever."""


class VirtualLoop(asyncio.BaseEventLoop):
    """``now_s`` is the time; it goes on only when there is nothing to do at it."""

    def __init__(self, now_s: float) -> None:
        super().__init__()
        self.now_s = now_s
        self.set_debug(False)
        self._selector = self  # what BaseEventLoop asks for events, and how long to wait for them

    def time(self) -> float:
        return self.now_s

    def select(self, timeout: float | None) -> list[Any]:
        """As a selector's: nothing ever comes from outside, so the whole time passes."""
        if timeout is None:
            raise Idle("nothing is left that could happen")
        self.now_s += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is no other thread that would wake it."""

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` to its end. Raises what it raises, and :class:`Crash`."""
        self.run_until_complete(work)

    def let(self, delay_s: float) -> None:
        """Let everything happen that does so in ``delay_s``."""
        self.do(asyncio.sleep(delay_s))

    def next_s(self) -> float:
        """When something happens next; infinity: nothing will."""
        if self._ready:  # type: ignore[attr-defined]  # asyncio has no word for it
            return self.now_s
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return scheduled[0].when() if scheduled else math.inf

    def round_at(self, at_s: float) -> None:
        """One round, of what happens by then. Raises :class:`Crash`."""
        self.wait_until(at_s)
        self.stop()
        self.run_forever()

    def wait_until(self, at_s: float) -> None:
        """Nothing happens until then."""
        self.now_s = max(self.now_s, at_s)

    def abandon(self) -> None:
        """Nothing of it runs any more; what was under way is not mourned."""
        self.set_exception_handler(lambda loop, context: None)
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is pending for ever
            work = task.get_coro()
            if isinstance(work, Coroutine) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
        self._ready.clear()  # type: ignore[attr-defined]  # asyncio has no word for it
        self._scheduled.clear()  # type: ignore[attr-defined]
