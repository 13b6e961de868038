"""What waits for the ledger: done again, in order, when it takes something again.

An answer that cannot be recorded is not told: a turn that is resumed would be told another one, and ask something else
from there on. So a call that meets a ledger that cannot be written is held back, and made anew later. All that waits
shares one timer, and while the first cannot be done, the others are not tried.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from chain.errors import LedgerUnavailable

RETRY_S = 0.5


class HeldBack:
    """Calls that raised LedgerUnavailable. Whoever fills it bounds it: a cell by its open calls."""

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, call: Callable[[], None]) -> None:
        """Have ``call`` tried until it does not raise LedgerUnavailable."""
        self._waiting.append(call)
        if self._timer is None:
            self._arm()

    def close(self) -> None:
        """Try nothing any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._retry_s, self._again)

    def _again(self) -> None:
        self._timer = None
        try:
            while self._waiting:
                self._waiting[0]()
                self._waiting.popleft()
        except LedgerUnavailable:
            pass
        except BaseException:
            self._waiting.popleft()
            raise
        finally:
            if self._waiting and self._timer is None:
                self._arm()
