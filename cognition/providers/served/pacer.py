"""Holds questions to one server back until they may be put (:mod:`cognition.providers.served.pace`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cognition.providers.base import Watcher
from cognition.providers.served.pace import Pace, Waiter
from cognition.providers.served.rate_headers import limits_of


class Pacer:
    """``parallel``: questions under way at most."""

    def __init__(self, parallel: int) -> None:
        self._pace = Pace(parallel)
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def slot(self, asker: str, tokens: int, watcher: Watcher) -> AsyncIterator[None]:
        """Be one of those under way, for the block; until then the watcher is told that it waits."""
        self._next += 1
        ticket, turn = self._next, asyncio.get_running_loop().create_future()
        self._turns[ticket] = turn
        self._pace.arrive(asker, Waiter(ticket, tokens))
        self._look()
        try:
            if not turn.done():
                watcher.queued()
                await turn
                watcher.begun()
            yield
        finally:
            if self._turns.pop(ticket, None) is not None:  # it had no turn
                self._pace.withdraw(asker, ticket)
            else:
                self._pace.done()
            self._look()

    def learn(self, headers: Mapping[str, str], retry_after_s: float | None) -> None:
        """The head of an answer, and how long its server wants to be left alone."""
        now_s = asyncio.get_running_loop().time()
        self._pace.learn(limits_of(headers, time.time()), now_s)
        if retry_after_s:
            self._pace.pause(retry_after_s, now_s)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Whose turn it is."""
        self.close()
        loop = asyncio.get_running_loop()
        put, again_s = self._pace.go(loop.time())
        for ticket in put:
            turn = self._turns.pop(ticket)
            if not turn.done():
                turn.set_result(None)
        if again_s is not None:
            self._timer = loop.call_later(again_s, self._look)
