"""How far a ledger is published, and who waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chain.errors import LedgerUnavailable

PATIENCE_S = 0.5


class Publication:
    """``size``: of the newest checkpoint. For the event loop's thread alone, but for :attr:`wanted`."""

    def __init__(self) -> None:
        self.size = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def wanted(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def published(self, size: int) -> None:
        """There is a newer checkpoint."""
        self.size = size
        for wanted, done in self._waiting:
            if wanted <= size and not done.done():
                done.set_result(None)
        self._waiting = [waiting for waiting in self._waiting if not waiting[1].done()]

    def waiter(self, size: int) -> asyncio.Future[None]:
        """Somebody waits until ``size`` entries are published, from now on; for :meth:`until`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, done))
        return done

    async def until(self, done: asyncio.Future[None], fault: Callable[[], str | None]) -> None:
        """Wait for it. Raises LedgerUnavailable when there is a ``fault()`` meanwhile."""
        while not done.done():
            await asyncio.wait([done], timeout=PATIENCE_S)
            why = fault()
            if why is not None and not done.done():
                self._waiting = [waiting for waiting in self._waiting if waiting[1] is not done]
                raise LedgerUnavailable(why)
