"""What of a message may reach a model at all, and how what came with it is shown. Pure.

Phrases that ``[guard] deny`` rules out are looked for word by word, whatever the case and the spaces; ``*`` at the
end of a word stands for the rest of it. Of attachments a model is shown the text, as data with a head that says what it
is; of one without text only that it was there: its content stays with the channel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from cognition.config.guard_config import GuardConfig
from cognition.guard.guard import guarded_result
from kernel.abi import Attachment

DENIED = "The message was not passed on to the model: it has words that are ruled out here ([guard] deny)."
_HEAD = "[attachment {number} of {count}: {name}, {type}, {size} bytes]"
_NO_TEXT = "[its content cannot be shown]"
_REST_OF_WORD = r"\w*+"


def fault_of(text: str, attachments: Sequence[Attachment], config: GuardConfig) -> str:
    """Why a message is not taken, for who sent it; empty where it is."""
    return "; ".join(_faults(attachments, config)) or (
        DENIED
        if any(denied(each, config.deny) for each in (text, *(one.text for one in attachments)))
        else ""
    )


def _faults(attachments: Sequence[Attachment], config: GuardConfig) -> Iterator[str]:
    if len(attachments) > config.attachments:
        yield f"The message has {len(attachments)} attachments, at most {config.attachments} are taken"
    for each in attachments[: config.attachments]:
        if each.size > config.attachment_bytes:
            yield f"{each.name} has {each.size} bytes, at most {config.attachment_bytes} are taken"
        if not any(fnmatchcase(each.type.lower(), kind.lower()) for kind in config.attachment_types):
            taken = ", ".join(config.attachment_types) or "none"
            yield f"{each.name} is {each.type}, taken are {taken}"


def denied(text: str, phrases: Sequence[str]) -> bool:
    """Whether any of the phrases is in a text."""
    return any(_pattern(phrase).search(text) is not None for phrase in phrases if phrase.strip())


@lru_cache(maxsize=1_024)
def _pattern(phrase: str) -> re.Pattern[str]:
    words = [
        re.escape(word.removesuffix("*")) + (_REST_OF_WORD if word.endswith("*") else "")
        for word in phrase.split()
    ]
    return re.compile(r"(?<!\w)" + r"\s++".join(words) + r"(?!\w)", re.IGNORECASE)


def with_attachments(text: str, attachments: Sequence[Attachment], config: GuardConfig) -> tuple[str, str]:
    """The message and what came with it as a model is shown them, and which of it reads like orders."""
    shown, signals = [text], list[str]()
    for number, each in enumerate(attachments, 1):
        guarded = guarded_result("attachment", each.text, config)
        if guarded.signals:
            signals.append(f"{each.name}: {guarded.why}")
        head = _HEAD.format(
            number=number, count=len(attachments), name=each.name, type=each.type, size=each.size
        )
        shown.append(f"{head}\n{guarded.text or _NO_TEXT}")
    return "\n\n".join(shown), "; ".join(signals)
