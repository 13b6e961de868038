"""Any server with an OpenAI-compatible ``POST {base_url}/chat/completions``: OpenAI, Ollama, vLLM, llama.cpp; and the
same server's ``POST {base_url}/embeddings``.

The server is not trusted. Size and time of its answer are bounded, redirects are not followed (the key would
travel), compressed bodies are refused (a small one can unpack to gigabytes), and nothing it says reaches an
error message unbounded, or anybody with the key in it.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from cognition.errors import ConfigurationError, ProviderError, TransientProviderError
from cognition.providers.answer import AnswerBuilder, error_words, excerpt, load_object
from cognition.providers.base import ProviderBounds, Question, Source, Watcher
from cognition.providers.embeddings import Vectors, embeddings_body, embeddings_bytes, parse_embeddings
from cognition.providers.http.connection import (
    BrokenError,
    CertificateError,
    ConnectError,
    HttpBounds,
    SilenceError,
)
from cognition.providers.http.server import CERTIFICATE_VARIABLES, HttpServer, Response, tls_context
from cognition.providers.http.sse import SseDecoder
from cognition.providers.retry import Failure, RetryPolicy, retry_delay_s
from cognition.providers.wire import request_body
from kernel.abi import ModelAnswer

T = TypeVar("T")

_HEADERS = (
    ("user-agent", "weftos"),
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("accept-encoding", "identity"),
)
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
            _ = url.port, (url.hostname or "").encode("idna")
        except ValueError:
            return [f"providers.{self.name}.base_url is not a URL"]
        if url.scheme not in ("http", "https") or not url.hostname:
            faults.append(f"providers.{self.name}.base_url must be http://HOST... or https://HOST...")
        if url.username is not None or url.password is not None:
            faults.append(f"providers.{self.name}.base_url must hold no user or password; use api_key_env")
        if url.query or url.fragment:
            faults.append(f"providers.{self.name}.base_url must have no ? or # part")
        return faults


_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "base_url": str,
    "model": str,
    "api_key_env": str,
    "stream": bool,
    "timeout_s": (int, float),
    "parallel": int,
}
MOST_PARALLEL = 1_024


def build(source: Source) -> OpenAICompatible:
    """One provider. Raises :class:`ConfigurationError`."""
    name, given = source.name, dict(source.table)
    for key, value in given.items():
        if not isinstance(value, _KEYS.get(key, ())):
            raise ConfigurationError(f"providers.{name}.{key} is unknown or of the wrong type")
    if "base_url" not in given:
        raise ConfigurationError(f"providers.{name}.base_url is missing")
    timeout_s = float(given.pop("timeout_s", ProviderBounds().total_s))
    parallel = given.pop("parallel", ProviderBounds().parallel)
    if type(parallel) is not int or not 1 <= parallel <= MOST_PARALLEL:
        raise ConfigurationError(f"providers.{name}.parallel is {parallel}, must be 1 to {MOST_PARALLEL}")
    settings = OpenAISettings(name, **given)
    faults = settings.check()
    if faults:
        raise ConfigurationError("; ".join(faults))
    variable = settings.api_key_env
    key = check_key(name, variable, source.keys.get(variable, "")) if variable else ""
    tls = _tls(name) if urlsplit(settings.base_url).scheme == "https" else None
    return OpenAICompatible(
        settings, key, bounds=ProviderBounds(total_s=timeout_s, parallel=parallel), tls=tls
    )


def _tls(name: str) -> ssl.SSLContext:
    try:
        return tls_context(os.environ)
    except OSError as error:
        set_to = " ".join(f"{v}={os.environ[v]}" for v in CERTIFICATE_VARIABLES if v in os.environ)
        raise ConfigurationError(
            f"provider {name}: no certificates can be read with {set_to}: {error.strerror or error}"
        ) from error


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


@dataclass(slots=True)
class _Asked:
    """A question in all its attempts. ``begun``: the server has had one and has not refused it, so it may have worked
    at it, and be paid, though no whole answer came.
    """

    begun: bool = False
    _before: bool = False

    def sent(self) -> None:
        self._before, self.begun = self.begun, True

    def refused(self) -> None:
        self.begun = self._before


class _Nobody:
    """Watches nothing: vectors are not shown."""

    def queued(self) -> None:
        return

    def begun(self) -> None:
        return

    def show(self, text: str) -> None:
        return

    def reset(self) -> None:
        return


class _Body:
    """The body of an answer, of which more than ``limit`` bytes are a ProviderError with those words."""

    def __init__(self, response: Response, limit: int, too_large: str) -> None:
        self._response = response
        self._left = limit
        self._too_large = too_large

    async def read(self) -> bytes:
        """The next piece, nothing at the end."""
        piece = await self._response.read()
        self._left -= len(piece)
        if self._left < 0:
            raise ProviderError(self._too_large)
        return piece

    async def whole(self) -> bytes:
        parts = []
        while piece := await self.read():
            parts.append(piece)
        return b"".join(parts)


class OpenAICompatible:
    """One such server. ``key`` is empty for servers that want none; ``tls`` says whom to believe over ``https``."""

    def __init__(
        self,
        settings: OpenAISettings,
        key: str,
        policy: RetryPolicy | None = None,
        bounds: ProviderBounds | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = settings
        self.bounds = bounds or ProviderBounds()
        self._key = key
        self._policy = policy or RetryPolicy()
        http_bounds = HttpBounds(
            kept=self.bounds.parallel, connect_s=self.bounds.connect_s, idle_s=self._idle_s
        )
        self._server = HttpServer(settings.base_url, http_bounds, tls)
        self._headers = (*_HEADERS, ("authorization", f"Bearer {key}")) if key else _HEADERS
        self._gate = asyncio.Semaphore(self.bounds.parallel)

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """See :class:`cognition.providers.base.Provider`."""
        if not (question.model or self.settings.model):
            raise ProviderError(
                f"no model was named: set providers.{self.settings.name}.model, or spawn with --model"
            )
        body = request_body(question, self.settings.model, self.settings.stream)
        asked = _Asked()
        try:
            return await self._within_limits(lambda attempt: self._attempt(body, attempt, asked), watcher)
        except ProviderError as error:
            error.begun = asked.begun
            raise

    async def embed(self, texts: Sequence[str], model: str) -> Vectors:
        """See :class:`cognition.providers.embeddings.Embedder`."""
        name = model or self.settings.model
        if not name:
            raise ProviderError(f"no embedding model was named: set memory.model for {self.settings.name}")
        body = embeddings_body(texts, name)
        most_bytes = min(self.bounds.wire_bytes, embeddings_bytes(len(texts)))

        async def attempt(_: _Attempt) -> Vectors:
            async with self._posted("/embeddings", body, _Asked()) as response:
                data = await self._body(response, most_bytes).whole()
            return parse_embeddings(data, len(texts), self._key)

        return await self._within_limits(attempt, _Nobody())

    async def close(self) -> None:
        self._server.close()

    async def _within_limits(self, work: Callable[[_Attempt], Awaitable[T]], watcher: Watcher) -> T:
        try:
            async with asyncio.timeout(self.bounds.total_s), self._slot(watcher):
                return await self._with_retries(work, watcher)
        except TimeoutError as error:
            raise ProviderError(f"no whole answer from the model within {self.bounds.total_s:g} s") from error

    @asynccontextmanager
    async def _slot(self, watcher: Watcher) -> AsyncIterator[None]:
        """One of the places of those that are asked at the same time."""
        waits = self._gate.locked()
        if waits:
            watcher.queued()
        async with self._gate:
            if waits:
                watcher.begun()
            yield

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

    async def _attempt(self, body: bytes, attempt: _Attempt, asked: _Asked) -> ModelAnswer:
        builder = AnswerBuilder(self.bounds, self._key)
        async with self._posted("/chat/completions", body, asked) as response:
            try:
                if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                    return await self._read_stream(response, attempt, builder)
                return await self._read_whole(response, attempt, builder)
            finally:
                if builder.refused:
                    asked.refused()

    @asynccontextmanager
    async def _posted(self, path: str, body: bytes, asked: _Asked) -> AsyncIterator[Response]:
        """The response to ``body``, its head checked. What goes wrong on the way is a ProviderError."""
        try:
            async with self._server.post(path, self._headers, body, asked.sent) as response:
                if not 200 <= response.status < 300:
                    asked.refused()
                await self._check_head(response)
                yield response
        except ConnectError as error:
            raise TransientProviderError(
                f"cannot connect to {self._where}: {self._excerpt(str(error))}"
            ) from error
        except CertificateError as error:
            raise ProviderError(
                f"cannot connect to {self._where}: its certificate is not accepted "
                f"({self._excerpt(str(error))}); SSL_CERT_FILE names an authority of your own"
            ) from error
        except SilenceError as error:
            raise TransientProviderError(f"{self._where} was silent for {self._idle_s:g} s") from error
        except BrokenError as error:
            raise TransientProviderError(
                f"the connection to {self._where} broke: {self._excerpt(str(error))}"
            ) from error

    async def _check_head(self, response: Response) -> None:
        status = response.status
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

    async def _error_words(self, response: Response) -> str:
        try:
            data = await self._body(response, self.bounds.error_body_bytes).whole()
            error = load_object(data).get("error")
        except ProviderError:
            return "(no readable explanation)"
        return error_words(error, self._key) if error else "(no explanation)"

    def _body(self, response: Response, limit: int) -> _Body:
        return _Body(response, limit, f"{self._where} sent more than {limit} bytes for one answer")

    async def _read_whole(self, response: Response, attempt: _Attempt, builder: AnswerBuilder) -> ModelAnswer:
        chunk = load_object(await self._body(response, self.bounds.body_bytes).whole())
        if not isinstance(chunk.get("choices"), list) and not chunk.get("error"):
            raise ProviderError(
                f"{self._where} answered with JSON that is no chat completion (it has no choices)"
            )
        text = builder.add(chunk)
        answer = builder.finish()
        attempt.show(text + builder.rest())
        return answer

    async def _read_stream(
        self, response: Response, attempt: _Attempt, builder: AnswerBuilder
    ) -> ModelAnswer:
        decoder = SseDecoder(self.bounds.event_bytes)
        body = self._body(response, self.bounds.wire_bytes)
        while piece := await body.read():  # a small one: whoever else is served has his turn between them
            for data in decoder.feed(piece):
                if data == b"[DONE]":
                    return _finished(builder, attempt)
                attempt.show(builder.add(load_object(data)))
        if builder.complete or decoder.pending() == b"[DONE]":
            return _finished(builder, attempt)
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


def _finished(builder: AnswerBuilder, attempt: _Attempt) -> ModelAnswer:
    answer = builder.finish()
    attempt.show(builder.rest())
    return answer


def _given_up(failures: tuple[Failure, ...]) -> ProviderError:
    last = failures[-1].error
    return ProviderError(f"{last} (tried {len(failures)} times)") if len(failures) > 1 else last


def _retry_after_s(value: str) -> float | None:
    """Seconds of a Retry-After header. The form with a date is not used by model servers and is ignored."""
    return float(value) if value.isascii() and value.isdigit() and len(value) <= 9 else None
