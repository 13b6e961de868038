"""The archive as the node sees it: told now and then how far the ledger is durable, and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from chain.ledger.ledger import Group, Ledger
from kernel.helper.helpers import LinkedHelper
from kernel.memory.requests import Durable
from kernel.shapes import told

READY_S = 3.0
PAUSE_S = 0.25  # a notice for each group would cost every caller of the ledger a frame and a wake-up


class ArchiveLink:
    """``group`` is for :meth:`Ledger.on_group`."""

    def __init__(self, helper: LinkedHelper, ledger: Ledger) -> None:
        self.helper = helper
        self._ledger = ledger
        self._due = False

    def group(self, group: Group) -> None:
        """A group has become durable: say so soon."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(PAUSE_S, self.tell)

    def tell(self) -> None:
        """Say how far the ledger is durable."""
        self._due = False
        self.helper.notify("durable", told(Durable(self._ledger.size)))

    def ask(self, op: str, args: dict[str, Any]) -> Awaitable[Any]:
        """One question; the answer covers everything that is durable now. Raises HelperLost, HelperRefused."""
        self.tell()
        return self.helper.request(op, args, READY_S)
