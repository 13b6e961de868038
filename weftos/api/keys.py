"""The control API's operations on the node's keys, below ``/v1/keys``."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer

router = APIRouter(prefix="/v1/keys")


class RotateBody(Body):
    reason: str = Field(min_length=1, max_length=200)


@router.post("/rotate")
async def rotate(control: ControlOf, op: OperatorOf, body: RotateBody) -> Response:
    return json_answer(await control.keys.rotate(op, body.reason))
