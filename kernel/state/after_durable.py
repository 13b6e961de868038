"""Things to do in order, each once what it tells of is on the disk: nothing leaves the node before that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from chain.journal.group import Group
from chain.ledger.ledger import Ledger, Ticket

Action = Callable[[], None]


class AfterDurable:
    """A queue of actions. One behind another waits for it too, so that their order is the order they were given in.

    While the disk refuses, the queue waits; who fills it bounds it. An action that fails is reported to the loop, and
    the next one is done.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._queue: deque[tuple[Ticket | None, Action]] = deque()
        ledger.on_group(self._written)

    def __len__(self) -> int:
        return len(self._queue)

    def do(self, action: Action, ticket: Ticket | None = None) -> None:
        """Do ``action`` once ``ticket`` is durable (None: at once), and all that was given before is done."""
        self._queue.append((ticket, action))
        self._drain()

    def _written(self, group: Group) -> None:
        self._drain()

    def _drain(self) -> None:
        while self._queue:
            ticket, action = self._queue[0]
            if ticket is not None and ticket.group is None:
                return
            self._queue.popleft()
            try:
                action()
            except Exception as error:
                context = {"message": "an action after a durable record failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
