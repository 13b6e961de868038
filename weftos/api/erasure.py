"""The control API's operations on erasure, below ``/v1/erasures``."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from kernel.upkeep.erasure import MOST_SEQS
from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer

router = APIRouter(prefix="/v1/erasures")


class EraseBody(Body):
    reason: str = Field(min_length=1, max_length=2000)
    seqs: list[int] = Field(default_factory=list, max_length=MOST_SEQS)
    pid: int | None = Field(default=None, ge=0, le=2**63 - 1)
    target: str = Field(default="", max_length=1100)
    session: str = Field(default="", max_length=1100)


@router.get("")
async def status(control: ControlOf) -> Response:
    return json_answer(await control.erasure.status())


@router.post("")
async def erase(control: ControlOf, op: OperatorOf, body: EraseBody) -> Response:
    answer = await control.erasure.erase(op, body.seqs, body.pid, body.target, body.session, body.reason)
    return json_answer(answer)
