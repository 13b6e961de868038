"""What a conversation is called, by the first words that were said in it: no model is asked for it. Pure."""

from __future__ import annotations

from kernel.values import clean

EXCHANGES = 3
"""So many answers have to be there: before that a greeting is all that there is."""
MOST_WORDS = 8
MOST_CHARS = 60


def title_of(first: str, exchanges: int) -> str:
    """Of a conversation that began with the message ``first``; empty while there are fewer than three answers."""
    if exchanges < EXCHANGES:
        return ""
    words = clean(first[:1_000]).split()
    title = " ".join(words[:MOST_WORDS])[:MOST_CHARS].rstrip(" ,.;:!?")
    return title + ("..." if len(words) > MOST_WORDS else "")
