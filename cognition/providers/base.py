"""What every provider is: one question in, one whole answer out, tokens shown to a watcher on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from cognition.errors import ProviderError
from kernel.abi import ModelAnswer


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool the model may call. ``parameters`` is the JSON Schema of its arguments object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One model call: messages in the OpenAI chat shape, tools on offer, ``model`` empty for the provider's
    default. ``max_tokens`` of the answer, 0 for what the provider says. ``note``: what the node tells a language model
    behind all messages; nobody has said it, so it is no request. ``asker``: who has his turn where
    questions wait. The rest is as in :class:`kernel.abi.ModelRequest`.

    A message of role ``tool`` may carry two keys of ours: ``status`` (an outcome other than ``ok``) and
    ``truncated``.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[OfferedTool, ...] = ()
    model: str = ""
    max_tokens: int = 0
    note: str = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    output_schema: Mapping[str, Any] | None = None
    retry: bool = True
    asker: str = ""


@dataclass(frozen=True, slots=True)
class ProviderBounds:
    """What a model server may make us hold or wait for.

    ``answer_bytes`` counts text and tool arguments as JSON, and is what the node can record of one answer.
    ``wire_bytes`` is larger: a stream wraps each token of a few bytes in about 250 bytes of JSON.
    """

    answer_bytes: int = 480 * 2**10
    body_bytes: int = 4 * 2**20
    wire_bytes: int = 32 * 2**20
    event_bytes: int = 2**20
    error_body_bytes: int = 16 * 2**10
    tool_calls: int = 64
    parallel: int = 64
    breaker_failures: int = 10
    breaker_open_s: float = 30.0
    connect_s: float = 5.0
    idle_s: float = 120.0
    total_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Source:
    """What a provider is built from: its name, what the configuration says of it, and the keys by their variables."""

    name: str
    table: Mapping[str, Any]
    keys: Mapping[str, str]


class Watcher(Protocol):
    """Who sees an answer come and grow. No method waits."""

    def queued(self) -> None:
        """The provider answers as many as it may at once: this question waits until one of them is done."""

    def begun(self) -> None:
        """It waits no more."""

    def show(self, text: str) -> None:
        """More text of the answer."""

    def reset(self) -> None:
        """What was shown is void: the answer starts again."""


class Provider(Protocol):
    """One configured provider."""

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """The whole answer. Raises :class:`cognition.errors.ProviderError`. May be cancelled at any point."""

    async def close(self) -> None:
        """Let go of connections."""


class Unusable:
    """Stands for a provider that is configured wrongly: each question to it says why.

    Others go on working.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        raise ProviderError(self._why)

    async def close(self) -> None:
        return None
