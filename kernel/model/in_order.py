"""The children of an address by their names, for those addresses whose children were asked for in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Mapping

from kernel.model.address import ROOT, parent


class InOrder:
    """A view of ``children``, which has those of each address. Whoever changes these says so here."""

    def __init__(self, children: Mapping[str, Collection[str]]) -> None:
        self._children = children
        self._sorted: dict[str, list[str]] = {}

    def added(self, above: str, address: str) -> None:
        """``address`` is a child of ``above`` now."""
        if above in self._sorted:
            insort(self._sorted[above], address)

    def removed(self, above: str, address: str) -> None:
        """It is none any more."""
        line = self._sorted.get(above)
        if line is not None:
            del line[bisect_left(line, address)]
            if not line:
                del self._sorted[above]

    def _below(self, address: str) -> list[str]:
        line = self._sorted.get(address)
        if line is None and address in self._children:
            line = self._sorted[address] = sorted(self._children[address])
        return line or []

    def following(self, address: str) -> Iterator[str]:
        """What follows on ``address``, which need not be there, in the whole tree: parents before their children, those
        of one parent by name. Nothing may change while it is read.
        """
        yield from self._tree(self._below(address), 0)
        while address != ROOT:
            line = self._below(parent(address))
            yield from self._tree(line, bisect_right(line, address))
            address = parent(address)

    def _tree(self, line: list[str], first: int) -> Iterator[str]:
        for at in range(first, len(line)):
            yield line[at]
            if line[at] in self._children:
                yield from self._tree(self._below(line[at]), 0)
