"""Time and counters as an auditor follows them: neither may fall or skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chain.entry.entry import Entry


@dataclass(slots=True)
class Counters:
    """What the entries so far have said of time and of each process.

    An entry that was touched, or cannot be read, counts for nothing, but it did count when it was written: so behind
    it as many numbers may be missing, in whichever process.
    """

    time_us: int = 0
    next: dict[int, int] = field(default_factory=dict)
    _touched: int = 0
    _from_the_start: bool = True

    def take(self, time_us: int, pid: int, count: int) -> bool:
        """Take in an entry that is plainly the next one; False, and nothing done, when it is not."""
        return self.take_all((time_us,), (pid,), (count,))

    def take_all(self, times_us: Sequence[int], pids: Sequence[int], counts: Sequence[int]) -> bool:
        """As :meth:`take`, of entries in a row; False, and nothing done, when one of them is not the next."""
        if times_us[0] < self.time_us or sorted(times_us) != [*times_us]:
            return False
        following: dict[int, int] = {}
        for pid, count in zip(pids, counts, strict=True):
            expected = following.get(pid)
            if expected is None:
                expected = self.next.get(pid, 0 if self._from_the_start else count)
            if count != expected:
                return False
            following[pid] = count + 1
        self.next |= following
        self.time_us = times_us[-1]
        return True

    def check(self, entry: Entry) -> tuple[str, str, str] | None:
        """Take ``entry`` in; what is wrong with it, as kind, what was expected, what was found."""
        if entry.time_us < self.time_us:
            self._touched += 1
            return "time", f"not before {self.time_us}", str(entry.time_us)
        expected = self.next.get(entry.pid, 0 if self._from_the_start else entry.count)
        skipped = entry.count - expected
        if skipped and not 0 < skipped <= self._touched:
            self._touched += 1
            return "count", f"entry {expected} of pid {entry.pid}", f"entry {entry.count}"
        self._touched -= skipped
        self.time_us = entry.time_us
        self.next[entry.pid] = entry.count + 1
        return None

    def unread(self) -> None:
        """An entry stands here that cannot be read."""
        self._touched += 1

    def disbelieve(self, time_before_us: int) -> None:
        """The entry that was taken in last turned out to be touched; before it, ``time_us`` was ``time_before_us``."""
        self._touched += 1
        self.time_us = time_before_us

    @property
    def whole(self) -> bool:
        """Whether all entries so far have been taken in, from the first one on."""
        return self._from_the_start and not self._touched

    def forget(self) -> None:
        """Any number of entries is missing here."""
        self.next.clear()
        self._from_the_start = False
