"""The control API's operations on memory, below ``/v1/memory``. A query travels in a body: it may be long."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer
from weftos.operations.control import SearchMode

router = APIRouter(prefix="/v1/memory")


class AddBody(Body):
    text: str
    title: str = Field(default="", max_length=1024)
    scope: str = "shared"
    owner: str = Field(default="", max_length=1100)


class SearchBody(Body):
    query: str
    k: int = 5
    mode: SearchMode = "hybrid"


DocumentId = Annotated[str, Field(min_length=1, max_length=64)]


@router.get("")
async def stats(control: ControlOf) -> Response:
    return json_answer(await control.memory.stats())


@router.post("")
async def add(control: ControlOf, op: OperatorOf, body: AddBody) -> Response:
    return json_answer(await control.memory.add(op, body.text, body.title, body.scope, body.owner))


@router.post("/search")
async def search(control: ControlOf, body: SearchBody) -> Response:
    return json_answer(await control.memory.search(body.query, body.k, body.mode))


@router.post("/reindex")
async def reindex(control: ControlOf, op: OperatorOf) -> Response:
    return json_answer(await control.memory.reindex(op))


@router.get("/{id}")
async def show(control: ControlOf, id: DocumentId) -> Response:
    return json_answer(await control.memory.show(id))


@router.post("/{id}/forget")
async def forget(control: ControlOf, op: OperatorOf, id: DocumentId) -> Response:
    return json_answer(await control.memory.forget(op, id))
