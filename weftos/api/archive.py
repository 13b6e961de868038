"""The control API's operations on the archive, below ``/v1/archive``."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer

router = APIRouter(prefix="/v1/archive")


class QueryBody(Body):
    sql: str = Field(min_length=1, max_length=2**16)
    limit: int = Field(default=100, ge=1, le=10_000)


@router.get("")
async def status(control: ControlOf) -> Response:
    return json_answer(await control.archive.status())


@router.post("/query")
async def query(control: ControlOf, body: QueryBody) -> Response:
    return json_answer(await control.archive.sql(body.sql, body.limit))


@router.post("/rebuild")
async def rebuild(control: ControlOf, op: OperatorOf) -> Response:
    return json_answer(await control.archive.rebuild(op))
