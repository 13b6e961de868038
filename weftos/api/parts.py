"""What every part of the control API is made of: who asks, how an answer and an error look."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from starlette.responses import Response, StreamingResponse

from kernel.operations.operation import Answer, Operator, P, Request, Row
from kernel.pace import give_way

OPERATOR = "weftos.operator"  # key in the ASGI scope; set by the listener, from the socket's peer credentials
_SLICE_ROWS = 64

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
    return json.dumps(value, separators=(",", ":"))


def json_answer(value: object, status_code: int = 200) -> Response:
    return Response(encode(value), status_code, media_type="application/json")


def error_answer(code: str, message: str, status_code: int | None = None) -> Response:
    """``{"error": {"code", "message"}}`` with the status of ``code``."""
    return json_answer({"error": {"code": code, "message": message}}, status_code or CODES.get(code, 500))


def json_rows(rows: Sequence[object]) -> Response:
    """Rows as a JSON array, encoded in slices, so that a long listing does not hold up the node's loop."""

    async def slices() -> AsyncIterator[str]:
        yield "["
        for first in range(0, len(rows), _SLICE_ROWS):
            yield ("," if first else "") + encode(rows[first : first + _SLICE_ROWS])[1:-1]
            await give_way()
        yield "]"

    return StreamingResponse(slices(), media_type="application/json")
