"""The keys of ``[guard]``: what may reach a model, and what becomes of text that reads like orders to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

Phrase = Annotated[str, MinLen(1), MaxLen(200)]
Action = Literal["off", "flag", "strip", "refuse"]


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """``injection``: nothing is looked at; the model is told beside it; the lines in question are left out; or the
    message is not taken, and a tool's result not shown. ``threshold``: the score from which a text is suspicious.
    ``deny``: phrases of which a message that has one is refused. ``attachments``: how many a message may have, each of
    at most ``attachment_bytes``, and of a media type that one of the globs ``attachment_types`` takes.
    """

    injection: Action = "flag"
    threshold: Annotated[float, Ge(0.001), Le(1_000_000)] = 1.0
    deny: Annotated[tuple[Phrase, ...], MaxLen(1_000)] = ()
    attachments: Annotated[int, Ge(0), Le(100)] = 10
    attachment_bytes: Annotated[int, Ge(0), Le(2**40)] = 10 * 2**20
    attachment_types: Annotated[tuple[Phrase, ...], MaxLen(100)] = ("*",)
