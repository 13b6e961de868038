"""Starts that are like the one before them, as those of replicas are: they leave for their cell together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any

from kernel.cell.protocol import LIKE_TOGETHER
from kernel.values import canonical

_IN_COMMON = itemgetter("behaviour", "import_string", "python_path", "config", "last_exit", "check_replay")
"""Of an order: all but the address and the name."""


def _is_same(order: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether equal configurations are the same to a behaviour too: 1, 1.0 and true are not."""
    one, two = order["config"], other["config"]
    return one is two or canonical(one) == canonical(two)


class StartFrames:
    """What leaves for one cell, by ``tell``. Starts that are alike wait for the end of the loop's round; nothing that
    is said behind them overtakes them.
    """

    def __init__(self, tell: Callable[[list[Any]], None]) -> None:
        self._tell = tell
        self._order: dict[str, Any] | None = None  # the last that was told
        self._likes: list[list[Any]] = []

    def send(self, frame: list[Any]) -> None:
        """Raises what ``tell`` raises, but for a start that is like one which was told."""
        if frame[0] == "start" and self._is_like_the_last(frame[2]):
            self._put_by(frame)
            return
        self._tell_likes()
        self._tell(frame)
        if frame[0] == "start":
            self._order = frame[2]

    def _is_like_the_last(self, order: dict[str, Any]) -> bool:
        last = self._order
        return last is not None and _IN_COMMON(order) == _IN_COMMON(last) and _is_same(order, last)

    def _put_by(self, start: list[Any]) -> None:
        if not self._likes:
            asyncio.get_running_loop().call_soon(self._tell_likes)
        self._likes.append(start)
        if len(self._likes) == LIKE_TOGETHER:
            self._tell_likes()

    def _tell_likes(self) -> None:
        likes, self._likes = self._likes, []
        if len(likes) == 1:
            self._tell(likes[0])
        elif likes:
            said = [(pid, order["address"], order["name"]) for _, pid, order in likes]
            self._tell(["like", *chain.from_iterable(said)])
