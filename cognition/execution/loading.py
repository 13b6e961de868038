"""Which tools are offered, within what their declarations may take; and those that a model has loaded on demand. Pure.

Tools whose names begin alike, up to the first ``_``, are a group: ``file_read`` and ``file_write`` are ``file``. One
that is of use only beside another (:data:`NEEDS`) stands behind it, and is not offered without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernel.abi import ToolCall, ToolResult

LOAD_TOOLS = "load_tools"
NEEDS: Mapping[str, tuple[str, ...]] = {
    "memory_read": ("memory_search",),
    "unsubscribe": ("subscribe",),
}
UNKNOWN_TOKENS = 150
"""What a declaration takes whose size nobody has said."""
SHARE = 4
"""Declarations take one part in so many of what a window leaves for a question."""
MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Offer:
    """``tools`` in the order in which they are offered, and by name why the others are not. ``tokens`` of each tool."""

    tools: tuple[str, ...]
    absent: Mapping[str, str]
    tokens: Mapping[str, int]

    def total(self, tools: Iterable[str]) -> int:
        """What the declarations of some take."""
        return sum(self.tokens.get(each, UNKNOWN_TOKENS) for each in tools)


NO_OFFER = Offer((), {}, {})


def budget_of(window: int, max_tokens: int) -> int | None:
    """What declarations may take together where a window is known: the answer and the question have their room."""
    return max(0, window - max_tokens) // SHARE if window else None


def offer(
    allowed: Sequence[str], preferred: Sequence[str] | None, tokens: Mapping[str, int], budget: int | None
) -> Offer:
    """Of the tools that may be used those that are ``preferred`` (names or patterns, the first of them first; None: all
    alike), as many as there is room for.
    """
    absent: dict[str, str] = {}
    left, chosen = budget, list[str]()
    for name in _behind_their_needs(_by_preference(allowed, preferred)):
        missing = [each for each in NEEDS.get(name, ()) if each not in chosen]
        size = tokens.get(name, UNKNOWN_TOKENS)
        if missing:
            absent[name] = f"{missing[0]} is not offered, which it needs"
        elif left is not None and size > left:
            absent[name] = f"its {size} tokens do not fit into what the window leaves for tools"
        else:
            chosen.append(name)
            left = None if left is None else left - size
    return Offer(tuple(chosen), absent, tokens)


def _by_preference(allowed: Sequence[str], preferred: Sequence[str] | None) -> list[str]:
    if preferred is None:
        return list(allowed)
    ranked = dict.fromkeys(
        name for pattern in preferred for name in allowed if name == pattern or fnmatchcase(name, pattern)
    )
    return list(ranked)


def _behind_their_needs(names: Sequence[str]) -> list[str]:
    ordered: dict[str, None] = {}
    for name in names:
        for each in NEEDS.get(name, ()):
            if each in names:
                ordered[each] = None
        ordered[name] = None
    return list(ordered)


def groups_of(tools: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By its name, the tools of each group; one that is alone is a group of its own name."""
    begun: dict[str, list[str]] = {}
    for tool in tools:
        begun.setdefault(tool.partition("_")[0], []).append(tool)
    return {(name if len(each) > 1 else each[0]): tuple(each) for name, each in begun.items()}


def note_of(tools: Sequence[str]) -> str:
    """What a model is told that has to load its tools."""
    groups = groups_of(tools)
    shown = [
        name if each == (name,) else f"{name} ({', '.join(each)})"
        for name, each in list(groups.items())[:MOST_NAMED]
    ]
    return (
        f"call {LOAD_TOOLS} with the groups that you need, then use their tools. Groups: {'; '.join(shown)}"
    )


def load(call: ToolCall, offered: Offer, loaded: Sequence[str]) -> tuple[tuple[str, ...], ToolResult]:
    """What is offered from now on, ``load_tools`` first, and what the model is told."""
    groups = groups_of(offered.tools)
    asked = _asked(call.arguments)
    if asked is None:
        text = f'groups must be a list of names, such as {{"groups": ["{next(iter(groups), "file")}"]}}'
        return tuple(loaded), ToolResult(call.id, call.name, "error", text)
    names = [name for each in asked for name in groups.get(each, (each,) if each in offered.tools else ())]
    unknown = [each for each in asked if each not in groups and each not in offered.tools]
    now = tuple(dict.fromkeys((*loaded, *names)))
    said = f"offered from now on: {', '.join(dict.fromkeys(names))}" if names else "nothing was loaded"
    if unknown:
        said += f"; there is no group {', '.join(unknown)[:200]}; there are: {', '.join(groups)}"
    return now, ToolResult(call.id, call.name, "ok" if names else "error", said)


def _asked(arguments: str) -> list[str] | None:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    groups = given.get("groups") if isinstance(given, dict) else None
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        return None
    return groups[:MOST_NAMED]
