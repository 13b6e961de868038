"""A summary without a language model: how each message and answer begins. Pure."""

from __future__ import annotations

import json

from cognition.context import cut_text

EACH_BYTES = 120
MOST_BYTES = 2_000
_SAID = ("earlier summary", "user", "assistant")


def extract(source: str) -> str:
    """The beginnings of what was said in a source (:func:`cognition.history.summary.source_of`), the newest kept."""
    said: list[str] = []
    for line in source.splitlines():
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for who, text in told.items() if isinstance(told, dict) else ():
            if who in _SAID and isinstance(text, str):
                said.append(_beginning(who, " ".join(text.split())))
    kept: list[str] = []
    left = MOST_BYTES
    for each in reversed(said):
        left -= len(each.encode("utf-8", "replace")) + 2
        if left < 0 and kept:
            break
        kept.append(each)
    return "; ".join(reversed(kept))


def _beginning(who: str, text: str) -> str:
    """How somebody began; of an earlier summary, which says that already, its end."""
    if who == _SAID[0]:
        return text.encode("utf-8", "replace")[-MOST_BYTES // 2 :].decode("utf-8", "ignore")
    return f"{who}: {cut_text(text, EACH_BYTES)}"
