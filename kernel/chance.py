"""What is random in the node, from the machine's own source, fetched many bytes at a time.

Each fetch is a system call in which the interpreter's lock changes hands, and each call has an effect id. Bytes are
given out once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import SystemRandom

FETCHED_BYTES = 4096


class Chance(SystemRandom):
    """As :class:`random.SystemRandom`, of one thread."""

    def __init__(self, fetch: Callable[[int], bytes] = os.urandom) -> None:
        super().__init__()
        self._fetch = fetch
        self._fetched, self._at = b"", 0

    def random(self) -> float:
        """From 0 up to 1, of 53 bits."""
        return (int.from_bytes(self.randbytes(7), "big") >> 3) * 2**-53

    def getrandbits(self, k: int, /) -> int:
        """A number of ``k`` bits. Raises ValueError for less than none."""
        if k < 0:
            raise ValueError(f"{k} is no number of bits")
        count = (k + 7) // 8
        return int.from_bytes(self.randbytes(count), "big") >> (count * 8 - k)

    def randbytes(self, n: int) -> bytes:
        """So many bytes."""
        if len(self._fetched) - self._at < n:
            self._fetched, self._at = self._fetch(n + FETCHED_BYTES), 0
        at, self._at = self._at, self._at + n
        return self._fetched[at : self._at]
