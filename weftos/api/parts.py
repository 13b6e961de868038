"""What every part of the control API is made of: who asks, what a body may hold, how an answer looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict

from weftos.operations.control import CODES, Control, Json, Operator

OPERATOR = "weftos.operator"  # key in the ASGI scope; set by the listener, from the socket's peer credentials
_SLICE_ROWS = 100


async def _control(request: Request) -> Control:
    return cast(Control, request.app.state.control)


async def _operator(request: Request) -> Operator:
    return cast(Operator, request.scope[OPERATOR])


ControlOf = Annotated[Control, Depends(_control)]
OperatorOf = Annotated[Operator, Depends(_operator)]


class Body(BaseModel):
    """A request's JSON. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def encode(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def json_answer(value: Json, status_code: int = 200) -> Response:
    return Response(encode(value), status_code, media_type="application/json")


def error_answer(code: str, message: str, status_code: int | None = None) -> Response:
    """``{"error": {"code", "message"}}`` with the status of ``code``."""
    return json_answer({"error": {"code": code, "message": message}}, status_code or CODES.get(code, 500))


def json_rows(rows: Sequence[Json]) -> Response:
    """Rows as a JSON array, encoded in slices, so that a long listing does not hold up the node's loop."""

    async def slices() -> AsyncIterator[str]:
        yield "["
        for first in range(0, len(rows), _SLICE_ROWS):
            yield ("," if first else "") + encode(rows[first : first + _SLICE_ROWS])[1:-1]
            await asyncio.sleep(0)
        yield "]"

    return StreamingResponse(slices(), media_type="application/json")
