"""Messages whose time is over before their turn has begun: each becomes a dead letter when that is so, and not only
when its turn would begin, which behind a long one may be an hour later.
"""

from __future__ import annotations

import asyncio

from kernel.clock import Clock, Timer
from kernel.message.messaging import DEAD_LETTERS_AT_ONCE, Messaging
from kernel.state.recorder import Recorder

LOOK_S = 60.0
"""The longest that nobody looks at the clock: a node's may go slower than its loop's for a while, never faster."""
LATE_S = 0.001
EXPIRED = "expired before it was delivered"


class Expiries:
    """One timer, for the message that is due first. Who is told to :meth:`look` need not know whether it is time."""

    def __init__(self, recorder: Recorder, messaging: Messaging, clock: Clock) -> None:
        self._recorder = recorder
        self._deadlines = recorder.state.mail.deadlines
        self._messaging = messaging
        self._clock = clock
        self._timer: Timer | None = None
        self._due_us = 0

    def look(self) -> None:
        """Have the next one end in time: another may be the first by now."""
        first = self._deadlines.first()
        if first is None or (self._timer is not None and self._due_us <= first[0]):
            return
        self.close()
        self._due_us = first[0]
        left_s = (first[0] - self._recorder.ledger.now_us()) / 1e6 + LATE_S
        self._timer = self._clock.later(min(max(left_s, 0.0), LOOK_S), self._due)

    def close(self) -> None:
        """Wait for none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._recorder.until_writable("expiries", self._expire_some)

    def _expire_some(self) -> None:
        """A few at a time, so that nothing else waits for them."""
        now_us = self._recorder.ledger.now_us()
        for _ in range(DEAD_LETTERS_AT_ONCE):
            first = self._deadlines.first()
            if first is None or first[0] >= now_us:
                self.look()
                return
            self._messaging.dead_letter(first[1], EXPIRED, reason="expired")
        asyncio.get_running_loop().call_soon(self._due)
