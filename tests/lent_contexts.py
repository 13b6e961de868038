"""Contexts of asynchronous I/O that go from one ledger of the tests to the next.

The kernel takes 33 ms to be rid of one, in which it does nothing. A process of ours needs one in its life; the tests
open thousands of ledgers, each of which took that time.
"""

from __future__ import annotations

import os
import weakref

import chain.aio

Context = chain.aio._Context


class _Kept:
    """A real one, of this process. ``under_way``: what it was asked is not answered yet."""

    def __init__(self) -> None:
        self.context = Context()
        self.under_way = False


_idle: dict[int, list[_Kept]] = {}  # by process: a forked child has none of its parent's


def _give_back(process: int, kept: _Kept) -> None:
    if process == os.getpid() and not kept.under_way:
        _idle[process].append(kept)


class LentContext:
    """In the place of :class:`chain.aio._Context`. One that was left with something under way is lent no more."""

    def __init__(self) -> None:
        process = os.getpid()
        idle = _idle.setdefault(process, [])
        self._kept = idle.pop() if idle else _Kept()
        weakref.finalize(self, _give_back, process, self._kept)

    def submit(self, handle: int) -> bool:
        self._kept.under_way = self._kept.context.submit(handle)
        return self._kept.under_way

    def result(self, within_s: float | None) -> int | None:
        found = self._kept.context.result(within_s)
        self._kept.under_way = self._kept.under_way and found is None
        return found
