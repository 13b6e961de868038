"""The node's helper processes as children of its own supervisor, ``/kernel``.

They have PIDs and restart with back-off like any child; they have no slot in the journal, because which helpers a node
has follows from its configuration and not from its past.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

from kernel.cell.link.frames import OWN
from kernel.clock import Clock
from kernel.errors import NotFound, Refused
from kernel.helper.ends import KERNEL, HelperEnds, Order, WorkerEnds
from kernel.helper.helper import (
    Answered,
    Helper,
    HelperAway,
    HelperLost,
    HelperOver,
    HelperRefused,
    Startable,
)
from kernel.model.commands import Command
from kernel.process.processes import Processes
from kernel.signals import Signal, Signals
from kernel.state.recorder import Recorder
from kernel.supervision.reducer import (
    Add,
    ChildSpec,
    Effect,
    Event,
    Exited,
    Flags,
    RestartDue,
    StartChild,
    StartChildAfter,
    Started,
    begin,
    step,
)

READY_S = 20.0


@dataclass(frozen=True, slots=True)
class WorkerSeen(Signal):
    """A worker process came (``os_pid``) or went (None)."""

    name: str
    os_pid: int | None


@dataclass(frozen=True, slots=True)
class HelperNotice(Signal):
    """What a helper says without being asked: the gateway's ``delta`` and ``slot``, the archive's ``embed``."""

    helper: str
    op: str
    args: dict[str, Any]


class HelperChild(Protocol):
    """One helper, whatever it is made of. ``start`` is called again after each death."""

    @property
    def os_pid(self) -> int: ...

    async def start(self, on_death: Callable[[str], None]) -> None: ...

    async def end(self, hard: bool) -> None:
        """End it, at once or in order; its death is told as any other is. Raises Refused for what cannot be ended."""

    async def stop(self) -> None: ...


class LinkedHelper:
    """A helper behind a link (gateway, archive), which runs no foreign code. :meth:`request` waits a while for it to
    be up.
    """

    def __init__(self, command: Startable, boot: int, signals: Signals) -> None:
        self._command = command
        self._boot = boot
        self._signals = signals
        self._helper: Helper | None = None
        self._up = asyncio.Event()
        self._over: HelperOver | None = None
        self._asking: set[asyncio.Task[None]] = set()

    @property
    def os_pid(self) -> int:
        return self._helper.os_pid if self._helper is not None and self._helper.alive else 0

    async def start(self, on_death: Callable[[str], None]) -> None:
        def died(status: int | None) -> None:
            self._up.clear()
            on_death(f"exit status {status}")

        def noticed(op: str, args: dict[str, Any]) -> None:
            self._signals.say(HelperNotice(self._command.name, op, args))

        helper = Helper(self._command, self._boot, noticed, died, bounds=OWN)
        self._helper = helper  # from its first notice on it can be told something
        try:
            await helper.start()
        except HelperOver as error:
            self._over = error
            self._up.set()  # nobody need wait
            raise
        self._up.set()

    async def end(self, hard: bool) -> None:
        if self._helper is not None:
            await self._helper.end(hard)

    async def stop(self) -> None:
        if self._helper is not None:
            await self._helper.stop()

    async def request(self, op: str, args: dict[str, Any], ready_s: float = READY_S) -> Any:
        """Ask. Raises HelperAway when it is not up within ``ready_s``, HelperLost when it dies, HelperRefused when it
        refuses.
        """
        try:
            async with asyncio.timeout(ready_s):
                while self._over is None and not (self._up.is_set() and self.os_pid):
                    self._up.clear()  # its link may have ended before it is reaped
                    await self._up.wait()
        except TimeoutError:
            raise HelperAway(f"{self._command.name} is not running") from None
        if self._over is not None:
            raise self._over
        assert self._helper is not None
        return await self._helper.request(op, args)

    def call(self, op: str, args: dict[str, Any], answered: Answered) -> Callable[[], object]:
        """The same: ``answered`` is called once with the answer, or with what :meth:`request` raises; at once and in
        the very turn of the loop that hears of it when it is up. What is returned has the answer forgotten.
        """
        if self._helper is not None and self._over is None and self._up.is_set() and self._helper.alive:
            return partial(self._helper.forget, self._helper.call(op, args, answered))
        task = asyncio.get_running_loop().create_task(self._call_when_up(op, args, answered))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task.cancel

    async def _call_when_up(self, op: str, args: dict[str, Any], answered: Answered) -> None:
        try:
            value = await self.request(op, args)
        except (HelperLost, HelperRefused) as error:
            answered(None, error)
        else:
            answered(value, None)

    def notify(self, op: str, args: dict[str, Any]) -> None:
        if self._helper is not None:
            self._helper.notify(op, args)


@dataclass(slots=True)
class _Row:
    child: HelperChild
    on_up: Callable[[], None]
    pid: int = 0
    state: str = "starting"
    restarts: int = -1
    started_s: float = 0.0
    fault: str = ""


class Helpers:
    """``/kernel``: starts, watches and restarts helpers; shows workers, which look after themselves."""

    def __init__(
        self,
        recorder: Recorder,
        processes: Processes,
        log: Callable[..., None],
        clock: Clock,
        chance: Random,
        workers: WorkerEnds,
    ) -> None:
        self._ends = HelperEnds(recorder)
        self._worker_ends = workers
        self._processes = processes
        self._log = log
        self._clock = clock
        self._chance = chance
        self._rows: dict[str, _Row] = {}
        self._workers: dict[str, tuple[int, int, float]] = {}
        self._coming: dict[str, int] = {}  # worker processes that wait for a PID
        self.closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._supervisor, _ = begin(Flags(intensity=60, period_s=60.0, on_exceed="park", backoff_max_s=5.0))

    def add(self, name: str, child: HelperChild, on_up: Callable[[], None] = lambda: None) -> None:
        """Start a helper; ``on_up`` is called each time it runs. Does not wait for it."""
        self._rows[name] = _Row(child, on_up)
        self._event(Add(ChildSpec(name)))

    def _event(self, event: Event) -> None:
        self._supervisor, effects = step(self._supervisor, event, self._clock.now_s(), self._chance.random())
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        if self.closing:
            return
        match effect:
            case StartChild(id=name):
                self._keep(self._start(name))
            case StartChildAfter(id=name, delay_s=delay_s):
                self._clock.later(delay_s, partial(self._event, RestartDue(name)))
            case _:
                self._log("helper", effect=type(effect).__name__, child=getattr(effect, "id", ""))

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, name: str) -> None:
        row = self._rows[name]
        row.state = "starting"
        pid = row.pid = await self._processes.pids.wait()
        row.restarts += 1
        try:
            await row.child.start(lambda why: self._died(name, pid, why))
        except HelperOver as error:
            self._log("helper is lost", helper=name, why=str(error))
            row.state, row.fault = "exited", str(error)
            return
        except (
            Exception
        ) as error:  # the boundary: a helper that does not start is an event, not a crash of the node
            self._log("helper did not start", helper=name, error=f"{type(error).__name__}: {error}")
            row.state = "exited"
            # OTP drops a new child whose start fails; a helper is wanted all the same, so it counts as an exit
            self._event(Started(name, pid))
            self._event(Exited(name, pid, "crash"))
            return
        if self.closing:
            return
        row.state, row.started_s = "running", self._clock.now_s()
        self._ends.started(name, pid)
        self._event(Started(name, pid))
        row.on_up()

    def _died(self, name: str, pid: int, why: str) -> None:
        row = self._rows[name]
        if self.closing or row.pid != pid:
            return
        row.state = "exited"
        self._log("helper died", helper=name, pid=pid, why=why)
        self._event(Exited(name, pid, self._ends.ended(name, pid, why)))

    def worker(self, name: str, os_pid: int | None) -> None:
        """A worker process came or went; its pool starts it again on its next use."""
        before = self._workers.pop(name, None)
        if before is not None and not self.closing:
            self._ends.ended(name, before[0], "")
        self._coming.pop(name, None)
        if os_pid is not None:
            self._coming[name] = os_pid
            self._came(name, os_pid)

    def _came(self, name: str, os_pid: int) -> None:
        """Record a worker process that is there, once there is a PID for it."""
        if self._coming.get(name) != os_pid:
            return
        pid = self._processes.pids.next()
        if pid is None:
            self._processes.pids.when_reserved(lambda: self._came(name, os_pid))
            return
        del self._coming[name]
        self._workers[name] = (pid, os_pid, self._clock.now_s())
        self._ends.started(name, pid)

    # -- asked for -----------------------------------------------------------------------------------------------

    def find(self, target: str) -> str | None:
        """The name of the helper or worker whose address or PID that is."""
        for row in self.rows():
            if target in (row["address"], str(row["pid"])):
                return str(row["name"])
        return None

    def inspect(self, name: str) -> dict[str, Any]:
        """Its row, why it does not run, and how its forerunner ended."""
        row = next(row for row in self.rows() if row["name"] == name)
        why = self._rows[name].fault if name in self._rows else ""
        return {**row, "why": why, "last_exit": self._ends.last(name)}

    def check_kill(self, name: str) -> int:
        """The PID that :meth:`kill` would end. Raises NotFound, Refused."""
        row = self.inspect(name)
        if row["state"] != "running" or not row["os_pid"]:
            raise NotFound(f"{row['address']} has no process just now; weftos ps --all shows why")
        if row["os_pid"] == os.getpid():
            raise Refused(f"{row['address']} is part of the node itself, and ends with it: weftos down")
        return int(row["pid"])

    async def kill(self, name: str, signal: str, command: Command) -> None:
        """End a helper or a worker: at once (``kill``), or in order. It is started again, as after any end. Raises
        NotFound, Refused.
        """
        hard = signal == "kill"
        order = Order(self.check_kill(name), hard, command)
        self._ends.order(name, order)
        if name in self._rows:
            await self._rows[name].child.end(hard)
        else:
            self._worker_ends.end(name, hard, order.detail)

    def faults(self) -> list[str]:
        """What a person has to do something about."""
        return [f"{name}: {row.fault}" for name, row in self._rows.items() if row.fault]

    def pids(self) -> set[int]:
        """The PIDs of helpers and workers."""
        return {row.pid for row in self._rows.values()} | {pid for pid, _, _ in self._workers.values()}

    def rows(self) -> list[dict[str, Any]]:
        """For ``ps --all`` and ``status``."""
        now = self._clock.now_s()
        rows = [
            _row(name, row.pid, row.child.os_pid, row.state, max(0, row.restarts), now - row.started_s)
            for name, row in self._rows.items()
        ]
        rows += [
            _row(name, pid, os_pid, "running", 0, now - at)
            for name, (pid, os_pid, at) in self._workers.items()
        ]
        return rows

    async def close(self) -> None:
        """Stop all of them."""
        self.closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(row.child.stop() for row in self._rows.values()), return_exceptions=True)


def _row(name: str, pid: int, os_pid: int, state: str, restarts: int, uptime_s: float) -> dict[str, Any]:
    return {
        "pid": pid,
        "address": f"{KERNEL}/{name}",
        "name": name,
        "type": "helper",
        "state": state,
        "slot": "running",
        "behaviour": "",
        "restarts": restarts,
        "mailbox": 0,
        "uptime_s": round(uptime_s, 3) if state == "running" else 0.0,
        "cell": "",
        "os_pid": os_pid,
        "isolation": "",
        "children": 0,
    }
