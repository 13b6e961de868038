"""How one kind of model server is spoken to: a table of pure functions, and no class to inherit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cognition.providers.answer import AnswerBuilder
from cognition.providers.base import Question

Headers = tuple[tuple[str, str], ...]
Take = Callable[[dict[str, Any]], str]
"""Takes one object of a stream into an answer; what of it is text to show. Raises ProviderError."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """``path``: of questions, behind the server's ``base_url``. ``headers(key)``: those that carry the key; ``plain``:
    others of its own.
    ``body(question, model, stream)``: what is sent. ``whole(builder, answer)`` takes an answer that came in one piece;
    ``reader(builder)`` reads one that is streamed: as events (SSE), or, with ``lines``, as an object a line.
    """

    path: str
    headers: Callable[[str], Headers]
    body: Callable[[Question, str, bool], bytes]
    whole: Callable[[AnswerBuilder, dict[str, Any]], str]
    reader: Callable[[AnswerBuilder], Take]
    lines: bool = False
    plain: Headers = ()


def bearer(key: str) -> Headers:
    """The key as most servers want it."""
    return (("authorization", f"Bearer {key}"),)
