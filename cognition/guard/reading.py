"""A text in each way of reading it, with what is seen there, and in windows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cognition.guard.features import Seen, seen_in
from cognition.guard.lexicon import TALK
from cognition.guard.views import View, views

WINDOWS = ((48, 16), (16, 8))
"""Tokens of a window, and how far the next one begins behind it: an order of one sentence is not lost in a page."""
ARTICLE_TOKENS, ARTICLE_WORDS = 60, 2
"""A text of so many tokens with so many words that attacks are spoken of with is about them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """``names``: what holds of all of it: how it was disguised, or that it is about attacks."""

    view: View
    seen: Seen
    names: tuple[str, ...]

    def windows(self) -> Iterator[tuple[int, int]]:
        """Where each window begins and ends, in tokens."""
        size = len(self.seen.tokens)
        for window, stride in WINDOWS:
            if size > window or window == WINDOWS[0][0]:
                for begin in range(0, max(1, size - window + stride), stride):
                    yield begin, min(size, begin + window)


def readings(text: str) -> Iterator[Reading]:
    """Each way of reading ``text`` that has any words."""
    about: tuple[str, ...] = ()
    for view in views(text):
        seen = seen_in(view.text, view.line)
        if not view.disguised and len(seen.tokens) >= ARTICLE_TOKENS:
            talk = sum(bool(kinds & TALK) for kinds in seen.kinds)
            about = ("about",) if talk >= ARTICLE_WORDS else ()
        if seen.tokens:
            yield Reading(view, seen, ("disguised", view.how) if view.disguised else about)
