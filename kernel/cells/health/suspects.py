"""Who may have taken a cell down when nobody is known to have: decisions only, no clock and no I/O.

The processes of such a cell are *suspects*. They are halved, and each half has cells of its own from its next start on:
so a second loss falls on one half, which is halved again, while the other is cleared. When a cell dies with the last
suspect alone in it, that one has taken it down. A culprit that is known clears all others of its half and of the other
one; so does a quiet time.

Halves that are cleared go to any cell of their domain again. Of 512 processes one is found after eleven losses at most,
with two halves at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Half:
    """Some suspects. ``other``: the half that they were parted from; ``since_s``: when."""

    other: str
    since_s: float
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a loss shows: the address that has taken the cell down, empty while that is not known, and the halves that
    are suspected no more.
    """

    culprit: str
    cleared: list[str]


class Suspects:
    """At most ``most`` halves at a time, each for ``quiet_s``; what is lost beyond that is not halved."""

    def __init__(self, most: int, quiet_s: float) -> None:
        self._most = most
        self._quiet_s = quiet_s
        self._halves: dict[str, Half] = {}
        self._half_of: dict[str, str] = {}
        self._next = 1

    def half(self, address: str) -> str:
        """The half that a process belongs to; empty for who is no suspect."""
        return self._half_of.get(address, "")

    def lost(self, half: str, addresses: Sequence[str], now_s: float) -> Finding:
        """A cell of that ``half``, empty for any other cell, has died with these in it; nobody is known to blame."""
        cleared = self.clear(half)
        if len(addresses) < 2:
            return Finding(addresses[0] if cleared and addresses else "", cleared)
        if len(self._halves) + 2 <= self._most:
            middle = len(addresses) // 2
            first, second = f"s{self._next}", f"s{self._next + 1}"
            self._next += 2
            self._part(first, second, addresses[:middle], now_s)
            self._part(second, first, addresses[middle:], now_s)
        return Finding("", cleared)

    def clear(self, half: str) -> list[str]:
        """Who is in that half, and in the other one, is suspected no more; returns these halves, as far as there are
        such.
        """
        other = self._halves[half].other if half in self._halves else ""
        cleared = [each for each in (half, other) if each in self._halves]
        for each in cleared:
            self._drop(each)
        return cleared

    def quiet(self, now_s: float) -> list[str]:
        """Clear those that have done nothing for long enough, and return them."""
        if not self._halves:
            return []
        quiet = [name for name, half in self._halves.items() if now_s - half.since_s >= self._quiet_s]
        for each in quiet:
            self._drop(each)
        return quiet

    def _part(self, name: str, other: str, addresses: Sequence[str], now_s: float) -> None:
        for address in addresses:
            self._half_of[address] = name
        self._halves[name] = Half(other, now_s, frozenset(addresses))

    def _drop(self, name: str) -> None:
        for address in self._halves.pop(name).addresses:
            if self._half_of.get(address) == name:
                del self._half_of[address]
