"""Effects of supervision, and exits to be heard, carried out one after the other; and what is due later.

An effect that causes the next event never runs inside the handling of the last one; and of thousands a few are carried
out at a time, so that the event loop goes round in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from kernel.clock import Clock, Timer
from kernel.errors import Unavailable
from kernel.process.process_signals import ProcessExited
from kernel.supervision.reducer import Effect

ROUND_S = 0.003
EFFECTS_AT_ONCE = 32  # between two rounds of the event loop: the starts of one unit of an apply, and no more


class Effects:
    """The queue. ``perform(supervisor, effect)`` carries out one; ``at_once`` are, between two rounds of the loop, and
    none after ``round_s``.
    """

    def __init__(self, perform: Callable[[str, Effect | ProcessExited], None], clock: Clock) -> None:
        self.at_once = EFFECTS_AT_ONCE
        self.round_s = ROUND_S
        self.closed = False
        self._perform = perform
        self._clock = clock
        self._queue: deque[tuple[str, Effect | ProcessExited]] = deque()
        self._timers: set[Timer] = set()
        self._busy = False
        self._done = 0  # in this round of the loop
        self._until_s = 0.0  # this round
        self._performed = 0

    def carry_out(self, supervisor: str, effects: Iterable[Effect | ProcessExited]) -> None:
        """Now, as far as nothing else is being carried out, and as many as may be at once."""
        self._queue.extend((supervisor, effect) for effect in effects)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue and self._done < self.at_once:
                now_s = self._clock.now_s()
                if not self._done:
                    self.later(0.0, self._next_round)
                    self._until_s = now_s + self.round_s
                elif now_s > self._until_s:
                    break
                self._done += 1
                self._performed += 1
                self._perform(*self._queue.popleft())
        finally:
            self._busy = False

    def _next_round(self) -> None:
        """The rest of the loop has gone round. All events of a round count together: each exit may be heard as an event
        of its own, and cause the next.
        """
        self._done = 0
        self.carry_out("", ())

    @property
    def unfinished(self) -> bool:
        """Whether effects of what has happened wait for the next round of the event loop."""
        return bool(self._queue)

    async def settled(self) -> None:
        """Wait until what follows from all that has happened so far is done. Raises Unavailable when the node stops."""
        upto = self._performed + len(self._queue)
        while self._performed < upto:
            if self.closed:
                raise Unavailable("the node is stopping")
            await asyncio.sleep(0)

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Make ``call`` in ``delay_s``, unless the node stops before."""
        if self.closed:
            return

        def due() -> None:
            self._timers.discard(timer)
            call()

        timer = self._clock.later(delay_s, due)
        self._timers.add(timer)

    def close(self) -> None:
        """Nothing is carried out any more, and nothing is due."""
        self.closed = True
        self._queue.clear()
        for timer in self._timers:
            timer.cancel()
