"""The gateway's one service: ask a provider, show tokens on the way, be cancelled. Knows no link and no
process.

A question names its messages by their digests and says those that are new; the others are kept from before. It is
answered with status ``lost`` when one is not here any more, and may then be asked again with all of them.

Requests and notices are plain dicts, as the node sends and gets them; ``weftos.helpers.gateway`` puts them on the
wire.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cognition.errors import CognitionError, ProviderError
from cognition.kept_messages import DIGEST_BYTES, KeptMessages
from cognition.providers.base import OfferedTool, Provider, Question
from cognition.providers.embeddings import MAX_TEXTS, Vectors
from kernel.abi import ErrorKind, ModelAnswer

Notify = Callable[[str, dict[str, Any]], None]

COALESCE_S = 0.02
COALESCE_CHARACTERS = 16 * 2**10


class Deltas:
    """Watches one answer and tells it in notices ``delta``, at most one in ``COALESCE_S``.

    A notice is ``{"stream_id", "text"}``, or ``{"stream_id", "reset": True}``: forget what was shown. Without
    a ``stream_id`` nobody watches and nothing is told. A question that has to wait for others is told of in notices
    ``slot``, ``{"stream_id", "waits"}``: when it begins to, and when it does no more. ``whole``: it is told when it is
    whole.
    """

    def __init__(self, stream_id: str, notify: Notify, whole: bool = False) -> None:
        self._whole = whole
        self._stream_id = stream_id
        self._notify = notify
        self._text: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def queued(self) -> None:
        self._tell_slot(waits=True)

    def begun(self) -> None:
        self._tell_slot(waits=False)

    def _tell_slot(self, waits: bool) -> None:
        if self._stream_id:
            self._notify("slot", {"stream_id": self._stream_id, "waits": waits})

    def show(self, text: str) -> None:
        if not self._stream_id:
            return
        self._text.append(text)
        if self._whole:
            return
        self._size += len(text)
        if self._size >= COALESCE_CHARACTERS:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self.flush)

    def reset(self) -> None:
        self._take()
        if self._stream_id:
            self._notify("delta", {"stream_id": self._stream_id, "reset": True})

    def flush(self) -> None:
        """Tell what is held back."""
        text = self._take()
        if text:
            self._notify("delta", {"stream_id": self._stream_id, "text": text})

    def _take(self) -> str:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._text)
        self._text.clear()
        self._size = 0
        return text


class Gateway:
    """Answers ``ask``, ``embed``, ``cancel`` and ``forget``. A question that names no provider goes to ``default``, for
    ``default_model``.

    Whatever goes wrong with a model is an answer with status ``error``; a malformed request is an exception, and so is
    an ``embed`` that has no vectors to give.
    """

    def __init__(
        self, providers: Mapping[str, Provider], default: str, notify: Notify, default_model: str = ""
    ) -> None:
        self._providers = providers
        self._default = default
        self._default_model = default_model
        self._notify = notify
        self._running: dict[str, asyncio.Task[ModelAnswer]] = {}
        self._in_use: Counter[int] = Counter()
        self._closing: set[asyncio.Task[None]] = set()
        self._kept = KeptMessages()

    def change(self, providers: Mapping[str, Provider], default: str, default_model: str = "") -> None:
        """Questions go to these from now on. What is under way stays; who is asked nothing more is closed."""
        before, self._providers = self._providers, providers
        self._default, self._default_model = default, default_model
        for provider in before.values():
            self._close_unused(provider)

    @contextmanager
    def _using(self, provider: Provider) -> Iterator[None]:
        self._in_use[id(provider)] += 1
        try:
            yield
        finally:
            self._in_use[id(provider)] -= 1
            self._close_unused(provider)

    def _close_unused(self, provider: Provider) -> None:
        """Close one that was replaced, once nobody waits for it."""
        if self._in_use[id(provider)] or any(each is provider for each in self._providers.values()):
            return
        del self._in_use[id(provider)]
        task = asyncio.ensure_future(provider.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def handle(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """One request. Raises :class:`CognitionError` when it is malformed."""
        match op:
            case "ask":
                return await self._ask(args)
            case "cancel":
                task = self._running.get(_text(args, "stream_id"))
                return {"cancelled": task is not None and task.cancel()}
            case "embed":
                return await self._embed(args)
            case "forget":
                self._kept.forget()
                return {}
            case _:
                raise CognitionError(f"the gateway knows ask, embed, cancel and forget, not {op!r}")

    async def _ask(self, args: dict[str, Any]) -> dict[str, Any]:
        question = parse_question(args, self._kept)
        if question is None:
            return {"status": "lost"}
        stream_id = _text(args, "stream_id")
        name = _text(args, "provider")
        if not name:
            name = self._default
            question = replace(question, model=question.model or self._default_model)
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(sorted(self._providers))
            return _as_dict(_error(f"no provider is named {name!r}; configured: {known}"))
        if stream_id in self._running:
            raise CognitionError(f"stream {stream_id} is already being asked")
        deltas = Deltas(stream_id, self._notify, whole=args.get("stream") is False)
        task = asyncio.ensure_future(provider.ask(question, deltas))
        if stream_id:
            self._running[stream_id] = task
        try:
            with self._using(provider):
                await asyncio.wait([task])
        finally:
            task.cancel()
            self._running.pop(stream_id, None)
            deltas.flush()
        return _as_dict(_outcome(task)) | ({"uncounted": True} if _is_uncounted(task) else {})

    async def _embed(self, args: dict[str, Any]) -> dict[str, Any]:
        """``count``, ``dimensions`` and ``data`` (little-endian float32, row by row) for ``texts``."""
        texts = args.get("texts")
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise CognitionError("embed: texts must be a list of texts")
        if not 1 <= len(texts) <= MAX_TEXTS:
            raise CognitionError(f"embed: {len(texts)} texts, must be 1 to {MAX_TEXTS}")
        name = _text(args, "provider") or self._default
        provider = self._providers.get(name)
        embed = getattr(provider, "embed", None)
        if provider is None or embed is None:
            why = "makes no embeddings" if provider is not None else "is not configured"
            raise CognitionError(f"provider {name!r} {why}")
        with self._using(provider):
            vectors: Vectors = await embed(texts, _text(args, "model"))
        return {"count": vectors.count, "dimensions": vectors.dimensions, "data": vectors.data}

    async def close(self) -> None:
        """Close every provider."""
        for provider in self._providers.values():
            await provider.close()


def _outcome(task: asyncio.Task[ModelAnswer]) -> ModelAnswer:
    if task.cancelled():
        return _error("cancelled", "cancelled")
    error = task.exception()
    if isinstance(error, ProviderError):
        return _error(str(error), error.kind, error.retry_after_s or 0.0)
    if isinstance(error, CognitionError):
        return _error(str(error))
    return task.result()


def _is_uncounted(task: asyncio.Task[ModelAnswer]) -> bool:
    """Whether a model may have worked at it, and nobody says what that came to."""
    error = None if task.cancelled() else task.exception()
    return isinstance(error, ProviderError) and error.begun


def _error(text: str, kind: ErrorKind = "invalid", retry_after_s: float = 0.0) -> ModelAnswer:
    return ModelAnswer("error", text, error_kind=kind, retry_after_s=retry_after_s)


def _as_dict(answer: ModelAnswer) -> dict[str, Any]:
    return {
        "status": answer.status,
        "text": answer.text,
        "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in answer.tool_calls],
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cached_tokens": answer.cached_tokens,
        "error_kind": answer.error_kind,
        "retry_after_s": answer.retry_after_s,
        "stop_reason": answer.stop_reason,
    }


def parse_question(args: dict[str, Any], kept: KeptMessages) -> Question | None:
    """The question of an ``ask``. None: it names a message that is not here. Raises :class:`CognitionError` that names
    the key at fault.
    """
    digests, said, tools = args.get("digests"), args.get("said"), args.get("tools") or []
    if not isinstance(digests, bytes) or len(digests) % DIGEST_BYTES:
        raise CognitionError("ask: digests must be the digests of messages")
    if not isinstance(said, list | tuple) or not all(map(_is_said, said)):
        raise CognitionError("ask: said must be a list of places and objects")
    if not isinstance(tools, list | tuple) or not all(isinstance(t, dict) for t in tools):
        raise CognitionError("ask: tools must be a list of objects")
    offered = []
    for tool in tools:
        parameters = tool.get("parameters")
        if not isinstance(parameters, dict):
            raise CognitionError("ask: a tool's parameters must be an object")
        offered.append(OfferedTool(_text(tool, "name"), _text(tool, "description"), parameters))
    messages = kept.messages(digests, said)
    if messages is None:
        return None
    schema = args.get("output_schema")
    if not isinstance(schema, dict | None):
        raise CognitionError("ask: output_schema must be an object")
    return Question(
        messages,
        tuple(offered),
        _text(args, "model"),
        _count(args, "max_tokens"),
        _text(args, "note"),
        _number(args, "temperature"),
        _number(args, "top_p"),
        _count(args, "top_k") or None,
        schema,
        args.get("retry") is not False,
        _text(args, "asker"),
    )


def _is_said(one: Any) -> bool:
    return isinstance(one, list | tuple) and [*map(type, one)] == [int, dict]


def _count(args: dict[str, Any], key: str) -> int:
    value = args.get(key, 0)
    if type(value) is not int or value < 0:
        raise CognitionError(f"{key} must be a number that is not below 0")
    return value


def _number(args: dict[str, Any], key: str) -> float | None:
    value = args.get(key)
    if value is not None and type(value) not in (int, float):
        raise CognitionError(f"{key} must be a number")
    return value


def _text(args: dict[str, Any], key: str) -> str:
    value = args.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CognitionError(f"{key} must be text, not {type(value).__name__}")
    return value
