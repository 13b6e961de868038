"""The control API's operations on turns that diverged, below ``/v1/divergences``."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer, json_rows
from weftos.operations.control import Decision

router = APIRouter(prefix="/v1/divergences")


class DecideBody(Body):
    decision: Decision


@router.get("")
async def divergences(control: ControlOf) -> Response:
    return json_rows(await control.divergences.list())


@router.post("/{id}/decide")
async def decide(control: ControlOf, op: OperatorOf, id: str, body: DecideBody) -> Response:
    return json_answer(await control.divergences.decide(op, id, body.decision))
