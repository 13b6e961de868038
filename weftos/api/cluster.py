"""The control API's operations on other nodes, below ``/v1/cluster``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from weftos.api.parts import Body, ControlOf, OperatorOf, json_answer, json_rows

router = APIRouter(prefix="/v1/cluster")

Node = Annotated[str, Field(min_length=1, max_length=64)]


class MonitorBody(Body):
    target: Annotated[str, Field(min_length=1, max_length=1200)]
    wait_s: float = Field(gt=0, le=86_400)


class PeerBody(Body):
    name: Node
    origin: Node
    address: str = Field(default="", max_length=300)
    may: Annotated[list[str], Field(max_length=8)] | None = None
    tools: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=1000)] | None = None


class NameBody(Body):
    name: Node


class DecideBody(Body):
    name: Node
    counts: Annotated[str, Field(max_length=8)]
    reason: Annotated[str, Field(max_length=1000)]


class TokenBody(Body):
    lifetime_s: int = Field(default=86_400, ge=1)


@router.get("/identity")
async def identity(control: ControlOf) -> Response:
    return json_answer(await control.cluster.identity())


@router.get("/nodes")
async def nodes(control: ControlOf) -> Response:
    return json_rows(await control.cluster.nodes())


@router.get("/processes")
async def processes(control: ControlOf) -> Response:
    return json_rows(await control.cluster.ps())


@router.post("/monitor")
async def monitor(control: ControlOf, body: MonitorBody) -> Response:
    return json_answer(await control.cluster.monitor(body.target, body.wait_s))


@router.get("/peers")
async def peers(control: ControlOf) -> Response:
    return json_rows(await control.cluster.peers())


@router.post("/peers")
async def peer_add(control: ControlOf, op: OperatorOf, body: PeerBody) -> Response:
    return json_answer(
        await control.cluster.peer_add(op, body.name, body.origin, body.address, body.may, body.tools)
    )


@router.post("/peers/remove")
async def peer_remove(control: ControlOf, op: OperatorOf, body: NameBody) -> Response:
    return json_answer(await control.cluster.peer_remove(op, body.name))


@router.get("/heads")
async def heads(control: ControlOf) -> Response:
    return json_rows(await control.cluster.heads())


@router.post("/heads/decide")
async def head_decide(control: ControlOf, op: OperatorOf, body: DecideBody) -> Response:
    return json_answer(await control.cluster.head_decide(op, body.name, body.counts, body.reason))


@router.get("/tokens")
async def tokens(control: ControlOf) -> Response:
    return json_rows(await control.cluster.tokens())


@router.post("/tokens")
async def token_create(control: ControlOf, op: OperatorOf, body: TokenBody) -> Response:
    return json_answer(await control.cluster.token_create(op, body.lifetime_s))


@router.post("/tokens/{id}/revoke")
async def token_revoke(control: ControlOf, op: OperatorOf, id: Node) -> Response:
    return json_answer(await control.cluster.token_revoke(op, id))
