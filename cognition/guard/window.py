"""What a model is shown fits into its window, at each question of a turn. Pure.

    system prompt + history + memory + message + what the turn has done + tools  <=  window - answer

What does not fit is dropped from the middle: exchanges of the session first, the oldest of them first, then what the
turn did before its newest round. The beginning stays as it was, byte for byte, and more is dropped than has to be, so
that the next questions begin alike and a provider's cache holds. Every attempt at a turn drops the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cognition.context import (
    Record,
    cut_text,
    estimate_tokens,
    is_node_note,
    is_pinned,
    node_note,
    record_bytes,
)

SURE = 0.9
"""Of a window what counts as room: most estimates are too low by less than the rest."""
KEEP = 0.75
"""What is left of the room once something had to be dropped."""
LEFT_OUT = "some messages that stood here were left out: not all of them fit into the model's window"
CUT = "\n[weftos: cut here, as it did not fit into the model's window]"


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """System prompt and message alone take ``used`` tokens, where there is room for ``limit``."""

    used: int
    limit: int

    def __str__(self) -> str:
        return (
            f"ContextOverflow: system prompt and message take {self.used} tokens, and there is room for {self.limit}. "
            "Shorten them, lower [agent] max_tokens, or ask a model with a larger window."
        )


def fitted(shown: Sequence[Record], question: Record, room: int) -> list[Record] | ContextOverflow:
    """``shown``, in which ``question`` is, as it fits into ``room`` tokens; as it is where all of it does. What the
    node says right behind the question stays beside it."""
    if sum(map(estimate_tokens, shown)) <= room:
        return list(shown)
    asked = next((place for place, record in enumerate(shown) if record is question), None)
    if asked is None:
        return list(shown)
    head = [record for record in shown[:asked] if is_pinned(record)]
    noted = asked + 1
    while noted < len(shown) and is_node_note(shown[noted]) and shown[noted] != node_note(LEFT_OUT):
        noted += 1
    said = shown[asked:noted]
    used = sum(map(estimate_tokens, [*head, *said]))
    if used > room:  # what is on record then goes too
        head = [record for record in head if record.get("role") == "system"]
        used = sum(map(estimate_tokens, [*head, *said]))
    if used > room:
        return ContextOverflow(used, room)
    note = node_note(LEFT_OUT)
    left = int((room - used) * KEEP) - 2 * estimate_tokens(note)
    behind = list(_groups(shown[noted:], "assistant"))
    kept_behind, left = _newest(behind, left, at_least=1)
    before = list(_groups([record for record in shown[:asked] if not is_pinned(record)], "user"))
    kept_before, left = _newest(before, left, at_least=0) if len(kept_behind) == len(behind) else ([], left)
    return [
        *head,
        *([note] if len(kept_before) < len(before) else []),
        *(record for group in kept_before for record in group),
        *said,
        *([note] if len(kept_behind) < len(behind) else []),
        *(record for group in kept_behind for record in group),
    ]


def _groups(records: Sequence[Record], begins: str) -> Iterator[list[Record]]:
    """Records in runs that each begin with one of that role."""
    group: list[Record] = []
    for record in records:
        if record.get("role") == begins and group:
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _newest(groups: list[list[Record]], left: int, at_least: int) -> tuple[list[list[Record]], int]:
    """The newest that fit, and what is left; of ``at_least`` so many the results are cut so that they do."""
    kept: list[list[Record]] = []
    for group in reversed(groups):
        tokens = sum(map(estimate_tokens, group))
        if tokens > left:
            if len(kept) >= at_least:
                break
            group = _cut(group, left)
            tokens = sum(map(estimate_tokens, group))
        kept.append(group)
        left -= tokens
    return kept[::-1], left


def _cut(group: list[Record], tokens: int) -> list[Record]:
    """A round whose results share what is left of so many tokens."""
    results = [record for record in group if record.get("role") == "tool"]
    beside = sum(estimate_tokens(record) for record in group if record.get("role") != "tool")
    share = max(0, (tokens - beside) // max(1, len(results)) - 4) * 4 - len(CUT)
    return [_shorter(record, share) if record.get("role") == "tool" else record for record in group]


def _shorter(record: Record, most_bytes: int) -> Record:
    if record_bytes(record) <= most_bytes:
        return record
    text = cut_text(str(record.get("content") or ""), max(0, most_bytes))
    return {**record, "content": text + CUT, "truncated": True}
