"""The process tree: spawns, starts, exits, and what the supervisors decide about them.

The rules are in ``kernel/supervision.py``; here its effects are carried out, one after the other, through a queue, so
that an effect which causes the next event never runs inside the handling of the last one. Every address that has
children has a supervisor: a real one (a slot of type supervisor, with a PID and no cell) or, for a worker with
children, one that shares the worker's address and parks what fails too often.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from chain.ledger import Draft, StateChange
from kernel.address import ROOT, ancestors, is_below, join, name_of
from kernel.address import parent as parent_of
from kernel.bounds import Bounds
from kernel.capability import Rights, child_of
from kernel.errors import Busy, Conflict, Invalid, NotFound, Refused
from kernel.live import LiveProcess, LiveTable
from kernel.pids import ROOT_PID, Pids, first_pids, resume_pids, take
from kernel.recorder import Recorder
from kernel.spec import ProcessSpec
from kernel.state import Slot
from kernel.states import CRASH, KILLED, SHUTDOWN, ProcessEvent, ProcessState
from kernel.supervision import (
    Add,
    ChildSpec,
    Dropped,
    Effect,
    Event,
    Exited,
    Flags,
    GiveUp,
    RestartDue,
    Shutdown,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
    Supervisor,
    begin,
    step,
)

USER = "/user"


def open_pids(recorder: Recorder) -> Pids:
    """PIDs for this boot: a new block, recorded before any of it is given out."""
    reserved = recorder.state.pids_reserved
    pids, reserve = resume_pids(reserved) if reserved else first_pids()
    recorder.commit([StateChange("pids", str(reserve.upto), b"")], durable=True)
    return pids


class Launcher(Protocol):
    """What the tree needs of the cells."""

    def place(self, process: LiveProcess) -> None:
        """Start the process in a cell; ``Processes.started`` or ``start_failed`` follows."""

    def stop(self, pid: int, why: str) -> None:
        """The process is dead to the node: see that its cell knows."""


class Processes:
    """The tree. ``on_running(address)`` after a start, ``on_exit(process, reason)`` after an exit was recorded,
    ``bury(address, why)`` when a slot will not take its mail any more.
    """

    def __init__(self, recorder: Recorder, live: LiveTable, pids: Pids, launcher: Launcher, bounds: Bounds):
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._pids = pids
        self._launcher = launcher
        self._bounds = bounds
        self._supervisors: dict[str, Supervisor] = {}
        self._queue: deque[tuple[str, Effect]] = deque()
        self._busy = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._starts: dict[str, list[asyncio.Future[int]]] = {}
        self._ending: dict[str, str] = {}
        self.on_running: Callable[[str], None]
        self.on_exit: Callable[[LiveProcess, str], None]
        self.bury: Callable[[str, str], None]
        self.closing = False

    # -- pids ----------------------------------------------------------------------------------------------------

    def next_pid(self) -> int:
        """A PID that was never used and never will be again, reserved on disk in blocks."""
        self._pids, pid, reserve = take(self._pids)
        if reserve is not None:
            self._recorder.commit_later([StateChange("pids", str(reserve.upto), b"")])
        return pid

    # -- boot ----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the root and, below it, everything that was meant to run."""
        flags = Flags(intensity=20, on_exceed="park")
        root = LiveProcess(ROOT_PID, ROOT, ProcessSpec("root", type="supervisor"), time.monotonic())
        self._live.add(root)
        root.on(ProcessEvent.STARTED)
        if USER not in self._state.slots:
            spec = ProcessSpec("user", type="supervisor", tools=())
            body = {"address": USER, "parent": ROOT, "spec": spec.to_json()}
            self._recorder.commit([Draft("process.spawned", body, ROOT_PID)])
        user = self._child_spec(self._state.slots[USER])
        self._supervisors[ROOT], effects = begin(flags, [(user, SlotState.RUNNING)])
        self._carry_out(ROOT, effects)

    def _child_spec(self, slot: Slot) -> ChildSpec:
        shutdown_s = float("inf") if slot.spec.type == "supervisor" else 5.0
        return ChildSpec(name_of(slot.address), slot.spec.restart, shutdown_s, slot.spec.type)

    def _begin_children(self, address: str) -> None:
        """Give ``address`` its supervisor, with the children its slots say."""
        slot = self._state.slots[address]
        shared = slot.spec.type == "worker" or address == USER
        restarts, period_s = slot.spec.intensity
        flags = Flags(restarts, period_s, "park" if shared else "shutdown")
        below = [(self._child_spec(child), SlotState(child.state)) for child in self._state.children(address)]
        self._supervisors[address], effects = begin(flags, below)
        self._carry_out(address, effects)

    # -- asked for -----------------------------------------------------------------------------------------------

    def check_spawn(self, spec: ProcessSpec, parent: str) -> str:
        """The address a new child would have. Raises Invalid, Refused, NotFound, Conflict or Busy."""
        faults = spec.check()
        if faults:
            raise Invalid("; ".join(faults))
        if not (parent == USER or is_below(parent, USER)):
            raise Refused(f"children can be spawned under {USER}, not under {parent}")
        if parent not in self._state.slots:
            raise NotFound(f"no process at {parent} to spawn under; weftos tree shows the addresses")
        address = join(parent, spec.name)
        present = self._state.slots.get(address)
        if present is not None:
            raise Conflict(
                f"{address} exists and is {present.state}; weftos start {address}, or choose another name"
            )
        if len(self._state.slots) >= self._bounds.processes:
            raise Busy(f"the node has {len(self._state.slots)} slots, its limit")
        if len(self._state.children(parent)) >= self._bounds.children:
            raise Busy(f"{parent} has {self._bounds.children} children, the limit")
        self._check_up(parent)
        self._check_rights(spec, parent)
        return address

    def _check_up(self, parent: str) -> None:
        down = self._state.down(parent)
        if down is not None:
            raise Refused(f"{down.address} is {down.state}; start it first")

    def _check_rights(self, spec: ProcessSpec, parent: str) -> None:
        """Rights shrink below an agent, whoever asks: supervisors in between hold none and pass them on."""
        for address in (parent, *ancestors(parent)):
            above = self._state.slots.get(address)
            if above is not None and above.spec.type == "worker":
                child_of(Rights.of(above.spec.tools), Rights.of(spec.tools))
                return

    def draft_spawn(self, spec: ProcessSpec, parent: str, pid: int, trace: bytes, cause: int) -> Draft:
        """The entry that makes a slot. Raises what :meth:`check_spawn` raises."""
        address = self.check_spawn(spec, parent)
        body = {"address": address, "parent": parent, "spec": spec.to_json()}
        return Draft("process.spawned", body, pid, "", trace, cause)

    def begin(self, address: str) -> None:
        """Start a slot that was just written."""
        slot = self._state.slots[address]
        if slot.parent not in self._supervisors:
            self._begin_children(slot.parent)
            if address in [
                join(slot.parent, child.spec.id) for child in self._supervisors[slot.parent].children
            ]:
                return
        self._event(slot.parent, Add(self._child_spec(slot)))

    def when_started(self, address: str) -> asyncio.Future[int]:
        """A future of the next PID that runs at ``address``; fails with Refused when the start fails."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        process = self._live.at(address)
        if process is not None and process.state is ProcessState.RUNNING:
            future.set_result(process.pid)
        else:
            self._starts.setdefault(address, []).append(future)
        return future

    def stop(self, address: str) -> None:
        """Stop a slot: it ends orderly and stays down until it is started by hand."""
        slot = self._slot(address)
        if slot.parent not in self._supervisors:
            raise Refused(
                f"{slot.parent}, which supervises {address}, does not run: what is below it is down with it"
            )
        self._event(slot.parent, Stop(name_of(address)))

    def start(self, address: str) -> None:
        """Start a stopped or parked slot."""
        slot = self._slot(address)
        self._check_up(slot.parent)
        self._event(slot.parent, Start(name_of(address)))

    def kill(self, address: str, signal: str) -> None:
        """Send an exit signal: ``term`` lets the open turn end, ``kill`` does not. The supervisor then decides."""
        process = self._live.at(address)
        if process is None:
            raise NotFound(f"{address} has no process just now")
        if process.spec.type == "supervisor":
            self._event(address, Shutdown(KILLED if signal == "kill" else SHUTDOWN))
        elif signal == "kill":
            self.exit(process.pid, KILLED, "killed by an operator")
        else:
            self._end_softly(process, SHUTDOWN, 5.0)

    def _slot(self, address: str) -> Slot:
        if address == USER or address not in self._state.slots:
            raise NotFound(f"{address} is not a slot that can be stopped or started")
        return self._state.slots[address]

    # -- reports from below --------------------------------------------------------------------------------------

    def started(self, pid: int, cell: str) -> None:
        """The cell says the process runs."""
        process = self._live.get(pid)
        if process is None or process.state not in (ProcessState.STARTING, ProcessState.STOPPING):
            return
        process.on(ProcessEvent.STARTED)
        body = {"address": process.address, "pid": pid, "cell": cell}
        cause = self._state.slots[process.address].spawned_seq
        self._recorder.commit_later([Draft("process.started", body, pid, str(pid), b"", cause)])
        for future in self._starts.pop(process.address, []):
            if not future.done():
                future.set_result(pid)
        self._event(parent_of(process.address), Started(name_of(process.address), pid))
        self.on_running(process.address)

    def start_failed(self, pid: int, reason: str, detail: str, batch: str | None = None) -> None:
        """The process never ran."""
        process = self._live.get(pid)
        if process is None:
            return
        self._gone(process, reason, detail)
        for future in self._starts.pop(process.address, []):
            if not future.done():
                future.set_exception(Refused(f"{process.address} did not start: {detail}"))
        self._event(parent_of(process.address), StartFailed(name_of(process.address), reason, batch))

    def exit(
        self, pid: int, reason: str, detail: str = "", batch: str | None = None, told: bool = False
    ) -> None:
        """The node declares a process dead. ``told``: its cell knows already."""
        process = self._live.get(pid)
        if process is None:
            return
        if process.state is ProcessState.STARTING:
            self.start_failed(pid, reason, detail or reason, batch)
            if not told and process.spec.type == "worker":
                self._launcher.stop(pid, reason)
            return
        self._gone(process, reason, detail)
        if not told and process.spec.type == "worker":
            self._launcher.stop(pid, reason)
        if process.address != ROOT:
            self._event(parent_of(process.address), Exited(name_of(process.address), pid, reason, batch))
        down = self._state.down(process.address)
        if down is not None and down.address == process.address:
            self._leave(down)
        elif down is not None:
            self.bury(process.address, f"{down.address} is {down.state}")

    def _gone(self, process: LiveProcess, reason: str, detail: str) -> None:
        process.on(ProcessEvent.EXIT)
        self._live.remove(process.pid)
        body = {"address": process.address, "pid": process.pid, "reason": reason, "detail": detail[:500]}
        turn = self._state.turns.get(process.turn)  # the detail may quote it, and goes when it is erased
        cause = turn.started_seq if turn is not None else -1
        draft = Draft("process.exited", body, process.pid, str(process.pid), b"", cause)
        self._recorder.commit_later([draft])
        self.on_exit(process, reason)

    # -- supervision ---------------------------------------------------------------------------------------------

    def supervisor(self, address: str) -> Supervisor | None:
        """The supervision state below an address, to look at."""
        return self._supervisors.get(address)

    def _event(self, address: str, event: Event) -> None:
        supervisor = self._supervisors.get(address)
        if supervisor is None:
            return
        self._supervisors[address], effects = step(supervisor, event, time.monotonic(), random.random())
        self._carry_out(address, effects)

    def _carry_out(self, address: str, effects: tuple[Effect, ...]) -> None:
        self._queue.extend((address, effect) for effect in effects)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                self._perform(*self._queue.popleft())
        finally:
            self._busy = False

    def _perform(self, supervisor: str, effect: Effect) -> None:
        match effect:
            case StartChild(id=ident):
                self._start_child(join(supervisor, ident))
            case StartChildAfter(id=ident, delay_s=delay_s):
                self._later(delay_s, lambda: self._event(supervisor, RestartDue(ident)))
            case StopChild(id=ident, reason=reason, timeout_s=timeout_s):
                self._stop_child(join(supervisor, ident), reason, timeout_s)
            case SlotChanged(id=ident, state=state, why=why):
                self._slot_changed(join(supervisor, ident), state, why)
            case Dropped(id=ident, why=why):
                self._drop(join(supervisor, ident), why)
            case GiveUp(reason=reason):
                self._gave_up(supervisor, reason)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(handle)
            call()

        handle = asyncio.get_running_loop().call_later(delay_s, due)
        self._timers.add(handle)

    def _start_child(self, address: str) -> None:
        slot = self._state.slots.get(address)
        if slot is None or self.closing:
            return
        process = LiveProcess(self.next_pid(), address, slot.spec, time.monotonic())
        self._live.add(process)
        if slot.spec.type == "supervisor":
            self._begin_children(address)
            self.started(process.pid, "node")
            return
        if address not in self._supervisors and self._state.children(address):
            self._begin_children(address)
        self._launcher.place(process)

    def _stop_child(self, address: str, reason: str, timeout_s: float) -> None:
        process = self._live.at(address)
        if process is None:
            return
        if process.spec.type == "supervisor":
            self._event(address, Shutdown(reason))
        elif timeout_s <= 0:
            self.exit(process.pid, KILLED)
        else:
            self._end_softly(process, reason, timeout_s)

    def _end_softly(self, process: LiveProcess, reason: str, timeout_s: float) -> None:
        """Let the open turn end, then exit; kill after ``timeout_s``."""
        if not process.turn or process.state is ProcessState.STARTING:
            self.exit(process.pid, reason)
            return
        if not process.draining:
            process.draining = True
            process.on(ProcessEvent.STOP)
            self._ending[process.address] = reason
            self._later(
                timeout_s, lambda: self.exit(process.pid, KILLED, f"did not stop within {timeout_s:g} s")
            )

    def drained(self, pid: int) -> None:
        """The last turn of a stopping process has ended."""
        process = self._live.get(pid)
        if process is not None:
            self.exit(pid, self._ending.pop(process.address, SHUTDOWN))

    def _slot_changed(self, address: str, state: SlotState, why: str) -> None:
        slot = self._state.slots.get(address)
        if slot is None:
            return
        body = {"address": address, "state": str(state), "why": why[:200]}
        self._recorder.commit_later([Draft("process.slot", body, 0, "", b"", slot.spawned_seq)])
        if state in (SlotState.STOPPED, SlotState.PARKED) and self._live.at(address) is None:
            self._leave(slot)

    def _leave(self, slot: Slot) -> None:
        """A slot that is down until somebody starts it: its mail is dead, and its children end with it.

        What is below and still runs has its mail buried when it has ended.
        """
        for address in self._tree_below(slot.address):
            if self._live.at(address) is None:
                self.bury(address, f"{slot.address} is {slot.state}")
        if slot.spec.type == "worker" and slot.address in self._supervisors:
            self._event(slot.address, Shutdown(SHUTDOWN))

    def _tree_below(self, address: str) -> Iterator[str]:
        """``address`` and every one below it."""
        yield address
        for child in self._state.children(address):
            yield from self._tree_below(child.address)

    def _drop(self, address: str, why: str) -> None:
        """A slot that is no more, and all below it."""
        for below in [slot for slot in self._state.slots.values() if is_below(slot.address, address)]:
            process = self._live.at(below.address)
            if process is not None:
                self.exit(process.pid, SHUTDOWN)
            self._forget(below.address, f"{address} was removed")
        self._supervisors.pop(address, None)
        self._forget(address, why)

    def _forget(self, address: str, why: str) -> None:
        slot = self._state.slots.get(address)
        if slot is None:
            return
        self._supervisors.pop(address, None)
        self.bury(address, f"{address} was removed: {why}")
        body = {"address": address, "state": "removed", "why": why[:200]}
        self._recorder.commit_later([Draft("process.slot", body, 0, "", b"", slot.spawned_seq)])

    def _gave_up(self, address: str, reason: str) -> None:
        self._supervisors.pop(address, None)
        process = self._live.at(address)
        if process is not None and process.spec.type == "supervisor":
            self.exit(process.pid, reason)

    # -- losses --------------------------------------------------------------------------------------------------

    def cell_lost(self, cell: str, running_pid: int, pids: list[int], why: str) -> None:
        """One event for all of a cell's processes: the running one crashed, the others lost their cell."""
        for pid in pids:
            reason = CRASH if pid == running_pid else "cell_lost"
            self.exit(pid, reason, why, batch=cell, told=True)

    async def close(self) -> None:
        """Stop what is running, without a word to the slots: they start again with the next boot."""
        self.closing = True
        for timer in self._timers:
            timer.cancel()
        for futures in self._starts.values():
            for future in futures:
                future.cancel()

    def tree(self) -> list[dict[str, Any]]:
        """Slots and live processes, parents before children: what ``ps`` shows."""
        now = time.monotonic()
        rows = []
        for slot in sorted(self._state.slots.values(), key=lambda slot: slot.address):
            process = self._live.at(slot.address)
            rows.append(
                {
                    "pid": process.pid if process else slot.pid,
                    "address": slot.address,
                    "name": slot.spec.name,
                    "type": slot.spec.type,
                    "state": str(process.state) if process else "exited",
                    "slot": slot.state,
                    "why": slot.why,
                    "last_exit": slot.last_exit,
                    "behaviour": slot.spec.behaviour if slot.spec.type == "worker" else "",
                    "restarts": max(0, slot.restarts),
                    "mailbox": len(self._state.mail.get(slot.address, ())),
                    "uptime_s": round(now - process.started_s, 3) if process else 0.0,
                    "isolation": slot.spec.isolation if slot.spec.type == "worker" else "",
                    "children": len(self._state.children(slot.address)),
                    "turn": process.turn if process else "",
                }
            )
        return rows
