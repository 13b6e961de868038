"""How many calls of one turn are with workers at once; the others wait for them, in their order. Pure.

Whoever waits has not begun: nothing of it has been done.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Turn:
    inside: set[Hashable] = field(default_factory=set)
    waiting: OrderedDict[Hashable, Callable[[], None]] = field(default_factory=OrderedDict)


class AtOnce:
    """``most`` of each turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns: dict[str, _Turn] = {}

    def enter(self, turn: str, who: Hashable, begin: Callable[[], None]) -> None:
        """Call ``begin`` when there is room: now, or in the :meth:`leave` that makes it."""
        of = self._turns.setdefault(turn, _Turn())
        if len(of.inside) < self._most:
            of.inside.add(who)
            begin()
        else:
            of.waiting[who] = begin

    def leave(self, turn: str, who: Hashable) -> None:
        """It is over, or is not wanted any more; more than once does no harm."""
        of = self._turns.get(turn)
        if of is None:
            return
        of.waiting.pop(who, None)
        if who not in of.inside:
            return
        of.inside.discard(who)
        if of.waiting:
            following, begin = of.waiting.popitem(last=False)
            of.inside.add(following)
            begin()
        elif not of.inside:
            del self._turns[turn]
