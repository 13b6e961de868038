"""What a question is made of, as whoever asks it tells of it and the entry of the question has it. Pure; hostile."""

from __future__ import annotations

from collections.abc import Sequence

from kernel.abi import MOST_SECTIONS, Section
from kernel.values import canonical, clean

NAME_CHARS = 40
SOURCE_CHARS = 80
MOST = 2**53


def shown_sections(sections: Sequence[Section]) -> str:
    """JSON of ``[name, source, tokens, first, count, begin, end]`` for each, bounded."""
    return canonical(
        [
            [
                clean(each.name)[:NAME_CHARS],
                clean(each.source)[:SOURCE_CHARS],
                *(max(0, min(n, MOST)) for n in (each.tokens, each.first, each.count, each.begin, each.end)),
            ]
            for each in sections[:MOST_SECTIONS]
        ]
    )
