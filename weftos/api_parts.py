"""What every part of the control API is made of: who asks, what a body may hold, how an answer looks."""

from __future__ import annotations

import json
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from weftos.control import CODES, Control, Json, Operator

OPERATOR = "weftos.operator"  # key in the ASGI scope; set by the listener, from the socket's peer credentials


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
