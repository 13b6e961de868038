"""What whoever commits to the ledger holds in hand until it is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chain.errors import LedgerUnavailable
from chain.journal.group import Group
from chain.journal.sequencer import Batch, Written
from chain.keys.keys import Keys


class Ticket:
    """One commit on its way to the disk. ``entries`` have their final place; ``group`` is None until they are
    durable.
    """

    __slots__ = ("_wait", "_waiters", "batch", "group", "keys")

    def __init__(
        self, wait: Callable[[Ticket], Awaitable[Group]], batch: Batch, keys: Keys | None = None
    ) -> None:
        self._wait = wait
        self._waiters: list[asyncio.Future[Group]] = []
        self.batch = batch
        self.keys = keys
        self.group: Group | None = None

    @property
    def entries(self) -> list[Written]:
        return self.batch.entries

    async def durable(self) -> Group:
        """Wait until the commit, and so everything before it, is on the disk; this asks for it at once.

        Raises LedgerUnavailable when it cannot be written now. It may still become durable later.
        """
        if self.group is not None:
            return self.group
        return await self._wait(self)

    def waiter(self, future: asyncio.Future[Group]) -> None:
        self._waiters.append(future)

    def written(self, group: Group) -> None:
        self.group = group
        for future in self._drain():
            future.set_result(group)

    def failed(self, why: str) -> None:
        for future in self._drain():
            future.set_exception(LedgerUnavailable(why))

    def _drain(self) -> list[asyncio.Future[Group]]:
        waiters, self._waiters = self._waiters, []
        return [future for future in waiters if not future.done()]
