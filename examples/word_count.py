"""A tool of your own: one decorated function. The node runs it in a worker process of its own.

The type hints become the JSON Schema by which the node checks a call before it is made, the docstring becomes what a
model reads. ``effects="none"`` says that it only computes: such a call needs no waiting for the disk, and after a crash
it is simply made again. Leave the defaults (external, ask a person when in doubt) for anything else.
"""

from __future__ import annotations

import re
from typing import Any

from weftos import tool


@tool(effects="none", on_doubt="retry", timeout_s=10.0)
def word_count(text: str, longest: bool = False) -> dict[str, Any]:
    """Count the lines, words and characters of a text.

    Args:
        text: The text to count in.
        longest: Whether to name the longest word too.
    """
    words = re.findall(r"\w+", text)
    counts: dict[str, Any] = {"lines": len(text.splitlines()), "words": len(words), "characters": len(text)}
    if longest:
        counts["longest"] = max(words, key=len, default="")
    return counts
