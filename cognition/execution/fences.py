"""A text in a fence of three backticks, as models like to write JSON. Pure, and linear in what is hostile."""

from __future__ import annotations

FENCE = "```"
LANGUAGE_CHARS = 12


def unfenced(text: str) -> str | None:
    """What stands in the fence around the whole of ``text``; None where there is none."""
    text = text.strip()
    if len(text) < 2 * len(FENCE) or not (text.startswith(FENCE) and text.endswith(FENCE)):
        return None
    language, newline, rest = text[len(FENCE) : -len(FENCE)].partition("\n")
    language = language.strip()
    if (
        not newline
        or len(language) > LANGUAGE_CHARS
        or (language and not language.replace("_", "").isalnum())
    ):
        return None
    return rest.strip()
