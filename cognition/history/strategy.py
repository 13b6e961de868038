"""What becomes of a history that takes more than it may. Pure.

sliding   the oldest exchanges are left out
summary   what is beyond ``summary_threshold`` tokens of the newest is replaced by a summary
hybrid    the oldest slide out, as few as are needed for a quarter of the room to be free again, into a running summary

The last two ask a model only when there is too much, and so much goes at once that the next turns have room.
"""

from __future__ import annotations

from collections.abc import Sequence

from cognition.config.agent_config import HistoryConfig
from cognition.context import Record, estimate_tokens, newest

MESSAGES = 50
"""So many of a session a model is shown at most."""


def fits(config: HistoryConfig, exchanges: Sequence[list[Record]], head: Sequence[Record]) -> bool:
    """Whether all of it may be shown, with what stands before it."""
    messages = [record for exchange in exchanges for record in exchange]
    return len(messages) <= MESSAGES and sum(map(estimate_tokens, (*head, *messages))) <= config.max_tokens


def to_keep(config: HistoryConfig, exchanges: Sequence[list[Record]], head: Sequence[Record]) -> int:
    """How many of the newest exchanges are kept as they are, of a history that does not fit."""
    match config.strategy:
        case "sliding":
            return len(newest(exchanges, MESSAGES, config.max_tokens, head))
        case "summary":
            room = min(config.summary_threshold + sum(map(estimate_tokens, head)), config.max_tokens)
            return len(newest(exchanges, MESSAGES, room, head))
        case "hybrid":
            return len(newest(exchanges, MESSAGES * 3 // 4, config.max_tokens * 3 // 4, head))
