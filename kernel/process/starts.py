"""Who waits for the start of a process, or for those of many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kernel.errors import Refused, Unavailable
from kernel.model.address import parent as parent_of


class StartsTogether:
    """Starts that somebody waits for as one. ``pids`` of those that run, and ``whys`` of those that do not come, by
    their ``addresses``; of the others nothing is known yet.
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self.addresses = [*addresses]
        self.pids: dict[str, int] = {}
        self.whys: dict[str, str] = {}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def over(self, timeout_s: float) -> None:
        """Wait for the end of each start, no longer than that. Raises Unavailable when the node stops."""
        self._look()
        if not self._over.done():
            await asyncio.wait([self._over], timeout=timeout_s)
        if self._over.cancelled():
            raise Unavailable("the node is stopping")

    def _look(self) -> None:
        if len(self.pids) + len(self.whys) == len(self.addresses) and not self._over.done():
            self._over.set_result(None)

    def began(self, address: str, pid: int) -> None:
        self.pids[address] = pid
        self._look()

    def failed(self, address: str, why: str) -> None:
        self.whys[address] = why
        self._look()

    def cancel(self) -> None:
        """Nobody is told any more."""
        self._over.cancel()


class Starts:
    """Futures of the next PID that runs at an address."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[int]]] = {}
        self._together: dict[str, StartsTogether] = {}

    def wait(self, address: str) -> asyncio.Future[int]:
        """Fails with Refused when the start fails."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, []).append(future)
        return future

    def wait_for_all(self, addresses: Iterable[str]) -> StartsTogether:
        """Those of slots that were just made, none of which anybody else waits for as one of many."""
        together = StartsTogether(addresses)
        self._together.update(dict.fromkeys(together.addresses, together))
        return together

    def started(self, address: str, pid: int) -> None:
        """It runs."""
        if (together := self._together.pop(address, None)) is not None:
            together.began(address, pid)
        for future in self._waiting.pop(address, ()):
            if not future.done():
                future.set_result(pid)

    def failed(self, address: str, why: str) -> None:
        """It does not come."""
        if (together := self._together.pop(address, None)) is not None:
            together.failed(address, why)
        for future in self._waiting.pop(address, ()):
            if not future.done():
                future.set_exception(Refused(why))

    def below(self, address: str) -> list[str]:
        """The children of ``address`` that somebody waits for."""
        return [waited for waited in (*self._waiting, *self._together) if parent_of(waited) == address]

    def cancel(self) -> None:
        """The node stops."""
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()
        for together in self._together.values():
            together.cancel()
