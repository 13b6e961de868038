"""Topics: words with dots between them, and the patterns that name several.

``a.b`` is a topic, and a pattern that names it alone; ``a.*`` names all that is below ``a`` (``a.b``, ``a.b.c``, not
``a``), ``*`` every topic. What begins with ``telemetry`` is a **telemetry topic**: of that the newest counts, so that
an older publication may give way to it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernel.errors import Invalid

MAX_WORDS = 8
MAX_WORD_CHARS = 64
TELEMETRY = "telemetry"
EVERY = "*"
_WORD = re.compile(r"[A-Za-z0-9_-]+")


def validate_topic(topic: str) -> str:
    """Return ``topic``. Raises Invalid."""
    words = topic.split(".", MAX_WORDS)
    if len(words) > MAX_WORDS:
        raise Invalid(f"topic {topic[:80]!r} has more than {MAX_WORDS} words")
    for word in words:
        if not _WORD.fullmatch(word) or len(word) > MAX_WORD_CHARS:
            raise Invalid(
                f"topic {topic[:80]!r} is not allowed: use words of at most {MAX_WORD_CHARS} letters, digits, '_' and "
                "'-', with dots between them, such as orders.new"
            )
    return topic


def validate_pattern(pattern: str) -> str:
    """Return ``pattern``: a topic, ``TOPIC.*`` or ``*``. Raises Invalid."""
    if pattern != EVERY:
        validate_topic(pattern.removesuffix(".*"))
    return pattern


def patterns_of(topic: str) -> Iterator[str]:
    """Every pattern that names ``topic``, the closest first."""
    yield topic
    while "." in topic:
        topic = topic.rpartition(".")[0]
        yield f"{topic}.*"
    yield EVERY


def is_telemetry(name: str) -> bool:
    """Whether a topic, or every topic that a pattern names, is a telemetry topic."""
    return name.split(".", 1)[0] == TELEMETRY
