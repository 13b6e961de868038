"""The kernel's ``Control``, in memory, served by the real listener on a real Unix socket."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from kernel.errors import Conflict, NotFound, TimedOut, Unavailable
from kernel.helper.os_session import directory_mark
from kernel.operations.operation import Answer, Operator, P, Request, Row
from kernel.operations.processes import ChangeRequest
from kernel.operations.spawning import SpawnAllRequest, SpawnRequest
from tests.patience import HANG_S
from tests.weftos.twins.cluster_twin import TwinCluster, TwinPeers, TwinTokens
from weftos.api.connections import ConnectionLimits
from weftos.api.listener import Listener

BOOTED = {"seq": 0, "time_us": 1, "pid": 0, "kind": "node.booted", "subject": "", "cause": -1}


def process_row(address: str, pid: int, **other: Any) -> dict[str, Any]:
    """A row of ``ps``."""
    row = {
        "pid": pid,
        "address": address,
        "name": address.rpartition("/")[2],
        "type": "worker",
        "state": "running",
    }
    return {
        **row,
        "slot": "running",
        "behaviour": "agent",
        "restarts": 0,
        "mailbox": 0,
        "uptime_s": 61.0,
        **other,
    }


class TwinMemory:
    """Memory's part of control: notes what was asked in the twin's ``calls``, and has one document."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self.document: dict[str, Any] = {
            "id": "d7",
            "title": "Ferry",
            "text": "the ferry leaves\nat nine",
            "owner": "/user/ada",
            "scope": "own",
            "seq": 7,
            "bytes": 24,
            "time_us": 1,
        }
        self.degraded = ""

    def _must(self, ident: str) -> None:
        if ident != self.document["id"]:
            raise NotFound(f"no document {ident!r} in memory")

    async def add(self, op: Any, text: str, title: str, scope: str, owner: str = "") -> Any:
        self._note("memory_add", op, text, title, scope, owner)
        return {"id": "d8", "seq": 8, "owner": owner, "scope": scope, "bytes": len(text.encode())}

    async def search(self, query: str, k: int, mode: str) -> Any:
        self._note("memory_search", query, k, mode)
        parts = {"bm25": {"rank": 1, "score": 2.5}, "vector": {"rank": 3, "score": 0.5}}
        hits = [{**self.document, "score": 0.0325, "parts": parts}] if "ferry" in query else []
        return {"results": hits, "mode": mode, "degraded": self.degraded, "embedder": "lexical"}

    async def show(self, ident: str) -> Any:
        self._must(ident)
        return self.document

    async def forget(self, op: Any, ident: str) -> Any:
        self._note("memory_forget", op, ident)
        self._must(ident)
        return {"id": ident, "owner": "/user/ada", "scope": "own", "seq": 7}

    async def stats(self) -> Any:
        owners = [{"owner": "/user/ada", "documents": 1, "bytes": 24}]
        return {"documents": 1, "bytes": 24, "owners": owners, "index": {"embedder": "lexical"}}

    async def reindex(self, op: Any) -> Any:
        self._note("memory_reindex", op)
        return {"documents": 1}


class TwinErasure:
    """Erasure's part of control: erases entry 7, whatever is asked; it is done at the third look."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self.looks = 2

    async def erase(
        self, op: Any, reason: str, seqs: list[int], pid: int | None, target: str, session: str
    ) -> Any:
        self._note("erase", op, seqs, pid, target, session, reason)
        return {
            "seq": 9, "entries": 1, "ranges": [[7, 7]], "sessions": [["/user/ada", "main"]], "documents": ["d7"],
            "kept": {"process.spawned": 1}, "left": [[8, "turn.ended"]], "left_count": 1,
            "logs": [["logs/node.jsonl", 2], ["logs/cells.log", -1]],
        }  # fmt: skip

    async def status(self) -> Any:
        self._note("erasures")
        self.looks -= 1
        fault = "archive: not running" if self.looks else ""
        return {"erasing": [9] if self.looks >= 0 else [], "step": "archive", "fault": fault}


class TwinDoubts:
    """The part of control about calls in doubt: there are none."""

    def __init__(self, note: Any) -> None:
        self._note = note

    async def list(self, after: int, limit: int | None) -> Any:
        return []

    async def show(self, id: str) -> Any:
        return {"id": id, "tool": "pay", "arguments": '{"amount":5}'}

    async def resolve(self, op: Any, id: str, resolution: str) -> Any:
        self._note("resolve", op, id, resolution)
        return {"id": id, "resolution": resolution}


class TwinDivergences:
    """The part of control about parked turns: one is."""

    def __init__(self, note: Any) -> None:
        self._note = note

    async def list(self, after: int, limit: int | None) -> Any:
        call = {"op": "tool", "name": "pay", "arguments": '{"amount":5}', "truncated": False}
        asked = {**call, "arguments": '{"amount":6}'}
        recorded = {**call, "seq": 17, "outcome": "ok"}
        row = {"id": "t3", "address": "/user/ada", "message": "m3", "ordinal": "0.0", "seq": 21, "time_us": 1}
        return [{**row, "recorded": recorded, "asked": asked}]

    async def decide(self, op: Any, id: str, decision: str) -> Any:
        self._note("decide", op, id, decision)
        return {"id": id, "address": "/user/ada", "decision": decision}


class TwinArchive:
    """The archive's part of control: holds all there is, and finds nothing in it."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def sql(self, sql: str, limit: int) -> Any:
        self._note("sql", sql, limit)
        return {"columns": [], "rows": [], "cut": "", "loaded": 812}

    async def status(self) -> Any:
        return {"entries": 812, "size": 812, "rebuilt": None, "fault": None}

    async def rebuild(self, op: Any) -> Any:
        self._note("archive_rebuild", op)
        return await self.status()


class TwinKeys:
    """The keys' part of control."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def rotate(self, op: Any, reason: str) -> Any:
        self._note("rotate", op, reason)
        return {"origin": "weftos-x", "number": 2, "ed25519": "e+1+x", "ml_dsa_65": "m+2+y", "seq": 8}


MANY_CHILDREN = 2_500


def _child(name: str) -> dict[str, Any]:
    first = name == "c0"
    return {
        "name": name,
        "address": f"/user/team/{name}",
        "spawned_seq": int(name.removeprefix("c")),
        "pid": 7 if first else 0,
        "slot": "running" if first else "stopped",
        "phase": "up" if first else "none",
        "type": "worker",
        "restart": "transient",
        "significant": first,
        "on_logical": "park" if first else "restart",
        "shutdown_s": "infinity" if first else 5.0,
    }


class TwinTurns:
    """Two events, or an error behind the first; as of :class:`Twin`."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def events(self, turn: str, start: int, follow: bool, last_event_id: str) -> AsyncIterator[Any]:
        head = {"turn": turn, "time_us": 1, "step": ""}
        yield {**head, "offset": start, "event": "llm_token", "data": {"text": "a\nb"}}
        self._note("events", turn, start, follow, last_event_id)
        yield {**head, "offset": start + 1, "event": "lost", "data": {"from": 1, "to": 2}}


class Twin:
    """Control, in memory. ``calls`` holds what was asked, with the operator where the operation is recorded.

    A row ``noun.verb`` is answered by the method ``verb`` of ``noun``, or of the twin itself.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.names: dict[str, int] = {}
        self.rows: list[dict[str, Any]] = []
        self.letters: list[dict[str, Any]] = [{"id": "d/1", "why": "expired"}]
        self.no_history = False
        self.failure: Exception | None = None
        self.stream_closed = threading.Event()
        self.stopping = threading.Event()
        self.kept = True  # of a slot that is stopped
        self.memory = TwinMemory(self._note)
        self.turns = TwinTurns(self._note)
        self.erasure = TwinErasure(self._note)
        self.keys = TwinKeys(self._note)
        self.doubts = TwinDoubts(self._note)
        self.divergences = TwinDivergences(self._note)
        self.archive = TwinArchive(self._note)
        self.cluster = TwinCluster(self._note)
        self.peers = TwinPeers(self._note)
        self.tokens = TwinTokens(self._note)

    async def ask(self, op: Operator, row: Row[P, Request, Answer], request: Request) -> Answer:
        return cast(Answer, await self._call(op, row, request))

    def stream(self, op: Operator, row: Row[P, Request, Answer], request: Request) -> AsyncIterator[Answer]:
        return cast(AsyncIterator[Answer], self._call(op, row, request))

    def _call(self, op: Operator, row: Row[..., Any, Any], request: object) -> Any:
        noun, _, verb = row.name.partition(".")
        answer = getattr(getattr(self, noun, self), verb)
        whose = [op] if row.recorded else []
        if isinstance(request, (SpawnRequest, SpawnAllRequest)):
            return answer(op, request)
        return answer(*whose, *(getattr(request, field.name) for field in fields(cast(Any, request))))

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure

    def _pid(self, target: str) -> int:
        if target not in self.names:
            raise NotFound(f"there is no process {target}: weftos ps lists them")
        return self.names[target]

    async def status(self) -> Any:
        self._note("status")
        return {"name": "twin", "ledger": {"size": 812}}

    async def spawn(self, op: Any, request: SpawnRequest) -> Any:
        self._note("spawn", op, request)
        if request.name in self.names:
            raise Conflict(f"the name {request.name} is taken")
        self.names[request.name] = 40 + len(self.names)
        return {
            "address": f"{request.under}/{request.name}",
            "pid": self.names[request.name],
            "name": request.name,
        }

    async def spawn_all(self, op: Any, request: SpawnAllRequest) -> Any:
        self._note("spawn_all", op, request)
        return {"spawned": [], "failed": []}

    async def ps(self, all: bool, after: str, limit: int | None) -> Any:
        self._note("ps", all, after, limit)
        rows = self.rows or [process_row(f"/user/{name}", pid) for name, pid in self.names.items()]
        first = [row["address"] for row in rows].index(after) + 1 if after else 0
        return rows[first:][:limit]

    async def children(self, target: str, after: int, limit: int) -> Any:
        self._note("children", target, after, limit)
        at = after + 1
        names = [f"c{number}" for number in range(MANY_CHILDREN)]
        return {
            "address": f"/user/{target}",
            "running": True,
            "strategy": "one_for_one",
            "restarts": 5,
            "period_s": 60.0,
            "counted": 0,
            "auto_shutdown": "never",
            "on_exceed": "shutdown",
            "counts": {"specs": len(names), "active": 1, "supervisors": 0, "workers": len(names)},
            "children": [_child(name) for name in names[at : at + limit]],
        }

    async def inspect(self, target: str) -> Any:
        self._note("inspect", target)
        return {"pid": self._pid(target)}

    async def send(
        self,
        op: Any,
        target: str,
        text: str,
        session: str,
        *more: Any,
    ) -> Any:
        wait_s = more[-3]
        self._note("send", op, target, text, session, wait_s)
        if any(came := more[:-3]):
            self._note("came", *came)
        if text == "nobody ever answers":
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._note("given up", target)
        if text == "nobody answers":
            raise TimedOut(f"no reply within {wait_s} s; the message stays in the mailbox")
        return {
            "message": "m1",
            "address": target,
            "seq": 7,
            **({"status": "ok", "reply": text.upper()} if wait_s else {}),
        }

    async def watch(self, op: Any, target: str, text: str, session: str, *came: Any) -> AsyncIterator[Any]:
        self._note("watch", op, target, text, session)
        yield {"event": "accepted", "pid": self._pid(target)}
        for word in text.split():
            yield {"event": "delta", "text": word}
        if text == "then break":
            raise Unavailable("the gateway is not there")
        yield {"event": "reply", "status": "ok", "reply": text.replace(" ", ""), "turn": "t1"}

    async def cancel(self, op: Any, target: str, message: str, why: str) -> Any:
        self._note("cancel", op, target, message, why)
        self._pid(target)
        return {"address": f"/user/{target}", "turn": "t1", "message": "m1", "others": 2}

    async def stop(self, op: Any, target: str, why: str) -> Any:
        self._note("stop", op, target, why)
        return {"address": target, "state": "stopped", "kept": self.kept}

    async def change(self, op: Any, target: str, *wanted: Any) -> Any:
        names = [field.name for field in fields(ChangeRequest)][1:]
        given = {name: value for name, value in zip(names, wanted, strict=True) if value is not None}
        self._note("change", op, target, given)
        return {"address": target, "changed": list(given)}

    async def remove(self, op: Any, target: str, recursive: bool) -> Any:
        self._note("remove", op, target, recursive)
        return {"address": target, "removed": 1}

    async def start(self, op: Any, address: str) -> Any:
        self._note("start", op, address)
        return {"address": address}

    async def kill(self, op: Any, target: str, why: str, signal: str) -> Any:
        self._note("kill", op, target, why, signal)
        return {"pid": self._pid(target)}

    async def deadletters(
        self, after: int, limit: int | None, to: str, sender: str, reason: str, replayed: bool
    ) -> Any:
        self._note("deadletters", to, sender, reason, replayed)
        return self.letters

    async def deadletter(self, id: str) -> Any:
        self._note("deadletter", id)
        if id == "m404":
            raise NotFound("no dead letter m404; weftos deadletters list shows them")
        return {"id": id}

    async def history(self, id: str) -> Any:
        self._note("history", id)
        if self.no_history:
            raise Unavailable("the archive cannot answer: archive is not running")
        return [{"event": "dead", "detail": "expired", "pid": 0, "seq": 4, "time_us": 1_000_000}]

    async def replay(self, op: Any, id: str, to: str, again: bool) -> Any:
        self._note("replay", op, id, to, again)
        return {"message": "m9", "address": "/user/ada", "seq": 9}

    async def drop(self, op: Any, id: str, why: str) -> Any:
        self._note("drop", op, id, why)
        return {"id": id}

    async def log(self, pid: int | None, kind: str | None, limit: int) -> Any:
        self._note("log", pid, kind, limit)
        return {"rows": [], "source": "archive"}

    async def events(self, follow: bool) -> AsyncIterator[Any]:
        try:
            yield BOOTED
            if follow:
                await asyncio.Event().wait()
        finally:
            self.stream_closed.set()

    async def logs(self, target: str, limit: int) -> Any:
        self._note("logs", target, limit)
        return [{"text": "hello"}]

    async def config(self) -> Any:
        return {"values": [{"key": "node.name", "value": "twin", "origin": "--name"}]}

    async def shutdown(self, op: Any) -> Any:
        self._note("shutdown", op)
        self.stopping.set()
        return {"stopping": True}


@contextmanager
def served(twin: Twin, uid: int | None = None, limits: ConnectionLimits | None = None) -> Iterator[Path]:
    """A data directory on which ``twin`` is the running node."""
    with tempfile.TemporaryDirectory(prefix="weftos-t-") as folder:
        data = Path(folder)
        (data / "boot.json").write_text(json.dumps({"runtime": folder, "directory": directory_mark(data)}))
        loop = asyncio.new_event_loop()
        listener = Listener(twin, data / "control.sock", uid, limits)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(listener.start(), loop).result(HANG_S)
            yield data
        finally:
            asyncio.run_coroutine_threadsafe(listener.stop(), loop).result(HANG_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(HANG_S)
            loop.close()
