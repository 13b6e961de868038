"""What questions to models cost. Pure.

Theory of operation. A price is for a million tokens, in millionths of the unit of money: whole numbers, so that nothing
is rounded but the sum of an answer, once and upwards. What was reserved at :meth:`Price.most` is therefore never less
than what an answer of no more tokens comes to (:meth:`Price.of`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kernel.operations.rights.money import MILLION, MONEY_MOST


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million tokens: of those that a model reads, those that it writes, and those that it reads and its provider
    had kept from before.
    """

    input: int = 0
    output: int = 0
    cached: int = 0

    def of(self, read: int, written: int, cached: int = 0) -> int:
        """What an answer comes to, of which ``cached`` of the tokens that were ``read`` had been kept."""
        cached = min(read, cached)
        millions = (read - cached) * self.input + cached * self.cached + written * self.output
        return min(_up(millions), MONEY_MOST)

    def most(self, read: int, written: int) -> int:
        """What an answer of no more tokens can come to, whatever had been kept."""
        return _up(read * self._reading + written * self.output)

    def affords(self, money: int, read: int, most: int) -> int:
        """How long an answer ``money`` pays for beside what is ``read``, ``most`` when it is as long as that; below 0
        when it does not even pay for that.
        """
        rest = money * MILLION - read * self._reading
        if rest < 0:
            return -1
        return min(most, rest // self.output) if self.output else most

    @property
    def _reading(self) -> int:
        return max(self.input, self.cached)


NOTHING = Price()
"""What is asked for nothing."""


def _up(millions: int) -> int:
    return -(-millions // MILLION)
