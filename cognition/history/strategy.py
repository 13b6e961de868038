"""What becomes of a history that takes more than it may. Pure.

sliding   the oldest exchanges are left out
summary   what is beyond ``summary_threshold`` tokens of the newest is replaced by a summary
hybrid    the oldest slide out until those left take half of the room at most, into a running summary

The *room* is what the system prompt leaves of ``max_tokens``. A summary takes a quarter of it at most, and is asked for
only when there is too much: then so much goes at once that the next turns have a quarter of the room to themselves. In
a room too small for that the oldest are left out, whatever the strategy: a model would be asked in every turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from cognition.config.agent_config import HistoryConfig
from cognition.context import Record, estimate_tokens, newest
from cognition.history.summary import SUMMARY_BYTES

MESSAGES = 50
"""So many of a session a model is shown at most."""
LEAST_ROOM = 400
"""Tokens below which there is no summary."""
_BESIDE_TEXT = 24  # tokens that the two messages of a summary take beside its text


def room_of(config: HistoryConfig, system: Sequence[Record]) -> int:
    """Tokens that the system prompt leaves."""
    return max(0, config.max_tokens - sum(map(estimate_tokens, system)))


def summary_bytes(room: int) -> int:
    """How long a summary may be."""
    return min(SUMMARY_BYTES, 4 * (room // 4 - _BESIDE_TEXT))


def summarises(config: HistoryConfig, room: int) -> bool:
    """Whether what does not fit is put into a summary."""
    return config.strategy != "sliding" and room >= LEAST_ROOM


def fits(exchanges: Sequence[list[Record]], beside: Sequence[Record], room: int) -> bool:
    """Whether all of it may be shown, ``beside`` included."""
    messages = [*beside, *(record for exchange in exchanges for record in exchange)]
    return len(messages) <= MESSAGES and sum(map(estimate_tokens, messages)) <= room


def most_that_fit(exchanges: Sequence[list[Record]], beside: Sequence[Record], room: int) -> int:
    """How many of the newest exchanges there is room for."""
    return len(newest(exchanges, MESSAGES - len(beside), room, beside))


def to_keep(config: HistoryConfig, exchanges: Sequence[list[Record]], room: int) -> int:
    """How many of the newest exchanges are kept beside a summary of the others."""
    if config.strategy == "summary":
        return len(newest(exchanges, MESSAGES - 2, min(config.summary_threshold, room * 3 // 4), ()))
    return len(newest(exchanges, MESSAGES * 3 // 4, room // 2, ()))
