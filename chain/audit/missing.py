"""The bodies that are not there, until a later entry says that they were erased."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator


class Missing:
    """Numbers come in rising order (:meth:`add`) and go again in ranges (:meth:`explain`).

    However the ranges lie, each number goes once: one that is gone points to the next that may still be there.
    """

    __slots__ = ("_next", "_seqs")

    def __init__(self) -> None:
        self._seqs = array("q")
        self._next = array("q")

    def add(self, seq: int) -> None:
        """The body of entry ``seq`` is not there."""
        self._next.append(len(self._seqs))
        self._seqs.append(seq)

    def explain(self, first: int, last: int) -> None:
        """An entry says that the bodies of ``first`` to ``last`` were erased."""
        at = self._from(bisect_left(self._seqs, first))
        while at < len(self._seqs) and self._seqs[at] <= last:
            self._next[at] = at + 1
            at = self._from(at + 1)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """What nothing has explained: first and last of each range."""
        first = last = -2
        at = self._from(0)
        while at < len(self._seqs):
            seq = self._seqs[at]
            if seq != last + 1:
                if first >= 0:
                    yield first, last
                first = seq
            last = seq
            at = self._from(at + 1)
        if first >= 0:
            yield first, last

    def _from(self, at: int) -> int:
        """The first place from ``at`` on whose number is still missing."""
        following = self._next
        while at < len(following) and following[at] != at:
            beyond = following[at]
            if beyond < len(following):
                following[at] = following[beyond]
            at = beyond
        return at
