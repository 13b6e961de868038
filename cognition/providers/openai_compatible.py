"""Any server with an OpenAI-compatible ``POST {base_url}/chat/completions``: OpenAI, Ollama, vLLM, llama.cpp; and the
same server's ``POST {base_url}/embeddings``.

The server is not trusted. Size and time of its answer are bounded, redirects are not followed (the key would
travel), compressed bodies are refused (a small one can unpack to gigabytes), and nothing it says reaches an
error message unbounded or with the key in it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from cognition.errors import ConfigurationError, ProviderError, TransientProviderError
from cognition.providers.answer import AnswerBuilder, error_words, excerpt, load_object
from cognition.providers.base import ProviderBounds, Question, Watcher
from cognition.providers.embeddings import Vectors, embeddings_body, parse_embeddings
from cognition.providers.retry import Failure, RetryPolicy, retry_delay_s
from cognition.providers.sse import SseDecoder
from cognition.providers.wire import request_body
from kernel.abi import ModelAnswer

T = TypeVar("T")

_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Where the server is.

    ``api_key_env`` names the environment variable with the key; empty: no key is sent.
    """

    name: str
    base_url: str
    model: str = ""
    api_key_env: str = ""
    stream: bool = True

    def check(self) -> list[str]:
        """Every fault at once; empty when it can be used."""
        faults = []
        try:
            url = urlsplit(self.base_url)
            _ = url.port
        except ValueError:
            return [f"providers.{self.name}.base_url is not a URL"]
        if url.scheme not in ("http", "https") or not url.hostname:
            faults.append(f"providers.{self.name}.base_url must be http://HOST... or https://HOST...")
        if url.username is not None or url.password is not None:
            faults.append(f"providers.{self.name}.base_url must hold no user or password; use api_key_env")
        if url.query or url.fragment:
            faults.append(f"providers.{self.name}.base_url must have no ? or # part")
        return faults


def check_key(name: str, variable: str, key: str) -> str:
    """``key`` without blanks around it. Raises :class:`ConfigurationError`, which never shows it."""
    key = key.strip()
    if not key:
        raise ConfigurationError(
            f"provider {name}: the node's environment has no {variable}; set it and restart"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"provider {name}: {variable} holds characters that a key cannot have")
    return key


@dataclass(slots=True)
class _Attempt:
    watcher: Watcher
    shown: bool = False

    def show(self, text: str) -> None:
        if text:
            self.shown = True
            self.watcher.show(text)


class _Nobody:
    """Watches nothing: vectors are not shown."""

    def show(self, text: str) -> None:
        return

    def reset(self) -> None:
        return


class OpenAICompatible:
    """One such server. ``key`` is empty for servers that want none."""

    def __init__(
        self,
        settings: OpenAISettings,
        key: str,
        policy: RetryPolicy | None = None,
        bounds: ProviderBounds | None = None,
    ) -> None:
        self.settings = settings
        self.bounds = bounds or ProviderBounds()
        self._key = key
        self._policy = policy or RetryPolicy()
        self._client: httpx.AsyncClient | None = None
        self._gate = asyncio.Semaphore(self.bounds.parallel)

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """See :class:`cognition.providers.base.Provider`."""
        if not (question.model or self.settings.model):
            raise ProviderError(
                f"no model was named: set providers.{self.settings.name}.model, or spawn with --model"
            )
        body = request_body(question, self.settings.model, self.settings.stream)
        return await self._within_limits(lambda attempt: self._attempt(body, attempt), watcher)

    async def embed(self, texts: Sequence[str], model: str) -> Vectors:
        """See :class:`cognition.providers.embeddings.Embedder`."""
        name = model or self.settings.model
        if not name:
            raise ProviderError(f"no embedding model was named: set memory.model for {self.settings.name}")
        body = embeddings_body(texts, name)

        async def attempt(_: _Attempt) -> Vectors:
            async with self._posted("/embeddings", body) as response:
                data = await self._collect(response, self.bounds.wire_bytes)
            return parse_embeddings(data, len(texts), self._key)

        return await self._within_limits(attempt, _Nobody())

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _within_limits(self, work: Callable[[_Attempt], Awaitable[T]], watcher: Watcher) -> T:
        try:
            async with asyncio.timeout(self.bounds.total_s), self._gate:
                return await self._with_retries(work, watcher)
        except TimeoutError as error:
            raise ProviderError(f"no whole answer from the model within {self.bounds.total_s:g} s") from error

    async def _with_retries(self, work: Callable[[_Attempt], Awaitable[T]], watcher: Watcher) -> T:
        failures: tuple[Failure, ...] = ()
        while True:
            attempt = _Attempt(watcher)
            try:
                return await work(attempt)
            except ProviderError as error:
                failures = (*failures, Failure(error, attempt.shown))
            if attempt.shown:
                watcher.reset()
            delay_s = retry_delay_s(self._policy, failures, random.random())
            if delay_s is None:
                raise _given_up(failures)
            print(f"{failures[-1].error}; again in {delay_s:.2f} s", file=sys.stderr, flush=True)
            await asyncio.sleep(delay_s)

    async def _attempt(self, body: bytes, attempt: _Attempt) -> ModelAnswer:
        async with self._posted("/chat/completions", body) as response:
            if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                return await self._read_stream(response, attempt)
            return await self._read_whole(response, attempt)

    @asynccontextmanager
    async def _posted(self, path: str, body: bytes) -> AsyncIterator[httpx.Response]:
        """The response to ``body``, its head checked. What goes wrong on the way is a ProviderError."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        url = self.settings.base_url.rstrip("/") + path
        try:
            async with self._open_client().stream("POST", url, content=body, headers=headers) as response:
                await self._check_head(response)
                yield response
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise TransientProviderError(
                f"cannot connect to {self._where}: {self._excerpt(str(error))}"
            ) from error
        except httpx.TimeoutException as error:
            raise TransientProviderError(f"{self._where} was silent for {self._idle_s:g} s") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise TransientProviderError(
                f"the connection to {self._where} broke: {self._excerpt(str(error))}"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderError(f"cannot ask {self._where}: {type(error).__name__}") from error

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(self._idle_s, connect=self.bounds.connect_s, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.bounds.parallel),
                headers={"user-agent": "weftos", "accept-encoding": "identity"},
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    async def _check_head(self, response: httpx.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            target = self._excerpt(response.headers.get("location", "nowhere"))
            raise ProviderError(
                f"{self._where} answered {status}, a redirect to {target}: not followed; set base_url"
            )
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("", "identity"):
            raise ProviderError(
                f"{self._where} sent a body encoded as {self._excerpt(encoding)}, which was not asked for"
            )
        if status in (401, 403):
            hint = self.settings.api_key_env or f"providers.{self.settings.name}.api_key_env"
            raise ProviderError(f"{self._where} answered {status}: it does not accept the key; check {hint}")
        if status >= 400 or status < 200:
            words = await self._error_words(response)
            text = f"{self._where} answered {status}: {words}"
            if status in _TRANSIENT_STATUS:
                raise TransientProviderError(text, _retry_after_s(response.headers.get("retry-after", "")))
            raise ProviderError(text)

    async def _error_words(self, response: httpx.Response) -> str:
        try:
            data = await self._collect(response, self.bounds.error_body_bytes)
            error = load_object(data).get("error")
        except ProviderError:
            return "(no readable explanation)"
        return error_words(error, self._key) if error else "(no explanation)"

    async def _collect(self, response: httpx.Response, limit: int) -> bytes:
        parts = []
        async for chunk in self._chunks(response, limit):
            parts.append(chunk)
        return b"".join(parts)

    async def _chunks(self, response: httpx.Response, limit: int) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > limit:
                raise ProviderError(f"{self._where} sent more than {limit} bytes for one answer")
            yield chunk

    async def _read_whole(self, response: httpx.Response, attempt: _Attempt) -> ModelAnswer:
        chunk = load_object(await self._collect(response, self.bounds.body_bytes))
        if not isinstance(chunk.get("choices"), list) and not chunk.get("error"):
            raise ProviderError(
                f"{self._where} answered with JSON that is no chat completion (it has no choices)"
            )
        builder = AnswerBuilder(self.bounds, self._key)
        text = builder.add(chunk)
        answer = builder.finish()
        attempt.show(text)
        return answer

    async def _read_stream(self, response: httpx.Response, attempt: _Attempt) -> ModelAnswer:
        decoder = SseDecoder(self.bounds.event_bytes)
        builder = AnswerBuilder(self.bounds, self._key)
        async for chunk in self._chunks(response, self.bounds.wire_bytes):
            for data in decoder.feed(chunk):
                if data == b"[DONE]":
                    return builder.finish()
                attempt.show(builder.add(load_object(data)))
        if builder.complete or decoder.pending() == b"[DONE]":
            return builder.finish()
        raise TransientProviderError(f"{self._where} cut the stream before the answer was complete")

    @property
    def _idle_s(self) -> float:
        """How long a connection may be silent.

        A server that does not stream is silent until it has it all.
        """
        return self.bounds.idle_s if self.settings.stream else self.bounds.total_s

    @property
    def _where(self) -> str:
        return f"{self.settings.name} ({self.settings.base_url})"

    def _excerpt(self, foreign: str) -> str:
        return excerpt(foreign, secret=self._key)


def _given_up(failures: tuple[Failure, ...]) -> ProviderError:
    last = failures[-1].error
    return ProviderError(f"{last} (tried {len(failures)} times)") if len(failures) > 1 else last


def _retry_after_s(value: str) -> float | None:
    """Seconds of a Retry-After header. The form with a date is not used by model servers and is ignored."""
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 9 else None
