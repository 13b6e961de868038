"""What people may ask of processes that are there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import islice
from typing import Any, cast

from chain.in_thread import in_thread
from kernel.control.asked import Asked
from kernel.control.facts import NodeServices
from kernel.control.rights.budgets import account_lines
from kernel.control.spawning import started_pid
from kernel.control.waits.waits import Waits
from kernel.errors import Busy, Refused
from kernel.helper.ends import KERNEL
from kernel.kernel import Kernel
from kernel.model.states import SlotState
from kernel.operations.operation import Handler, OfTarget
from kernel.operations.processes import (
    Changed,
    ChangeRequest,
    Children,
    ChildrenOf,
    ChildRow,
    Inspected,
    Kill,
    Listing,
    LogLines,
    MailRow,
    OpenTurn,
    Processes,
    ProcessRow,
    ProcessStacks,
    Reasoned,
    Removal,
    Removed,
    Signalled,
    StackRow,
    Started,
    Stopped,
    Suspended,
)
from kernel.policy.limits.mailboxes import in_force
from kernel.process.admission import check_mailbox, check_turn_timeout
from kernel.process.slots.specs import child_spec, flags_of
from kernel.shapes import told
from kernel.slices.mailboxes import Mail
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Turn
from kernel.state.recorder import ledger_errors
from kernel.state.state import State
from kernel.supervision.reducer import INFINITY, Child, Phase
from mesh.identity.peers import Peer

MOST_MAIL = 20
SHOWN_CHARS = 200
MOST_FOLLOWING = 16
FOLLOW_S = 0.25
NO_SLOT: Mapping[str, Any] = {
    "waiting": None,
    "spec": {},
    "tools": [],
    "spawned_seq": -1,
    "turn": None,
    "mail": [],
    "sessions": {},
    "supervision": None,
    "budget": [],
    "turn_timeout_s": None,
    "mailbox_limits": None,
}
"""What is said of a helper, which is no slot: it has neither messages nor turns."""
RemoteKill = Callable[[Asked, Kill, str, Peer], Awaitable[Signalled]]


class ProcessControl:
    """``remote_kill`` has a peer send the signal; ``since_s``: when the node began, on the clock of the kernel."""

    def __init__(
        self, kernel: Kernel, services: NodeServices, remote_kill: RemoteKill, since_s: float
    ) -> None:
        self._kernel = kernel
        self._state = kernel.state
        self._services = services
        self._following = 0
        self._remote_kill = remote_kill
        self._since_s = since_s
        self._waits = Waits(kernel)

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Processes.ps.by(self.ps),
            Processes.inspect.by(self.inspect),
            Processes.children.by(self.children),
            Processes.stop.by(self.stop),
            Processes.start.by(self.start),
            Processes.change.by(self.change),
            Processes.unpark.by(self.unpark),
            Processes.restart.by(self.restart),
            Processes.suspend.by(self.suspend),
            Processes.resume.by(self.resume),
            Processes.remove.by(self.remove),
            Processes.kill.by(self.kill),
            Processes.stack.by(self.stack),
            Processes.logs.by(self.logs),
            Processes.follow.by(self.follow),
        )

    async def ps(self, asked: Asked, request: Listing) -> list[ProcessRow]:
        listed = self._kernel.processes.listing.rows(request.after, request.limit)
        rows = [cast(ProcessRow, self._placed(row)) async for row in listed]
        if not request.all or request.after:
            return rows
        uptime_s = self._kernel.env.clock.now_s() - self._since_s
        helpers = cast(list[ProcessRow], self._kernel.helpers.rows())
        return [
            _node_row(1, "/", "root", uptime_s),
            _node_row(0, KERNEL, "kernel", uptime_s),
            *helpers,
            *rows,
        ]

    def _placed(self, row: dict[str, Any]) -> dict[str, Any]:
        """``row`` with where the process is, and what it waits for."""
        cells, pid = self._kernel.cells, row["pid"]
        own = os.getpid() if row["type"] == "supervisor" else 0
        place, slot = cells.place_of(pid), self._state.slots.get(row["address"])
        waits = None if slot is None else self._waits.row(slot)
        return {
            **row,
            "cell": place.cell,
            "os_pid": place.os_pid or own,
            "isolation": place.isolation or row["isolation"],
            "waiting": waits,
        }

    async def inspect(self, asked: Asked, request: OfTarget) -> Inspected:
        helper = self._kernel.helpers.find(request.named)
        if helper is not None:
            return cast(Inspected, {**self._kernel.helpers.inspect(helper), **NO_SLOT})
        address = self._kernel.messaging.resolve(request.named, beginning=True)
        slot = self._state.slots[address]
        turn = self._state.turn_of(address)
        supervisor = self._kernel.processes.supervisors.get(address)
        found = {
            **self._placed(self._kernel.processes.listing.row(slot)),
            "spec": json.loads(slot.spec.to_json()),
            "tools": list(slot.spec.tools) if slot.spec.type == "worker" else [],
            "why": slot.why,
            "spawned_seq": slot.spawned_seq,
            "turn": None if turn is None else _open_turn(turn),
            "mail": [
                _mail_row(mail) for mail in islice(self._state.mail.get(address, {}).values(), MOST_MAIL)
            ],
            "sessions": {session: kept.records for session, kept in self._state.sessions.of(address).items()},
            "supervision": None if supervisor is None else supervisor.counts(),
            "budget": account_lines(self._state, address),
            "turn_timeout_s": (self._kernel.turns.limit_s(address) if slot.spec.type == "worker" else None),
            "mailbox_limits": (
                in_force(slot.spec.mailbox, self._kernel.env.bounds) if slot.spec.type == "worker" else None
            ),
        }
        return cast(Inspected, found)

    async def children(self, asked: Asked, request: ChildrenOf) -> Children:
        address = self._kernel.messaging.resolve(request.named)
        supervisors = self._kernel.processes.supervisors
        supervisor = supervisors.get(address)
        flags = supervisor.flags if supervisor is not None else flags_of(self._state.slots[address])
        counts = supervisor.counts() if supervisor is not None else _at_rest(self._state, address)
        slots = self._kernel.processes.listing.children(address, request.after, request.limit)
        return {
            "address": address,
            "running": self._kernel.live.at(address) is not None and not supervisors.is_ending(address),
            "strategy": flags.strategy,
            "restarts": flags.intensity,
            "period_s": flags.period_s,
            "counted": 0 if supervisor is None else supervisor.counted(self._kernel.env.clock.now_s()),
            "auto_shutdown": flags.auto_shutdown,
            "on_exceed": flags.on_exceed,
            "counts": counts,
            "children": [
                _child_row(slot, supervisor.table.get(slot.spec.name) if supervisor is not None else None)
                for slot in slots
            ],
        }

    async def stop(self, asked: Asked, request: Reasoned) -> Stopped:
        address = self._kernel.messaging.resolve(request.named)
        self._kernel.processes.check_stop(address)
        command = asked.command(request.why, target=request.named, address=address)
        kept = self._is_kept(address)
        self._kernel.processes.stop(address, command)
        await self._on_disk()
        return {"address": address, "state": self._slot_state(address), "kept": kept}

    async def start(self, asked: Asked, request: OfTarget) -> Started:
        address = self._kernel.messaging.resolve(request.named)
        self._kernel.processes.check_start(address)
        asked.record(address=address)
        return await self._started(address)

    async def _started(self, address: str) -> Started:
        self._kernel.processes.start(address)
        pid = await started_pid(address, self._kernel.processes.when_started(address))
        await self._on_disk()
        return {"address": address, "pid": pid, "state": self._slot_state(address)}

    async def unpark(self, asked: Asked, request: OfTarget) -> Started:
        address = self._kernel.messaging.resolve(request.named)
        state = self._slot_state(address)
        if state != SlotState.PARKED:
            raise Refused(f"{address} is {state}, not parked")
        self._kernel.processes.check_start(address)
        asked.record(target=request.named, address=address)
        return await self._started(address)

    async def restart(self, asked: Asked, request: Reasoned) -> Started:
        processes = self._kernel.processes
        before = processes.check_running(self._kernel.messaging.resolve(request.named))
        address = before.address
        processes.check_restart(address)
        processes.restart(address, asked.command(request.why, target=request.named, address=address))
        await self._kernel.processes.effects.settled()
        pid = await started_pid(address, self._kernel.processes.when_started(address, before.pid))
        await self._on_disk()
        return {"address": address, "pid": pid, "state": self._slot_state(address)}

    async def suspend(self, asked: Asked, request: Reasoned) -> Suspended:
        address = self._kernel.messaging.resolve(request.named)
        self._kernel.processes.check_suspend(address)
        command = asked.command(request.why, target=request.named, address=address)
        with ledger_errors():
            await self._kernel.processes.suspend(address, command).durable()
        return {"address": address, "suspended": True}

    async def resume(self, asked: Asked, request: Reasoned) -> Suspended:
        address = self._kernel.messaging.resolve(request.named)
        self._kernel.processes.check_resume(address)
        command = asked.command(request.why, target=request.named, address=address)
        with ledger_errors():
            await self._kernel.processes.resume(address, command).durable()
        return {"address": address, "suspended": False}

    async def change(self, asked: Asked, request: ChangeRequest) -> Changed:
        address, wanted = self._kernel.messaging.resolve(request.named), request.wanted
        check_turn_timeout(request.turn_timeout_s, self._kernel.env.bounds.turn_timeout_s)
        check_mailbox(request.mailbox, self._kernel.env.bounds)
        processes = self._kernel.processes
        change = processes.change_of(address, wanted)
        said = wanted if request.mailbox is None else {**wanted, "mailbox": request.mailbox.told()}
        seq, trace = asked.record(target=request.named, address=address, **said)
        if change.fields:
            with ledger_errors():
                await processes.change(address, wanted, trace, seq).durable()
        return {"address": address, "changed": list(change.fields)}

    async def remove(self, asked: Asked, request: Removal) -> Removed:
        address = self._kernel.messaging.resolve(request.named)
        self._kernel.processes.admission.removal(address, request.recursive)
        asked.record(target=request.named, address=address, recursive=request.recursive)
        with ledger_errors():
            removed = await self._kernel.processes.remove(address, request.recursive)
        await self._on_disk()
        return {"address": address, "removed": removed}

    async def kill(self, asked: Asked, request: Kill) -> Signalled:
        target, signal = request.named, request.signal
        if "@" in target:
            target, peer = self._kernel.remote.split(target)
            if peer is not None:
                return await self._remote_kill(asked, request, target, peer)
        helper = self._kernel.helpers.find(target)
        if helper is not None:
            return await self._kill_helper(asked, request, helper)
        pid = self._kernel.processes.check_running(address := self._kernel.messaging.resolve(target)).pid
        command = asked.command(request.why, target=target, address=address, signal=signal)
        self._kernel.processes.kill(address, signal, command)
        return {"address": address, "pid": pid, "signal": signal}

    async def _kill_helper(self, asked: Asked, request: Kill, name: str) -> Signalled:
        address, signal = f"{KERNEL}/{name}", request.signal
        pid = self._kernel.helpers.check_kill(name)
        command = asked.command(request.why, target=request.named, address=address, signal=signal)
        await self._kernel.helpers.kill(name, signal, command)
        return {"address": address, "pid": pid, "signal": signal}

    async def stack(self, asked: Asked, request: OfTarget) -> ProcessStacks:
        """Raises NotFound, Refused, Busy."""
        process = self._kernel.processes.check_running(
            self._kernel.messaging.resolve(request.named, beginning=True)
        )
        if process.spec.type == "supervisor":
            raise Refused(f"{process.address} is a supervisor: it is part of the node and has no tasks")
        found = await self._kernel.cells.stacks(process.pid)
        return {
            "address": process.address,
            "pid": process.pid,
            "cell": found.cell,
            "stuck": found.stuck,
            "running": found.running,
            "stacks": [cast(StackRow, told(stack)) for stack in found.stacks],
            "more": found.more,
        }

    async def logs(self, asked: Asked, request: LogLines) -> list[dict[str, Any]]:
        address = self._kernel.messaging.resolve(request.named, beginning=True)
        return await in_thread(self._services.read_logs, address, request.limit)

    async def follow(self, asked: Asked, request: LogLines) -> AsyncIterator[dict[str, Any]]:
        """Raises NotFound, Busy."""
        address = self._kernel.messaging.resolve(request.named, beginning=True)
        if self._following >= MOST_FOLLOWING:
            raise Busy(f"{MOST_FOLLOWING} readers follow logs, the limit: end one of them first")
        self._following += 1
        try:
            tail = await in_thread(self._services.follow_logs, address)
            try:
                before = await in_thread(self._services.read_logs, address, request.limit)
                for line in before:
                    yield line
                while True:
                    for line in await in_thread(tail.read):
                        if line not in before:  # it may have been written between the two
                            yield line
                    before = []
                    await asyncio.sleep(FOLLOW_S)
            finally:
                tail.close()
        finally:
            self._following -= 1

    async def _on_disk(self) -> None:
        """What is told to have been done holds after a crash too."""
        await self._kernel.processes.effects.settled()
        with ledger_errors():
            await self._kernel.recorder.barrier()

    def _is_kept(self, address: str) -> bool:
        """Whether there is a slot still when its process has been stopped."""
        slot = self._state.slots[address]
        above = self._state.slots.get(slot.parent)
        return slot.spec.restart != "temporary" and (above is None or above.spec.template is None)

    def _slot_state(self, address: str) -> str:
        slot = self._state.slots.get(address)
        return slot.state if slot is not None else "removed"


def _at_rest(state: State, address: str) -> dict[str, int]:
    """What the supervisor of what does not run, or has no children, would count."""
    children = state.slots.children(address)
    supervisors = sum(slot.spec.type == "supervisor" for slot in children)
    workers = len(children) - supervisors
    return {"specs": len(children), "active": 0, "supervisors": supervisors, "workers": workers}


def _child_row(slot: Slot, child: Child | None) -> ChildRow:
    shutdown_s = child_spec(slot.spec).shutdown_s
    return {
        "name": slot.spec.name,
        "address": slot.address,
        "spawned_seq": slot.spawned_seq,
        "pid": child.pid or 0 if child is not None else 0,
        "slot": slot.state,
        "phase": str(child.phase if child is not None else Phase.NONE),
        "type": slot.spec.type,
        "restart": slot.spec.restart,
        "significant": slot.spec.significant,
        "on_logical": slot.spec.on_logical,
        "shutdown_s": "infinity" if shutdown_s == INFINITY else shutdown_s,
    }


def _open_turn(turn: Turn) -> OpenTurn:
    calls = list(turn.calls.values())
    return {
        "id": turn.id,
        "message": turn.mail.id,
        "attempt": turn.attempt,
        "crashes": turn.crashes,
        "calls": len(calls),
        "recorded": sum(call.outcome is not None for call in calls),
        "doubts": [call.ordinal for call in calls if call.doubt],
        "diverged": json.loads(turn.diverged) if turn.diverged else None,
    }


def _mail_row(mail: Mail) -> MailRow:
    return {
        "id": mail.id,
        "sender": mail.sender,
        "session": mail.session,
        "text": mail.text[:SHOWN_CHARS],
        "seq": mail.seq,
    }


def _node_row(pid: int, address: str, name: str, uptime_s: float) -> ProcessRow:
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
