"""What the messages of a question are made of, as it is recorded with it. Pure.

A message says itself which section it is of (``section``, which no provider is sent) where that is more than its place
says: what stands before the message is the history, what stands behind it is of this turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from cognition.context import Record, estimate_tokens, is_node_note
from cognition.prompt.sections import BETWEEN, PromptSection
from kernel.abi import MOST_SECTIONS, Section

SOURCES = {
    "system": "[agent]",
    "deeds": "ledger",
    "summary": "session",
    "history": "session",
    "message": "sender",
    "memory": "memory_search",
    "notes": "node",
    "turn": "this turn",
}


def sections_of(
    shown: Sequence[Record], question: Record, prompt: Sequence[PromptSection], tool_tokens: int
) -> tuple[Section, ...]:
    """Of the messages ``shown``, in which ``question`` is; ``tool_tokens``: what the tools beside them take."""
    sections: list[Section] = []
    names = list(_names(shown, question))
    for name, run in groupby(range(len(shown)), names.__getitem__):
        places = list(run)
        if name == "system" and prompt:
            sections += (section for place in places for section in _of_prompt(prompt, place))
            continue
        tokens = sum(estimate_tokens(shown[place]) for place in places)
        sections.append(Section(name, SOURCES.get(name, "node"), tokens, places[0], len(places)))
    if tool_tokens:
        sections.append(Section("tools", "registry", tool_tokens, len(shown), 0))
    return tuple(sections[: MOST_SECTIONS - 1] + sections[-1:] if len(sections) > MOST_SECTIONS else sections)


def _names(shown: Sequence[Record], question: Record) -> Iterator[str]:
    """The section that each message is of."""
    asked = False
    for record in shown:
        asked = asked or record is question
        yield _name_of(record, record is question, asked)


def _name_of(record: Record, is_question: bool, asked: bool) -> str:
    said = record.get("section")
    if record.get("role") == "system":
        return "system"
    if is_question:
        return "message"
    if isinstance(said, str) and said in SOURCES:
        return said
    if is_node_note(record):
        return "notes"
    return "turn" if asked else "history"


def _of_prompt(prompt: Sequence[PromptSection], place: int) -> Iterator[Section]:
    """Each with the characters that it takes in the one message that they are."""
    begin = 0
    for section in prompt:
        end = begin + len(section.text)
        tokens = estimate_tokens({"role": "system", "content": section.text})
        yield Section(section.name, section.source, tokens, place, 1, begin, end)
        begin = end + len(BETWEEN)
