"""The control API: :class:`weftos.operations.control.Control` as HTTP, to be served over the node's Unix socket.

Every answer is JSON; every error is ``{"error": {"code", "message"}}`` with a status from
``weftos.operations.control.CODES``. What streams is NDJSON, one object a line; an error in the middle of a stream is
its last line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from difflib import get_close_matches
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernel.errors import KernelError
from weftos.api import archive as api_archive
from weftos.api import cluster as api_cluster
from weftos.api import divergence as api_divergence
from weftos.api import erasure as api_erasure
from weftos.api import keys as api_keys
from weftos.api import memory as api_memory
from weftos.api.parts import Body, ControlOf, OperatorOf, encode, error_answer, json_answer, json_rows
from weftos.operations.control import Control, Json, Resolution, Signal, SpawnRequest

MAX_BODY_BYTES = 2**20
MAX_ROWS = 10_000

router = APIRouter(prefix="/v1")


class Streams:
    """The open streams, so that a node that stops can end each with a word instead of a broken connection."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """End them all; each sends its last line."""
        now = asyncio.get_running_loop().time()
        for stream in self._open:
            stream.reschedule(now)

    def answer(self, source: AsyncIterator[Json]) -> Response:
        """``source`` as NDJSON. A reader that leaves closes ``source``."""
        return StreamingResponse(self._lines(source), media_type="application/x-ndjson")

    async def _lines(self, source: AsyncIterator[Json]) -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(None) as until, aclosing(cast(Any, source)):
                self._open.add(until)
                try:
                    async for item in source:
                        yield encode(item) + "\n"
                finally:
                    self._open.discard(until)
        except KernelError as error:
            yield _error_line(error.code, str(error))
        except TimeoutError:
            yield _error_line("unavailable", "the node is stopping")


async def _streams(request: Request) -> Streams:
    return cast(Streams, request.app.state.streams)


StreamsOf = Annotated[Streams, Depends(_streams)]
Name = Annotated[str, Field(min_length=1, max_length=1100)]
Limit = Annotated[int, Query(ge=1, le=MAX_ROWS)]
Pid = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
_SHOWN_FAULTS = 5
_SHOWN_CHARS = 80


class TargetBody(Body):
    target: Name


class KillBody(TargetBody):
    signal: Signal = "term"


class RemoveBody(TargetBody):
    recursive: bool = False


class WatchBody(TargetBody):
    text: str
    session: str = Field(default="", max_length=256)


class SendBody(WatchBody):
    wait_s: float | None = Field(default=None, gt=0, le=86_400)


class ResolveBody(Body):
    resolution: Resolution


@router.get("/status")
async def status(control: ControlOf) -> Response:
    return json_answer(await control.status())


@router.get("/processes")
async def ps(control: ControlOf, all: bool = False) -> Response:
    return json_rows(await control.ps(all))


@router.get("/process")
async def inspect(control: ControlOf, target: Name) -> Response:
    return json_answer(await control.inspect(target))


@router.post("/spawn")
async def spawn(control: ControlOf, op: OperatorOf, request: SpawnRequest) -> Response:
    if faults := request.check():
        return error_answer("invalid", "; ".join(faults))
    return json_answer(await control.spawn(op, request))


@router.post("/send")
async def send(control: ControlOf, op: OperatorOf, body: SendBody) -> Response:
    return json_answer(await control.send(op, body.target, body.text, body.session, body.wait_s))


@router.post("/watch")
async def watch(control: ControlOf, op: OperatorOf, streams: StreamsOf, body: WatchBody) -> Response:
    return streams.answer(control.watch(op, body.target, body.text, body.session))


@router.post("/cancel")
async def cancel(control: ControlOf, op: OperatorOf, body: TargetBody) -> Response:
    return json_answer(await control.cancel(op, body.target))


@router.post("/stop")
async def stop(control: ControlOf, op: OperatorOf, body: TargetBody) -> Response:
    return json_answer(await control.stop(op, body.target))


@router.post("/remove")
async def remove(control: ControlOf, op: OperatorOf, body: RemoveBody) -> Response:
    return json_answer(await control.remove(op, body.target, body.recursive))


@router.post("/start")
async def start(control: ControlOf, op: OperatorOf, body: TargetBody) -> Response:
    return json_answer(await control.start(op, body.target))


@router.post("/kill")
async def kill(control: ControlOf, op: OperatorOf, body: KillBody) -> Response:
    return json_answer(await control.kill(op, body.target, body.signal))


@router.get("/deadletters")
async def deadletters(control: ControlOf) -> Response:
    return json_rows(await control.deadletters())


@router.get("/deadletters/{id:path}")
async def deadletter(control: ControlOf, id: str) -> Response:
    return json_answer(await control.deadletter(id))


@router.post("/deadletters/{id:path}/replay")
async def replay(control: ControlOf, op: OperatorOf, id: str) -> Response:
    return json_answer(await control.replay(op, id))


@router.get("/doubts")
async def doubts(control: ControlOf) -> Response:
    return json_rows(await control.doubts())


@router.post("/doubts/{id:path}/resolve")
async def resolve(control: ControlOf, op: OperatorOf, id: str, body: ResolveBody) -> Response:
    return json_answer(await control.resolve(op, id, body.resolution))


@router.get("/log")
async def log(control: ControlOf, pid: Pid = None, kind: str | None = None, limit: Limit = 50) -> Response:
    return json_answer(await control.log(pid, kind, limit))


@router.get("/events")
async def events(control: ControlOf, streams: StreamsOf, follow: bool = False) -> Response:
    return streams.answer(control.events(follow))


@router.get("/logs")
async def logs(control: ControlOf, target: Name, limit: Limit = 200) -> Response:
    return json_rows(await control.logs(target, limit))


@router.get("/config")
async def config(control: ControlOf) -> Response:
    return json_answer(await control.config())


@router.post("/shutdown")
async def shutdown(control: ControlOf, op: OperatorOf) -> Response:
    await control.shutdown(op)
    return json_answer({"stopping": True})


def create_app(control: Control, streams: Streams) -> ASGIApp:
    """The API over ``control``. Whoever serves it puts the operator into the scope under ``OPERATOR``."""
    app = FastAPI(title="weftos control API", docs_url=None, redoc_url=None)
    app.state.control = control
    app.state.streams = streams
    app.include_router(router)
    app.include_router(api_memory.router)
    app.include_router(api_erasure.router)
    app.include_router(api_cluster.router)
    app.include_router(api_keys.router)
    app.include_router(api_divergence.router)
    app.include_router(api_archive.router)
    app.add_exception_handler(KernelError, _kernel_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _no_such_operation)
    app.add_exception_handler(Exception, _internal_error)
    return BoundedBody(app, MAX_BODY_BYTES)


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


def _error_line(code: str, message: str) -> str:
    return encode({"error": {"code": code, "message": message}}) + "\n"


async def _kernel_error(request: Request, error: Exception) -> Response:
    return error_answer(cast(KernelError, error).code, str(error))


async def _invalid_request(request: Request, error: Exception) -> Response:
    route = request.scope.get("route")
    known = _field_names(route)
    found = cast(RequestValidationError, error).errors()
    faults = [_fault(item, known) for item in found[:_SHOWN_FAULTS]]
    if len(found) > _SHOWN_FAULTS:
        faults.append(f"and {len(found) - _SHOWN_FAULTS} more")
    return error_answer("invalid", "; ".join(faults))


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


def _field_names(route: object) -> list[str]:
    """Names a caller may have meant: the fields of the operation's body."""
    body = getattr(getattr(route, "body_field", None), "field_info", None)
    annotation = getattr(body, "annotation", None)
    fields = (
        getattr(annotation, "model_fields", None) or getattr(annotation, "__dataclass_fields__", None) or {}
    )
    return list(fields)


def _fault(item: Json, known: list[str]) -> str:
    """One validation error as a sentence: where, what was wrong with which value, what would be right."""
    where = ".".join(str(part) for part in item["loc"][1:])[:_SHOWN_CHARS] or "the body"
    if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        near = get_close_matches(where, known, n=1)
        return f"{where}: no such field" + (
            f", did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
        )
    if item["type"] == "missing":
        return f"{where}: missing, and it is needed"
    if item["type"] == "json_invalid":
        return f"the body is not JSON: {item.get('ctx', {}).get('error', item['msg'])}"
    given = repr(item.get("input"))
    return f"{where}: {item['msg']}, not {given if len(given) <= 80 else given[:77] + '...'}"
