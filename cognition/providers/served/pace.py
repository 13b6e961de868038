"""Which questions may be put to a server now: how many at once, how many a minute, and whose turn it is. Pure: the
clock is an argument.

Theory of operation. A server says with its answers how much of a limit is left, and when all of it is back; in between
it comes back evenly. What is put is taken off at once, by an estimate, since the server will say it only with its
answer. Who asks gets turns, one after the other, whatever the others have waiting: an agent with a hundred questions
holds up nobody for more than one. Nobody is held back for longer than ``MOST_WAIT_S`` because of what is known of a
limit: a day's limit that is used up is for the server to say, and for whoever asked to go elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MOST_WAIT_S = 60.0
_NOTHING = 1e-6  # of a request or a token: what is lost by rounding


class Told(NamedTuple):
    """What a server says of a limit: all of it, what is ``left``, and in how many seconds all of it is back."""

    limit: int
    left: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Share:
    """What is left of a limit at ``at_s``, and how much comes back a second."""

    limit: float
    left: float
    per_s: float
    at_s: float

    @classmethod
    def of(cls, told: Told, now_s: float) -> Share:
        """Where nothing says how fast it comes back: in a minute."""
        missing = max(0, told.limit - told.left)
        per_s = missing / told.reset_s if missing and told.reset_s > 0 else told.limit / 60
        return cls(told.limit, told.left, per_s, now_s)

    def now(self, now_s: float) -> Share:
        left = min(self.limit, self.left + max(0.0, now_s - self.at_s) * self.per_s)
        return Share(self.limit, left, self.per_s, now_s)

    def taken(self, amount: float, now_s: float) -> Share:
        found = self.now(now_s)
        return Share(found.limit, found.left - amount, found.per_s, now_s)

    def wait_s(self, amount: float, now_s: float) -> float:
        """Until there is so much, or all that there ever is; 0 where that would take too long to be worth the wait."""
        lacking = min(amount, self.limit) - self.now(now_s).left
        if lacking <= _NOTHING or self.per_s <= 0:
            return 0.0
        wait_s = lacking / self.per_s
        return wait_s if wait_s <= MOST_WAIT_S else 0.0


class Waiter(NamedTuple):
    """A question that waits: its ``ticket``, and about how many tokens it takes."""

    ticket: int
    tokens: int


class Pace:
    """Of one server and key. ``parallel``: questions under way at most."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._under_way = 0
        self._queues: OrderedDict[str, deque[Waiter]] = OrderedDict()
        self._shares: dict[str, Share] = {}
        self._paused_until_s = float("-inf")

    def arrive(self, asker: str, waiter: Waiter) -> None:
        """A question wants to be put."""
        self._queues.setdefault(asker, deque()).append(waiter)

    def withdraw(self, asker: str, ticket: int) -> None:
        """Nobody wants that any more."""
        left = deque(each for each in self._queues.get(asker, ()) if each.ticket != ticket)
        if left:
            self._queues[asker] = left
        else:
            self._queues.pop(asker, None)

    def done(self) -> None:
        """One that was under way is over."""
        self._under_way -= 1

    def learn(self, told: Mapping[str, Told], now_s: float) -> None:
        """What a server says of its limits on ``requests`` and ``tokens``."""
        self._shares |= {name: Share.of(each, now_s) for name, each in told.items()}

    def pause(self, seconds: float, now_s: float) -> None:
        """The server wants to be left alone; for longer than it is worth it is not."""
        if seconds <= MOST_WAIT_S:
            self._paused_until_s = max(self._paused_until_s, now_s + seconds)

    def go(self, now_s: float) -> tuple[list[int], float | None]:
        """The tickets of those that are put now, and in how many seconds there may be more; None: when one is over, or
        another one comes.
        """
        put: list[int] = []
        while self._queues and self._under_way < self._parallel:
            asker, queue = next(iter(self._queues.items()))
            wait_s = self._wait_s(queue[0], now_s)
            if wait_s > 0:
                return put, wait_s
            put.append(self._take(asker, now_s))
        return put, None

    def _take(self, asker: str, now_s: float) -> int:
        queue = self._queues.pop(asker)
        waiter = queue.popleft()
        if queue:
            self._queues[asker] = queue  # behind all others
        self._under_way += 1
        for name, amount in _amounts(waiter).items():
            if name in self._shares:
                self._shares[name] = self._shares[name].taken(amount, now_s)
        return waiter.ticket

    def _wait_s(self, waiter: Waiter, now_s: float) -> float:
        amounts = _amounts(waiter)
        waits = [share.wait_s(amounts.get(name, 0), now_s) for name, share in self._shares.items()]
        return max(self._paused_until_s - now_s, 0.0, *waits)


def _amounts(waiter: Waiter) -> dict[str, int]:
    return {"requests": 1, "tokens": waiter.tokens}
