"""A model server that is asked over HTTP, whichever dialect it speaks.

The server is not trusted. Size and time of its answer are bounded, redirects are not followed (the key would
travel), compressed bodies are refused (a small one can unpack to gigabytes), and nothing it says reaches an
error message unbounded, or anybody with the key in it.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from cognition.errors import ProviderError, TransientProviderError
from cognition.providers.answer import AnswerBuilder, error_words, excerpt, load_object
from cognition.providers.base import ProviderBounds, Question, Watcher
from cognition.providers.http.connection import (
    BrokenError,
    CertificateError,
    ConnectError,
    HttpBounds,
    SilenceError,
)
from cognition.providers.http.lines import LineDecoder
from cognition.providers.http.server import HttpServer, Response
from cognition.providers.http.sse import SseDecoder
from cognition.providers.served.breaker import FAULTS, Breaker
from cognition.providers.served.dialect import Dialect
from cognition.providers.served.faults import fault_of, retry_after_s
from cognition.providers.served.pacer import Pacer
from cognition.providers.served.retry import ONCE, Failure, RetryPolicy, retry_delay_s
from cognition.providers.served.settings import ServerSettings
from kernel.abi import ModelAnswer

T = TypeVar("T")

_HEADERS = (
    ("user-agent", "weftos"),
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream, application/x-ndjson"),
    ("accept-encoding", "identity"),
)
_STREAMS = ("text/event-stream", "application/x-ndjson")
_END = b"[DONE]"
_BYTES_A_TOKEN = 4  # about: what a server has left of tokens is known so well and no better


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


class Served:
    """One such server. ``key`` is empty for servers that want none; ``tls`` says whom to believe over ``https``."""

    def __init__(
        self,
        dialect: Dialect,
        settings: ServerSettings,
        key: str,
        policy: RetryPolicy | None = None,
        bounds: ProviderBounds | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = settings
        self.bounds = bounds or ProviderBounds()
        self._dialect = dialect
        self._key = key
        self._policy = policy or RetryPolicy()
        http_bounds = HttpBounds(
            kept=self.bounds.parallel, connect_s=self.bounds.connect_s, idle_s=self._idle_s
        )
        self._server = HttpServer(settings.base_url, http_bounds, tls)
        self._headers = (*_HEADERS, *dialect.plain, *(dialect.headers(key) if key else ()))
        self._pacer = Pacer(self.bounds.parallel)
        self._breaker = Breaker(self.bounds.breaker_failures, self.bounds.breaker_open_s)

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """See :class:`cognition.providers.base.Provider`."""
        model = question.model or self.settings.model
        if not model:
            raise ProviderError(
                f"no model was named: set providers.{self.settings.name}.model, or spawn with --model"
            )
        body = self._dialect.body(question, model, self.settings.stream)
        asked, policy = _Asked(), self._policy if question.retry else ONCE
        if (left_s := self._breaker.admit(model, time.monotonic())) > 0:
            raise ProviderError(
                f"{self._where} has not answered for this model {self.bounds.breaker_failures} times in a row: it is "
                f"asked again in {left_s:.0f} s (providers.{self.settings.name}.breaker_failures)",
                "unavailable",
            )
        try:
            answer = await self._within_limits(
                lambda attempt: self._attempt(body, attempt, asked),
                self._pacer.slot(question.asker, len(body) // _BYTES_A_TOKEN + question.max_tokens, watcher),
                watcher,
                policy,
            )
        except ProviderError as error:
            error.begun = asked.begun
            if error.kind in FAULTS:
                self._breaker.failed(model, time.monotonic())
            else:
                self._breaker.answered(model)
            raise
        self._breaker.answered(model)
        return answer

    async def fetch(self, path: str, body: bytes, most_bytes: int, parse: Callable[[bytes, str], T]) -> T:
        """What ``parse(data, key)`` makes of the whole answer to ``body``, which has ``most_bytes`` at most. Raises
        ProviderError.
        """

        async def attempt(_: _Attempt) -> T:
            async with self._posted(path, body, _Asked()) as response:
                data = await self._body(response, min(self.bounds.wire_bytes, most_bytes)).whole()
            return parse(data, self._key)

        nobody = _Nobody()
        slot = self._pacer.slot("", len(body) // _BYTES_A_TOKEN, nobody)
        return await self._within_limits(attempt, slot, nobody, self._policy)

    async def close(self) -> None:
        self._pacer.close()
        self._server.close()

    async def _within_limits(
        self,
        work: Callable[[_Attempt], Awaitable[T]],
        slot: AbstractAsyncContextManager[None],
        watcher: Watcher,
        policy: RetryPolicy,
    ) -> T:
        async with slot:
            try:
                async with asyncio.timeout(self.bounds.total_s):
                    return await self._with_retries(work, watcher, policy)
            except TimeoutError as error:
                raise ProviderError(
                    f"no whole answer from the model within {self.bounds.total_s:g} s", "timeout"
                ) from error

    async def _with_retries(
        self, work: Callable[[_Attempt], Awaitable[T]], watcher: Watcher, policy: RetryPolicy
    ) -> T:
        failures: tuple[Failure, ...] = ()
        while True:
            attempt = _Attempt(watcher)
            try:
                return await work(attempt)
            except ProviderError as error:
                failures = (*failures, Failure(error, attempt.shown))
            if attempt.shown:
                watcher.reset()
            delay_s = retry_delay_s(policy, failures, random.random())
            if delay_s is None:
                raise _given_up(failures)
            print(f"{failures[-1].error}; again in {delay_s:.2f} s", file=sys.stderr, flush=True)
            await asyncio.sleep(delay_s)

    async def _attempt(self, body: bytes, attempt: _Attempt, asked: _Asked) -> ModelAnswer:
        builder = AnswerBuilder(self.bounds, self._key)
        async with self._posted(self._dialect.path, body, asked) as response:
            try:
                if response.headers.get("content-type", "").lower().startswith(_STREAMS):
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
                after_s = retry_after_s(response.headers, time.time())
                self._pacer.learn(response.headers, after_s)
                if not 200 <= response.status < 300:
                    asked.refused()
                await self._check_head(response, after_s)
                yield response
        except ConnectError as error:
            raise TransientProviderError(
                f"cannot connect to {self._where}: {self._excerpt(str(error))}", kind="transport"
            ) from error
        except CertificateError as error:
            raise ProviderError(
                f"cannot connect to {self._where}: its certificate is not accepted "
                f"({self._excerpt(str(error))}); SSL_CERT_FILE names an authority of your own",
                "transport",
            ) from error
        except SilenceError as error:
            raise TransientProviderError(
                f"{self._where} was silent for {self._idle_s:g} s", kind="timeout"
            ) from error
        except BrokenError as error:
            raise TransientProviderError(
                f"the connection to {self._where} broke: {self._excerpt(str(error))}", kind="transport"
            ) from error

    async def _check_head(self, response: Response, after_s: float | None) -> None:
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
        if 200 <= status < 300:
            return
        error = await self._error(response)
        words = error_words(error, self._key) if error else "(no explanation)"
        text = f"{self._where} answered {status}: {words}"
        if status in (401, 403):
            hint = self.settings.api_key_env or f"providers.{self.settings.name}.api_key_env"
            text = f"{self._where} answered {status}: it does not accept the key; check {hint}"
        raise fault_of(text, status=status, error=error, retry_after_s=after_s)

    async def _error(self, response: Response) -> Any:
        """What its body says of an error."""
        try:
            data = await self._body(response, self.bounds.error_body_bytes).whole()
            return load_object(data).get("error")
        except ProviderError:
            return "(no readable explanation)"

    def _body(self, response: Response, limit: int) -> _Body:
        return _Body(response, limit, f"{self._where} sent more than {limit} bytes for one answer")

    async def _read_whole(self, response: Response, attempt: _Attempt, builder: AnswerBuilder) -> ModelAnswer:
        told = load_object(await self._body(response, self.bounds.body_bytes).whole())
        text = self._dialect.whole(builder, told)
        answer = builder.finish()
        attempt.show(text + builder.rest())
        return answer

    async def _read_stream(
        self, response: Response, attempt: _Attempt, builder: AnswerBuilder
    ) -> ModelAnswer:
        decoder = (LineDecoder if self._dialect.lines else SseDecoder)(self.bounds.event_bytes)
        body, take = self._body(response, self.bounds.wire_bytes), self._dialect.reader(builder)
        while piece := await body.read():  # a small one: whoever else is served has his turn between them
            for data in decoder.feed(piece):
                if data != _END:
                    attempt.show(take(load_object(data)))
                if data == _END or builder.over:
                    return _finished(builder, attempt)
        pending = decoder.pending()
        if self._dialect.lines and (last := _whole_line(pending)):
            attempt.show(take(last))
        if builder.complete or pending == _END:
            return _finished(builder, attempt)
        raise TransientProviderError(
            f"{self._where} cut the stream before the answer was complete", kind="transport"
        )

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


def _whole_line(line: bytes) -> dict[str, Any]:
    """The last object of a stream, which may lack the end of its line; empty when it is cut, or there is none."""
    try:
        return load_object(line)
    except ProviderError:
        return {}


def _finished(builder: AnswerBuilder, attempt: _Attempt) -> ModelAnswer:
    answer = builder.finish()
    attempt.show(builder.rest())
    return answer


def _given_up(failures: tuple[Failure, ...]) -> ProviderError:
    last = failures[-1].error
    if len(failures) == 1:
        return last
    return ProviderError(f"{last} (tried {len(failures)} times)", last.kind, last.retry_after_s)
