"""Who waits for the start of a process."""

from __future__ import annotations

import asyncio

from kernel.errors import Refused
from kernel.model.address import parent as parent_of


class Starts:
    """Futures of the next PID that runs at an address."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[int]]] = {}

    def wait(self, address: str) -> asyncio.Future[int]:
        """Fails with Refused when the start fails."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, []).append(future)
        return future

    def started(self, address: str, pid: int) -> None:
        """It runs."""
        for future in self._waiting.pop(address, []):
            if not future.done():
                future.set_result(pid)

    def failed(self, address: str, why: str) -> None:
        """It does not come."""
        for future in self._waiting.pop(address, []):
            if not future.done():
                future.set_exception(Refused(why))

    def below(self, address: str) -> list[str]:
        """The children of ``address`` that somebody waits for."""
        return [waited for waited in self._waiting if parent_of(waited) == address]

    def cancel(self) -> None:
        """The node stops."""
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()
