"""What people may ask of a running node: each command recorded with who typed it, then done.

Implements ``weftos.operations.control.Control`` without importing it: the doors know the kernel, not the other way
round.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from chain.ledger.ledger import Draft
from kernel.control.archive_control import ArchiveControl
from kernel.control.cluster_control import ClusterControl
from kernel.control.divergence_control import DivergenceControl
from kernel.control.erasure_control import ErasureControl, Erasures
from kernel.control.key_control import KeyControl, Rotate, no_rotation
from kernel.control.memory_control import MemoryControl
from kernel.control.peer_services import PeerServices, Recorded
from kernel.control.totals import log_bytes, totals
from kernel.errors import Busy, Invalid, KernelError, NotFound, Refused, TimedOut, Unavailable
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import KERNEL
from kernel.kernel import Kernel
from kernel.message.mail import OPERATOR, Outgoing
from kernel.model.address import join, validate_address
from kernel.model.makers import MadeBy
from kernel.model.spec import DEFAULT_TOOLS, Isolation, ProcessSpec, Restart
from kernel.process.live import LiveProcess
from kernel.state.recorder import ledger_errors
from kernel.state.state import DeadLetter, Mail
from kernel.toolbox.data_mark import shows_ours
from kernel.upkeep.erasure import DEFAULT_SESSION
from kernel.upkeep.loop_lag import LoopLag
from kernel.values import canonical, clean, measured

START_WAIT_S = 75.0
MAX_SESSION = 64
CONTENT = ("text", "title")  # their length is recorded: the entry that follows holds them, and can be erased


class SpawnRequest(Protocol):
    """The fields of a spawn, as the doors hand them over."""

    @property
    def name(self) -> str: ...
    @property
    def behaviour(self) -> str: ...
    @property
    def under(self) -> str: ...
    @property
    def tools(self) -> tuple[str, ...] | None: ...
    @property
    def restart(self) -> Restart: ...
    @property
    def isolation(self) -> Isolation | None: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def system_prompt(self) -> str: ...
    @property
    def workspace(self) -> str: ...
    @property
    def supervisor(self) -> bool: ...
    @property
    def intensity(self) -> tuple[int, float] | None: ...


class PlacedSpawnRequest(SpawnRequest, Protocol):
    """A spawn that says on which node; empty: on this one."""

    @property
    def on(self) -> str: ...


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the node is, for status."""

    name: str
    origin: str
    version: str
    engine: str
    data: Path
    runtime: Path
    providers: frozenset[str]
    config_view: Callable[[], list[dict[str, Any]]]
    read_logs: Callable[[str, int], list[dict[str, Any]]]
    archive: Callable[[str, dict[str, Any]], Any]
    shutdown: Callable[[str], None]
    loop_lag: LoopLag
    erasures: Erasures
    rotate: Rotate = no_rotation
    clock_ahead_s: Callable[[], float] = lambda: 0.0


class Control:
    """The facade. Every method that changes something writes ``operator.command`` first.

    ``memory`` holds what concerns memory, ``erasure`` what concerns erasing, ``keys`` its
    keys, ``divergences`` parked turns, ``archive`` the archive, ``cluster`` what concerns other nodes.
    """

    def __init__(self, kernel: Kernel, facts: NodeFacts) -> None:
        self._kernel = kernel
        self._facts = facts
        self._state = kernel.state
        self.memory = MemoryControl(kernel, self._command)
        self.erasure = ErasureControl(kernel, self._command, facts.erasures)
        self.keys = KeyControl(self._command, facts.rotate)
        self.divergences = DivergenceControl(kernel.divergences, self._command)
        self.archive = ArchiveControl(kernel.recorder, self._command, facts.archive)
        self.cluster = ClusterControl(kernel, self._command)
        kernel.remote.calls.services = PeerServices(kernel, self._spawn).services()
        self._started = time.monotonic()

    def _command(self, op: Mapping[str, object], operation: str, **arguments: Any) -> tuple[int, bytes]:
        """Record who asked for what. Returns the entry's sequence and a new trace."""
        shown = {key: value if key not in CONTENT else measured(value) for key, value in arguments.items()}
        body = {
            "uid": op["uid"],
            "os_pid": op["os_pid"],
            "operation": operation,
            "arguments": canonical(shown),
        }
        trace = os.urandom(16)
        with ledger_errors():
            ticket = self._kernel.recorder.commit([Draft("operator.command", body, 0, operation, trace)])
        return ticket.entries[0].entry.seq, trace

    # -- looking -------------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        kernel, ledger, tally = self._kernel, self._kernel.recorder.ledger, self._state.tally
        helpers = kernel.helpers.rows()
        return {
            "name": self._facts.name,
            "origin": self._facts.origin,
            "boot": f"{kernel.env.boot:016x}",
            "version": self._facts.version,
            "engine": self._facts.engine,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "read_only": ledger.read_only,
            "processes": len(kernel.live) + len(helpers) + 1,
            "cells": sum(1 for view in kernel.cells.list() if view.os_pid),
            "messages": {
                "accepted": tally.accepted,
                "acknowledged": tally.acknowledged,
                "dead": tally.dead,
                "dropped": tally.dropped,
                "in_flight": self._state.in_flight,
            },
            "doubts": len(self._state.doubts()),
            "divergences": len(self._state.parked()),
            "ledger": {
                "size": ledger.size,
                "full_size": ledger.full_size,
                "provisional": ledger.size - ledger.full_size,
                "waiting": kernel.recorder.waiting,
                "unrecorded": kernel.recorder.unrecorded,
            },
            "faults": [
                *(f"{part}: {why}" for part, why in ledger.faults.items()),
                *kernel.helpers.faults(),
            ],
            "kept": {**totals(kernel), "logs_bytes": await asyncio.to_thread(self._log_bytes)},
            "clock_ahead_s": self._facts.clock_ahead_s(),
            "helpers": [{key: row[key] for key in ("name", "pid", "os_pid", "state")} for row in helpers],
            "loop_lag_p99_ms": self._facts.loop_lag.p99_ms(),
            "loop_lag_max_ms": self._facts.loop_lag.max_ms(),
            "loop_lag_longest_ms": self._facts.loop_lag.longest_ms(),
            "runtime": str(self._facts.runtime),
            "data": str(self._facts.data),
            "os_pid": os.getpid(),
        }

    def _log_bytes(self) -> int:
        try:
            return log_bytes(self._facts.data / "logs")
        except FileNotFoundError:
            return 0

    async def ps(self, all: bool) -> list[dict[str, Any]]:
        rows = [self._placed(row) async for row in self._kernel.processes.listing.rows()]
        if not all:
            return rows
        root = _node_row(1, "/", "root", time.monotonic() - self._started)
        kernel = _node_row(0, KERNEL, "kernel", time.monotonic() - self._started)
        return [root, kernel, *self._kernel.helpers.rows(), *rows]

    def _placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """``row`` with where the process is."""
        cells, pid = self._kernel.cells, row["pid"]
        own = os.getpid() if row["type"] == "supervisor" else 0
        return {**row, "cell": cells.cell_of(pid), "os_pid": cells.os_pid_of(pid) or own}

    async def inspect(self, target: str) -> dict[str, Any]:
        address = self._kernel.post.resolve(target, beginning=True)
        slot = self._state.slots[address]
        row = self._placed(self._kernel.processes.listing.row(slot))
        turn = self._state.turn_of(address)
        supervisor = self._kernel.processes.supervisor(address)
        calls = [] if turn is None else list(turn.calls.values())
        return {
            **row,
            "spec": json.loads(slot.spec.to_json()),
            "tools": list(slot.spec.tools) if slot.spec.type == "worker" else [],
            "why": slot.why,
            "spawned_seq": slot.spawned_seq,
            "turn": None
            if turn is None
            else {
                "id": turn.id,
                "message": turn.mail.id,
                "attempt": turn.attempt,
                "crashes": turn.crashes,
                "calls": len(calls),
                "recorded": sum(call.outcome is not None for call in calls),
                "doubts": [call.ordinal for call in calls if call.doubt],
                "diverged": json.loads(turn.diverged) if turn.diverged else None,
            },
            "mail": [_mail_row(mail) for mail in list(self._state.mail.get(address, {}).values())[:20]],
            "sessions": {
                session: kept.records
                for (owner, session), kept in self._state.sessions.items()
                if owner == address
            },
            "supervision": None if supervisor is None else supervisor.counts(),
        }

    # -- processes -----------------------------------------------------------------------------------------------

    async def spawn(self, op: Mapping[str, object], request: PlacedSpawnRequest) -> dict[str, Any]:
        peer = self._kernel.remote.split(f"@{request.on}")[1] if request.on else None
        if peer is not None:
            return await self.cluster.spawn(op, request, peer)
        return await self._spawn(
            request, lambda operation, told: self._command(op, operation, **told), OPERATOR
        )

    async def _spawn(self, request: SpawnRequest, record: Recorded, asker: MadeBy) -> dict[str, Any]:
        """Make a child of this node, and wait until it runs. ``record`` says who asked for it."""
        parent = self._address(request.under)
        spec = self._spec(request, parent)
        self._kernel.processes.check_spawn(spec, parent, asker)
        self._make_workspace(spec)
        config = {
            key: value if key != "system_prompt" else measured(value) for key, value in spec.config.items()
        }
        told = replace(spec, config=config).to_json()
        seq, trace = record("spawn", {"name": spec.name, "under": parent, "spec": told})
        processes = self._kernel.processes
        with ledger_errors():
            draft = processes.draft_spawn(spec, parent, 0, trace, seq, asker)
            ticket = self._kernel.recorder.commit([draft], durable=True)
        address = draft.body["address"]
        started = processes.when_started(address)
        processes.begin(address)
        with ledger_errors():
            await ticket.durable()
        return {"address": address, "pid": await self._started_pid(address, started), "name": spec.name}

    async def _started_pid(self, address: str, started: asyncio.Future[int]) -> int:
        try:
            return await asyncio.wait_for(started, START_WAIT_S)
        except TimeoutError:
            raise TimedOut(
                f"{address} did not start within {START_WAIT_S:g} s; weftos ps shows its state"
            ) from None

    def _address(self, target: str) -> str:
        if target.startswith("/"):
            return validate_address(target)
        return self._kernel.post.resolve(target)

    def _spec(self, request: SpawnRequest, parent: str) -> ProcessSpec:
        if request.supervisor:
            return ProcessSpec(
                request.name,
                type="supervisor",
                restart=request.restart,
                tools=(),
                intensity=request.intensity or (5, 60.0),
            )
        entry = self._kernel.env.behaviours.get(request.behaviour)
        if entry is None:
            known = ", ".join(sorted(self._kernel.env.behaviours))
            raise Invalid(f"behaviour {request.behaviour!r} is not configured; there are: {known}")
        if request.provider and request.provider not in self._facts.providers:
            known = ", ".join(sorted(self._facts.providers))
            raise Invalid(f"provider {request.provider!r} is not configured; there are: {known}")
        tools = DEFAULT_TOOLS if request.tools is None else tuple(dict.fromkeys(request.tools))
        unknown = [name for name in tools if name not in self._kernel.registry]
        if unknown:
            known = ", ".join(sorted(self._kernel.registry))
            raise Invalid(f"no tool {', '.join(unknown)}; there are: {known}")
        if request.isolation == "shared" and entry.isolation == "dedicated":
            raise Refused(
                f"behaviour {entry.name} is configured for cells of its own; see [behaviours.{entry.name}]"
            )
        config = {
            "provider": request.provider,
            "model": request.model,
            "system_prompt": request.system_prompt,
        }
        return ProcessSpec(
            name=request.name,
            behaviour=request.behaviour,
            restart=request.restart,
            isolation=request.isolation or entry.isolation,
            tools=tools,
            workspace=self._workspace(request, parent),
            config={key: clean(value) for key, value in config.items() if value},
        )

    def _workspace(self, request: SpawnRequest, parent: str) -> str:
        if not request.workspace:
            return str(self._own_workspace(join(parent, request.name)))
        try:
            wanted = Path(request.workspace).resolve()
            is_directory = wanted.is_dir()
        except (OSError, ValueError) as error:
            raise Invalid(f"workspace {request.workspace[:200]!r} is no path: {error}") from error
        if not Path(request.workspace).is_absolute():
            raise Invalid(f"workspace {request.workspace!r} is not an absolute path")
        inside = self._facts.data.resolve() / "workspaces"
        for own in (self._facts.data.resolve(), self._facts.runtime.resolve()):
            overlaps = wanted == own or own in wanted.parents or wanted in own.parents
            if overlaps and inside not in wanted.parents:
                raise Refused(
                    f"workspace {wanted} would show the node's own files; choose a directory outside {own}"
                )
        if not is_directory:
            raise Invalid(f"workspace {wanted} is not a directory; make it first")
        if inside not in wanted.parents and shows_ours(wanted):
            raise Refused(
                f"workspace {wanted} would show files of a weftos node; choose a directory outside its data directory"
            )
        return str(wanted)

    def _own_workspace(self, address: str) -> Path:
        """Its directory below the data directory. That of a parent ends in ``+``, which no name can: none lies in
        another.
        """
        *above, name = address.strip("/").split("/")
        return Path(self._facts.data, "workspaces", *(f"{step}+" for step in above), name)

    def _make_workspace(self, spec: ProcessSpec) -> None:
        if spec.workspace and Path(spec.workspace).is_relative_to(self._facts.data):
            Path(spec.workspace).mkdir(mode=0o700, parents=True, exist_ok=True)

    async def stop(self, op: Mapping[str, object], target: str) -> dict[str, Any]:
        address = self._kernel.post.resolve(target)
        self._command(op, "stop", target=target, address=address)
        self._kernel.processes.stop(address)
        await self._on_disk()
        return {"address": address, "state": self._slot_state(address)}

    async def start(self, op: Mapping[str, object], address: str) -> dict[str, Any]:
        address = self._kernel.post.resolve(address)
        self._command(op, "start", address=address)
        self._kernel.processes.start(address)
        pid = await self._started_pid(address, self._kernel.processes.when_started(address))
        await self._on_disk()
        return {"address": address, "pid": pid, "state": self._slot_state(address)}

    async def _on_disk(self) -> None:
        """What is told to have been done holds after a crash too."""
        await self._kernel.processes.effects.settled()
        with ledger_errors():
            await self._kernel.recorder.barrier()

    async def remove(self, op: Mapping[str, object], target: str, recursive: bool) -> dict[str, Any]:
        address = self._kernel.post.resolve(target)
        self._kernel.processes.removal(address, recursive)
        self._command(op, "remove", target=target, address=address, recursive=recursive)
        with ledger_errors():
            removed = await self._kernel.processes.remove(address, recursive)
        await self._on_disk()
        return {"address": address, "removed": removed}

    async def kill(self, op: Mapping[str, object], target: str, signal: str) -> dict[str, Any]:
        if "@" in target:
            target, peer = self._kernel.remote.split(target)
            if peer is not None:
                return await self.cluster.kill(op, target, peer, signal)
        address = self._kernel.post.resolve(target)
        self._command(op, "kill", target=target, address=address, signal=signal)
        pid = self._state.slots[address].pid
        self._kernel.processes.kill(address, signal)
        return {"address": address, "pid": pid, "signal": signal}

    async def cancel(self, op: Mapping[str, object], target: str) -> dict[str, Any]:
        process = self._running(target)
        self._command(op, "cancel", target=target, address=process.address)
        turn = process.turn
        with ledger_errors():
            if not self._kernel.turns.cut_short(process, "cancelled", "cancelled by an operator"):
                raise NotFound(self._no_turn(process.address))
        await self._on_disk()
        return {"address": process.address, "turn": turn}

    def _no_turn(self, address: str) -> str:
        turn = self._state.turn_of(address)
        if turn is not None and turn.id in self._kernel.ends:
            return f"{turn.id} of {address} has ended already; that is told when the disk takes it"
        if turn is None or not turn.diverged:
            return f"{address} has no open turn"
        return f"{turn.id} of {address} is parked; weftos divergences decide {turn.id} --dead gives it up"

    def _running(self, target: str) -> LiveProcess:
        address = self._kernel.post.resolve(target)
        process = self._kernel.live.at(address)
        if process is None:
            raise NotFound(f"{address} has no process just now; weftos ps shows why")
        return process

    def _slot_state(self, address: str) -> str:
        slot = self._state.slots.get(address)
        return slot.state if slot is not None else "removed"

    # -- messages ------------------------------------------------------------------------------------------------

    def _accept(
        self, op: Mapping[str, object], target: str, text: str, session: str, wants_reply: bool
    ) -> tuple[Mail, Any]:
        """``wants_reply`` matters to another node alone: here every reply can be waited for."""
        session = session or DEFAULT_SESSION
        if len(session) > MAX_SESSION or not session.isprintable() or "\n" in session:
            raise Invalid(f"session must be at most {MAX_SESSION} printable characters")
        abroad = "@" in target and self._kernel.remote.split(target)[1] is not None
        if "@" not in target:
            self._kernel.post.resolve(target)
        seq, trace = self._command(op, "send", target=target, session=session, text=text)
        asks = wants_reply and abroad
        out = Outgoing(OPERATOR, target, clean(text), clean(session), trace, seq, wants_reply=asks)
        with ledger_errors():
            try:
                return self._kernel.router.accept(out)
            except KernelError as error:
                body = {"to": target[:200], "sender": OPERATOR, "why": str(error)[:500]}
                self._kernel.recorder.commit([Draft("message.refused", body, 0, "", trace, seq)])
                raise

    async def send(
        self, op: Mapping[str, object], target: str, text: str, session: str, wait_s: float | None
    ) -> dict[str, Any]:
        mail, ticket = self._accept(op, target, text, session, wait_s is not None)
        end = self._kernel.watchers.wait(mail.id) if wait_s is not None else None
        with ledger_errors():
            await ticket.durable()
        answer = {"message": mail.id, "address": mail.to, "seq": mail.seq}
        if end is None:
            return answer
        try:
            return {**answer, **await asyncio.wait_for(end, wait_s)}
        except TimeoutError:
            raise TimedOut(
                f"{mail.to} has not answered {mail.id} within {wait_s:g} s; it may still do so"
            ) from None

    async def watch(
        self, op: Mapping[str, object], target: str, text: str, session: str
    ) -> AsyncIterator[dict[str, Any]]:
        if self._kernel.watchers.count >= self._kernel.env.bounds.watchers:
            raise Busy(f"{self._kernel.env.bounds.watchers} messages are being watched, the limit")
        mail, ticket = self._accept(op, target, text, session, True)
        queue = self._kernel.watchers.watch(mail.id)
        try:
            with ledger_errors():
                await ticket.durable()
            yield {"event": "accepted", "message": mail.id, "address": mail.to, "seq": mail.seq}
            while True:
                event = await queue.get()
                if event["event"] != "end":
                    yield event
                    continue
                if event["status"] == "dead":
                    yield {"event": "dead", "why": event["reply"]}
                else:
                    yield {"event": "reply", **{key: event[key] for key in ("status", "reply", "turn")}}
                return
        finally:
            self._kernel.watchers.unwatch(mail.id, queue)

    async def deadletters(self) -> list[dict[str, Any]]:
        return [_letter_row(letter) for letter in self._state.dead.values()]

    async def deadletter(self, id: str) -> dict[str, Any]:
        letter = self._state.dead.get(id)
        if letter is None:
            raise NotFound(f"no dead letter {id}; weftos deadletters list shows them")
        return _letter_row(letter)

    async def replay(self, op: Mapping[str, object], id: str) -> dict[str, Any]:
        await self.deadletter(id)
        seq, _ = self._command(op, "replay", id=id)
        with ledger_errors():
            mail = await self._kernel.router.replay(id, seq)
        return {"message": mail.id, "address": mail.to, "seq": mail.seq}

    # -- doubts --------------------------------------------------------------------------------------------------

    async def doubts(self) -> list[dict[str, Any]]:
        return [
            {
                "id": doubt.id,
                "tool": doubt.call.name,
                "arguments": doubt.call.arguments,
                "address": doubt.address,
                "turn": doubt.turn,
                "turn_open": doubt.turn in self._state.turns,
                "attempt": doubt.call.attempt,
                "intent_seq": doubt.call.intent_seq,
            }
            for doubt in self._state.doubts()
        ]

    async def resolve(self, op: Mapping[str, object], id: str, resolution: str) -> dict[str, Any]:
        self._command(op, "resolve", id=id, resolution=resolution)
        with ledger_errors():
            tool = await self._kernel.tool_calls.resolve(id, resolution, f"operator:{op['uid']}")
        return {"id": id, "tool": tool, "resolution": resolution}

    # -- ledger, logs, configuration -----------------------------------------------------------------------------

    async def log(self, pid: int | None, kind: str | None, limit: int) -> dict[str, Any]:
        await self._kernel.recorder.ledger.barrier()
        arguments: dict[str, Any] = {"limit": limit}
        arguments |= {} if pid is None else {"pid": pid}
        arguments |= {} if kind is None else {"kind": kind}
        try:
            answer = await self._facts.archive("log", arguments)
        except (HelperLost, HelperRefused) as error:
            raise Unavailable(f"the archive cannot answer: {error}") from error
        return {"rows": answer["rows"], "source": "archive"}

    def events(self, follow: bool) -> AsyncIterator[dict[str, Any]]:
        return self._kernel.events.stream(follow)

    async def logs(self, target: str, limit: int) -> list[dict[str, Any]]:
        address = self._kernel.post.resolve(target, beginning=True)
        return await asyncio.to_thread(self._facts.read_logs, address, limit)

    async def config(self) -> dict[str, Any]:
        return {"values": self._facts.config_view()}

    async def shutdown(self, op: Mapping[str, object]) -> None:
        with contextlib.suppress(Unavailable):
            self._command(op, "down")
        self._facts.shutdown("asked for by an operator")


def _mail_row(mail: Mail) -> dict[str, Any]:
    return {
        "id": mail.id,
        "sender": mail.sender,
        "session": mail.session,
        "text": mail.text[:200],
        "seq": mail.seq,
    }


def _letter_row(letter: DeadLetter) -> dict[str, Any]:
    mail = letter.mail
    return {
        "id": mail.id,
        "sender": mail.sender,
        "to": mail.to,
        "session": mail.session,
        "text": mail.text,
        "why": letter.why,
        "seq": letter.seq,
        "time_us": letter.time_us,
    }


def _node_row(pid: int, address: str, name: str, uptime_s: float) -> dict[str, Any]:
    return {
        "pid": pid,
        "address": address,
        "name": name,
        "type": "supervisor",
        "state": "running",
        "slot": "running",
        "behaviour": "",
        "restarts": 0,
        "mailbox": 0,
        "uptime_s": round(uptime_s, 3),
        "cell": "",
        "os_pid": os.getpid(),
        "isolation": "",
        "children": 0,
    }
