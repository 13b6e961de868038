"""When a session is put into fewer words, whatever its strategy is, and when that is left alone. Pure.

The limit is seven tenths of what a window leaves beside the system prompt and an answer. Beyond it the oldest exchanges
become a summary; the newest, three tenths of the tokens, stay as they are. A compaction that makes nothing shorter
opens a breaker: the session is then left alone for some turns, and so it is when a person has undone one.
"""

from __future__ import annotations

from collections.abc import Sequence

from cognition.context import Record, estimate_tokens
from cognition.history.summary import SOURCE_BYTES, is_undone

ANSWER_TOKENS = 4_096
FULL = 0.7
RECENT = 0.3
REST_TURNS = 8
_BREAKER = "compaction"


def limit_of(window: int, system: Sequence[Record]) -> int:
    """Tokens of history from which a session is compacted; 0: nobody knows the window, or it leaves nothing."""
    return max(0, int(FULL * (window - sum(map(estimate_tokens, system)) - ANSWER_TOKENS)))


def source_bytes(window: int) -> int:
    """How much of a session a model of that window is shown to summarise: what half of it takes; 0: nobody knows it."""
    return min(SOURCE_BYTES, 2 * window) if window else SOURCE_BYTES


def recent_of(exchanges: Sequence[list[Record]]) -> int:
    """How many of the newest exchanges stay as they are: at least one, and not all."""
    left = RECENT * sum(estimate_tokens(record) for exchange in exchanges for record in exchange)
    kept = 0
    for exchange in reversed(exchanges):
        left -= sum(map(estimate_tokens, exchange))
        if left < 0 and kept:
            break
        kept += 1
    return min(kept, len(exchanges) - 1)


def breaker_record(why: str) -> Record:
    """What the session keeps of a compaction that came to nothing."""
    return {"role": "assistant", "content": "", "internal": True, _BREAKER: why[:200]}


def is_left_alone(history: Sequence[Record]) -> bool:
    """Whether a breaker is open, or a summary was undone, not many turns ago."""
    turns = 0
    for record in reversed(history):
        if (record.get("internal") is True and isinstance(record.get(_BREAKER), str)) or is_undone(record):
            return True
        turns += record.get("role") == "user"
        if turns >= REST_TURNS:
            return False
    return False
