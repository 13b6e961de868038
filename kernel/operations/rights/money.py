"""Amounts of money: people write them as decimal numbers, everything else counts whole millionths.

The unit is that in which a node's prices are declared; nothing here knows a currency.
"""

from __future__ import annotations

import re
from typing import Annotated

from kernel.operations.operation import Limit

MILLION = 10**6
MONEY_MOST = 2**53
"""Millionths."""
Money = Annotated[str, Limit(min_length=1, max_length=18)]
_WRITTEN = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?", re.ASCII)


def millionths(text: object) -> int:
    """What is meant by text such as ``12`` or ``0.25``. Raises ValueError."""
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError(
            f"{text!r:.40} is no amount of money: write it as text, a number with at most six digits behind its "
            'point, such as "0.25"'
        )
    whole, _, part = text.partition(".")
    amount = int(whole) * MILLION + int(part.ljust(6, "0"))
    if amount > MONEY_MOST:
        raise ValueError(f"{text} is more money than {in_units(MONEY_MOST)}, the most that can be counted")
    return amount


def in_units(amount: int) -> str:
    """Millionths as people write them."""
    whole, part = divmod(abs(amount), MILLION)
    digits = f"{part:06}".rstrip("0")
    return f"{'-' if amount < 0 else ''}{whole}{'.' if digits else ''}{digits}"
