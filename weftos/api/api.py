"""The control API: the table of operations as HTTP, to be served over the node's Unix socket.

Each row of :mod:`kernel.operations.table` is a route below ``/v1``. Every answer is JSON; every error is ``{"error":
{"code", "message"}}`` with a status from ``weftos.api.parts.CODES``. What streams is NDJSON, one object a line; an
error in the middle of a stream is its last line. ``/openapi.json`` says the same to programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernel.errors import KernelError, Unavailable
from kernel.operations.operation import AnyRow
from kernel.operations.table import TABLE
from weftos.api.openapi import document
from weftos.api.parts import OPERATOR, Control, encode, error_answer, json_answer, json_rows
from weftos.api.requests import Reader, WrongRequest

MAX_BODY_BYTES = 2**20
PAGE_ROWS = 256
SERVER_SENT = "text/event-stream"

Endpoint = Callable[[Request], Awaitable[Response]]
EventId = Callable[[Any], str]
Ask = Callable[[Any], Awaitable[list[Any]]]
T = TypeVar("T")


class Streams:
    """The open streams, so that a node that stops can end each with a word instead of a broken connection."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """End them all; each sends its last line."""
        now = asyncio.get_running_loop().time()
        for stream in self._open:
            stream.reschedule(now)

    def answer(self, source: AsyncIterator[object], event_id: EventId | None = None) -> Response:
        """``source`` as NDJSON, or with ``event_id`` as server-sent events. A reader that leaves closes ``source``."""
        if event_id is None:
            return StreamingResponse(self._lines(source, _line), media_type="application/x-ndjson")
        shown = partial(_sent_event, event_id)
        return StreamingResponse(self._lines(source, shown), media_type=SERVER_SENT)

    async def _lines(
        self, source: AsyncIterator[object], shown: Callable[[object], str]
    ) -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(None) as until, aclosing(cast(Any, source)):
                self._open.add(until)
                try:
                    async for item in source:
                        yield shown(item)
                finally:
                    self._open.discard(until)
        except KernelError as error:
            yield shown(_error(error.code, str(error), error.retry_after_s))
        except TimeoutError:
            yield shown(_error("unavailable", "the node is stopping"))


def create_app(control: Control, streams: Streams) -> ASGIApp:
    """The API over ``control``. Whoever serves it puts the operator into the scope under ``OPERATOR``."""
    routes = [_route(row, _endpoint(row, control, streams)) for row in TABLE]
    app = Starlette(
        routes=[*routes, Route("/openapi.json", _openapi)],
        exception_handlers={
            KernelError: _kernel_error,
            WrongRequest: _wrong_request,
            HTTPException: _no_such_operation,
            Exception: _internal_error,
        },
    )
    return BoundedBody(app, MAX_BODY_BYTES)


def _route(row: AnyRow, endpoint: Endpoint) -> Route:
    route = Route(f"/v1{row.path}", endpoint, methods=[row.method])
    cast(set[str], route.methods).discard(
        "HEAD"
    )  # which Starlette adds: what asks shall be answered, or not done
    return route


def _endpoint(row: AnyRow, control: Control, streams: Streams) -> Endpoint:
    """What answers an HTTP request with the answer of ``row``."""
    reader = Reader(row)
    waits = any(field.name == "wait_s" for field in fields(row.request))  # type: ignore[arg-type]  # a dataclass

    async def answer(request: Request) -> Response:
        asked = await reader.read(request)
        ask = partial(control.ask, request.scope[OPERATOR], row)
        if row.after is not None:
            return json_rows(await _begun(_pages(ask, row.after, asked)))
        return json_answer(await (_while_there(request, ask(asked)) if waits else ask(asked)))

    async def stream(request: Request) -> Response:
        source = control.stream(request.scope[OPERATOR], row, await reader.read(request))
        return streams.answer(source, row.event_id if _wants_events(request) else None)

    return stream if row.streams else answer


def _wants_events(request: Request) -> bool:
    """Whether the caller reads server-sent events."""
    return SERVER_SENT in request.headers.get("accept", "")


async def _pages(ask: Ask, after: Callable[[Any], Any], asked: Any) -> AsyncIterator[list[Any]]:
    """What ``asked`` asks for, so many rows at a time."""
    left: int | None = asked.limit
    while left is None or left > 0:
        size = PAGE_ROWS if left is None else min(left, PAGE_ROWS)
        page = await ask(replace(asked, limit=size))
        yield page
        if len(page) < size:
            return
        left = None if left is None else left - size
        asked = replace(asked, after=after(page[-1]))


async def _begun(pages: AsyncIterator[T]) -> AsyncIterator[T]:
    """``pages``, of which the first is there. Raises what asking for it raises."""
    begun = [await anext(pages)]

    async def all_of_them() -> AsyncIterator[T]:
        yield begun.pop()
        async for page in pages:
            yield page

    return all_of_them()


async def _while_there(request: Request, asking: Coroutine[Any, Any, T]) -> T:
    """What ``asking`` gives. Raises Unavailable when the caller goes meanwhile: nobody waits for it then."""
    answer, gone = asyncio.create_task(asking), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise Unavailable("whoever asked has gone")
    finally:
        answer.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _openapi(request: Request) -> Response:
    return json_answer(document())


class BoundedBody:
    """ASGI middleware: reads the whole body before the application runs, and refuses one that is too long."""

    def __init__(self, app: ASGIApp, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        more = scope["type"] == "http"
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._limit_bytes:
                refusal = error_answer(
                    "too_large", f"the request is longer than {self._limit_bytes} bytes: send less at once"
                )
                refusal.headers["connection"] = "close"
                await refusal(scope, receive, send)
                return
        await self._app(scope, _replayed(bytes(body), receive), send)


def _replayed(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


def _line(item: object) -> str:
    return encode(item) + "\n"


def _sent_event(event_id: EventId, item: Any) -> str:
    """As the HTML standard has it, section 9.2; an error is an event ``fault``."""
    fault = "event" not in item
    ident = "" if fault else event_id(item)
    name = "fault" if fault else item["event"]
    return f"{f'id: {ident}{chr(10)}' if ident else ''}event: {name}\ndata: {encode(item)}\n\n"


def _error(code: str, message: str, retry_after_s: float = 0.0) -> object:
    error: dict[str, object] = {"code": code, "message": message}
    return {"error": error | ({"retry_after_s": retry_after_s} if retry_after_s else {})}


async def _kernel_error(request: Request, error: Exception) -> Response:
    fault = cast(KernelError, error)
    return error_answer(fault.code, str(error), word=fault.word, retry_after_s=fault.retry_after_s)


async def _wrong_request(request: Request, error: Exception) -> Response:
    return error_answer("invalid", str(error))


async def _no_such_operation(request: Request, error: Exception) -> Response:
    status_code = cast(HTTPException, error).status_code
    if status_code in (404, 405):
        message = f"there is no operation {request.method} {request.url.path}: /openapi.json lists them all"
        return error_answer("not_found", message, status_code)
    return error_answer("invalid", str(cast(HTTPException, error).detail), status_code)


async def _internal_error(request: Request, error: Exception) -> Response:
    name = type(error).__name__
    answer = error_answer(
        "internal", f"the node failed at this ({name}): its log (logs/node.jsonl) says more"
    )
    answer.headers["connection"] = "close"  # uvicorn drops the connection on which an application failed
    return answer
