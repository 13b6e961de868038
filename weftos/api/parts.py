"""What every part of the control API is made of: who asks, how an answer and an error look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import chain
from json import JSONEncoder
from math import ceil
from typing import Any, Protocol

from starlette.responses import Response, StreamingResponse

from kernel.operations.operation import Answer, Operator, P, Request, Row
from kernel.pace import give_way

OPERATOR = "weftos.operator"  # key in the ASGI scope; set by the listener, from the socket's peer credentials
SLICE_CHARS = 64 * 1024
_PIECE_CHARS = 4 * 1024
_PIECE_ITEMS = 64
_ENCODER = JSONEncoder(separators=(",", ":"))  # json.dumps makes one for each value
# code of an error -> HTTP status of its answer
CODES = {
    "not_found": 404,
    "refused": 403,
    "busy": 429,
    "timeout": 504,
    "unavailable": 503,
    "invalid": 422,
    "conflict": 409,
    "too_large": 413,
}


class Control(Protocol):
    """What the API serves; ``kernel.control.control.Control`` is it. Errors are ``kernel.errors.KernelError``."""

    async def ask(self, op: Operator, row: Row[P, Request, Answer], request: Request) -> Answer:
        """Answer one request."""

    def stream(self, op: Operator, row: Row[P, Request, Answer], request: Request) -> AsyncIterator[Answer]:
        """Answer it with objects as they come."""


def encode(value: object) -> str:
    return _ENCODER.encode(value)


def json_answer(value: object, status_code: int = 200) -> Response:
    """``value`` as JSON; what is long is encoded in slices, so that it does not hold up the node's loop."""
    slices = _slices(_pieces(value))
    first = next(slices)
    if len(first) < SLICE_CHARS:
        return Response(first, status_code, media_type="application/json")
    return StreamingResponse(_paced(chain([first], slices)), status_code, media_type="application/json")


def error_answer(
    code: str, message: str, status_code: int | None = None, word: str = "", retry_after_s: float = 0.0
) -> Response:
    """``{"error": {"code", "message"}}`` with the status of ``code``; ``word`` and ``retry_after_s`` too, where there
    are such.
    """
    error: dict[str, object] = {"code": code, "message": message, **({"word": word} if word else {})}
    if retry_after_s:
        error["retry_after_s"] = retry_after_s
    answer = json_answer({"error": error}, status_code or CODES.get(code, 500))
    if retry_after_s:
        answer.headers["retry-after"] = str(ceil(retry_after_s))
    return answer


def json_rows(pages: AsyncIterator[Sequence[object]]) -> Response:
    """The rows of all ``pages`` as one JSON array. A page is asked for when those before it have been read, so that
    nobody who does not read has the node hold more than one.
    """

    async def slices() -> AsyncIterator[str]:
        lead = "["
        async for page in pages:
            async for each in _paced(_slices(_joined(lead, (("", row) for row in page), ""))):
                yield each
            lead = "," if page else lead
        yield "]" if lead == "," else "[]"

    return StreamingResponse(slices(), media_type="application/json")


async def _paced(slices: Iterable[str]) -> AsyncIterator[str]:
    for each in slices:
        yield each
        await give_way()


def _slices(pieces: Iterable[str]) -> Iterator[str]:
    """``pieces`` put together until they are a slice."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= SLICE_CHARS:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)


def _pieces(value: Any) -> Iterator[str]:
    """``value`` as JSON, in pieces none of which is long, whatever it holds."""
    if _is_short(value):
        yield encode(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _PIECE_CHARS):
            yield encode(value[start : start + _PIECE_CHARS])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        yield from _joined("{", ((f"{encode(str(key))}:", each) for key, each in value.items()), "}")
    else:
        yield from _joined("[", (("", each) for each in value), "]")


def _joined(lead: str, items: Iterable[tuple[str, object]], end: str) -> Iterator[str]:
    """Each of ``items`` behind its name, the first of them behind ``lead`` and the others behind commas."""
    for name, each in items:
        yield lead + name
        yield from _pieces(each)
        lead = ","
    yield end


def _is_short(value: Any) -> bool:
    """Whether it is encoded in one go: it holds no long text, and at most a few values."""
    return _left(value, _PIECE_ITEMS) >= 0


def _left(value: Any, room: int) -> int:
    """How many of ``room`` are left behind the values that ``value`` is and holds; below 0: not so many, or a long
    text.
    """
    if isinstance(value, str) and len(value) > _PIECE_CHARS:
        return -1
    room -= 1
    if isinstance(value, (dict, list, tuple)):
        if len(value) > room:
            return -1
        for each in value.values() if isinstance(value, dict) else value:
            room = _left(each, room)
            if room < 0:
                break
    return room
