"""The cluster's part of control, in memory: notes what was asked, and knows one peer that is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.errors import NotFound, Refused

ORIGIN = "weftos-" + "a" * 26
OTHER = "weftos-" + "b" * 26
SECRET = f"weftos-join-1.{ORIGIN}.0123456789abcdef.{'c' * 52}"


class TwinCluster:
    """See above. ``why`` is what a peer said when its link ended: foreign text."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self.why = "the wire was cut"

    async def identity(self) -> Any:
        return {"name": "n1", "origin": ORIGIN, "address": "tcp://127.0.0.1:4300"}

    async def nodes(self) -> Any:
        own = {
            "name": "n1",
            "origin": ORIGIN,
            "self": True,
            "may": [],
            "state": "up",
            "age_s": 0.0,
            "why": "",
        }
        other = {**own, "name": "n2", "origin": OTHER, "self": False, "may": ["send"], "state": "lost"}
        counts = {"address": "", "boot": "", "silence_s": None, "processes": 2, "head": 17, "outbox": 3}
        return [{**own, **counts}, {**other, **counts, "age_s": 61.0, "why": self.why}]

    async def ps(self, after: str, limit: int | None) -> Any:
        row = {"node": "n1", "origin": ORIGIN, "pid": 4, "address": "/user/ada", "name": "ada"}
        row |= {"state": "running", "behaviour": "agent", "stale": False, "age_s": 0.0}
        return [row, {**row, "node": "n2", "origin": OTHER, "stale": True, "age_s": 61.0}]

    async def monitor(self, target: str, wait_s: float) -> Any:
        self._note("monitor", target, wait_s)
        return {"target": target, "reason": "noconnection"}


class TwinPeers:
    """The allow list: one peer, which has shown two heads."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def add(self, op: Any, name: str, origin: str, address: str, may: Any, tools: Any) -> Any:
        self._note("peer_add", op, name, origin, address, may, tools)
        return {
            "name": name,
            "origin": origin,
            "address": address,
            "may": may or ["ps", "send"],
            "tools": tools,
        }

    async def remove(self, op: Any, name: str) -> Any:
        self._note("peer_remove", op, name)
        if name != "n2":
            raise NotFound(f"no peer {name!r}; weftos peer list shows them")
        return {"name": name, "origin": OTHER, "address": "", "may": ["send"]}

    async def list(self) -> Any:
        return [{"name": "n2", "origin": OTHER, "address": "", "may": ["send"], "tools": None}]

    async def heads(self) -> Any:
        other = {
            "why": "two histories",
            "size": 9,
            "root": "bb",
            "at_us": 1,
            "kept": "KEPT",
            "shown": "SHOWN",
        }
        row = {"name": "n2", "origin": OTHER, "size": 7, "root": "aa", "conflict": other}
        return [row, {**row, "name": "n3", "conflict": None}]

    async def decide(self, op: Any, name: str, counts: str, reason: str) -> Any:
        self._note("head_decide", op, name, counts, reason)
        return {"name": name, "counts": counts, "size": 9, "root": "bb", "reason": reason}


class TwinTokens:
    """Join tokens: one is used."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def create(self, op: Any, lifetime_s: int) -> Any:
        self._note("token_create", op, lifetime_s)
        return {"id": "0123456789abcdef", "token": SECRET, "lifetime_s": lifetime_s}

    async def list(self) -> Any:
        row = {"id": "0123456789abcdef", "status": "used", "created_us": 1, "expires_us": 2, "used_by": OTHER}
        return [row]

    async def revoke(self, op: Any, ident: str) -> Any:
        self._note("token_revoke", op, ident)
        if ident != "0123456789abcdef":
            raise Refused("no such token")
        return {"id": ident, "status": "revoked"}
