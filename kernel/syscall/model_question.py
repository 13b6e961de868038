"""A question to a model as a cell asked it, and what the node makes of it. Pure.

The call's hash covers what the cell asked and nothing else: not which tools there are in this boot, not who answers by
default. So a turn that is resumed under another configuration asks the same. What the question was resolved to
is recorded beside it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from kernel.errors import Invalid
from kernel.slices.calls import resolved_name
from kernel.syscall.model_request import RequestText
from kernel.turn.divergence import shown_question
from kernel.values import call_hash, clean

PROVIDER_CHARS = 64
MODEL_CHARS = 128
ANY_BYTES = 2**30
"""More than a link brings: whether a question is too long is looked at when it is known whether it is recorded."""


@dataclass(frozen=True, slots=True)
class Question:
    """``messages``: the canonical JSON of each of ``args["messages"]``, ``digests`` their hashes. ``bytes``: size of
    all that was asked, as UTF-8. ``told``: the question in few words. ``fault``: why nobody can be asked this, empty
    when nothing is wrong.
    """

    args: dict[str, Any]
    call_hash: str
    request_hash: str
    messages: list[str] = field(default_factory=list)
    digests: bytes = b""
    bytes: int = 0
    told: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Who is asked, and which tools are offered."""

    provider: str
    model: str
    tools: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return resolved_name(self.provider, self.model, self.tools)


def request_of(args: dict[str, Any], most_messages: int) -> RequestText:
    """The text of what a cell asked, to be made step by step. Raises :class:`Invalid`. Everything is hostile."""
    messages, tools = args.get("messages"), args.get("tools")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Invalid("messages is not a list of objects")
    if len(messages) > most_messages:
        raise Invalid(f"model request of {len(messages)} messages, limit {most_messages}")
    if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):
        raise Invalid("tools is not a list of names")
    if not isinstance(args.get("provider"), str) or not isinstance(args.get("model"), str):
        raise Invalid("provider and model are not text")
    return RequestText(args, ANY_BYTES)


def read_question(args: dict[str, Any], text: RequestText) -> Question:
    """The question, of a text that was made to its end."""
    told = shown_question(args, text.messages)
    digests = bytes(text.digests)
    return Question(args, text.call_hash, text.request_hash, text.messages, digests, text.size_bytes, told)


def refused_question(why: str) -> Question:
    """One that cannot be put. Whoever asks it again is refused again, in the same words."""
    nothing: dict[str, Any] = {"messages": [], "tools": [], "provider": "", "model": ""}
    hashed = call_hash("model", "", why)
    return Question(nothing, hashed, hashed, fault=why)


def resolve(
    question: Question, rights: Container[str], tools: Container[str], who: tuple[str, str]
) -> Resolved:
    """``who``: provider and model, the defaults in place of empty ones. What is not held is not offered."""
    offered = [name for name in dict.fromkeys(question.args["tools"]) if name in rights and name in tools]
    return Resolved(who[0], who[1], offered)


def asked_names(question: Question) -> tuple[str, str]:
    """Provider and model as they were asked for, bounded."""
    args = question.args
    return clean(args["provider"])[:PROVIDER_CHARS], clean(args["model"])[:MODEL_CHARS]
