"""The cells of a node: who is started, who may dial in, what became of whom.

The decisions are elsewhere: which cell (:mod:`kernel.cells.cell_table`), what a cell may say
(:mod:`kernel.cells.cell_port`). This is the shell that holds the socket, the tokens, the engine and the clock.

A cell is started with a one-time token, dials the entrance, and is known from then on by its connection. Its
end of file is its death: everything in it is lost in one event. So is the silence of a cell on another machine,
which holds a lease and has ended by itself when the node says so. A process that waits for a cell, because the cell
or the engine is not there yet, waits at most ``wait_s``.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel.abi import Message
from kernel.cell.link.frames import UNHEEDED, FrameError, Hearing, TamperedLink
from kernel.cell.protocol import CallOutcome
from kernel.cell.slot import ToldSlot
from kernel.cells.cell_acceptor import Acceptor, CellConnection
from kernel.cells.cell_entrance import Entrance
from kernel.cells.cell_events import (
    CellLost,
    CellRefused,
    CellStartFailed,
    CellUsed,
    CellView,
    EngineLost,
    Place,
    Placement,
    WarmCells,
)
from kernel.cells.cell_starts import CellStarts
from kernel.cells.cell_table import CellLimits, CellOccupants, CellTable
from kernel.cells.engines.engine import Census, Engine
from kernel.cells.health.cell_watch import CellWatch
from kernel.cells.health.cpu_meter import CpuMeter
from kernel.cells.health.pulse import Blame
from kernel.cells.health.stacks import CellStacks, StackQuestions
from kernel.cells.health.suspects import Suspects
from kernel.cells.started_cell import StartedCell
from kernel.cells.warm_pool import WarmPool
from kernel.errors import StateError
from kernel.helper.os_processes import cpu_ms, own_memory_bytes
from kernel.model.states import CRASH, TIMEOUT
from kernel.signals import Signals

log = logging.getLogger(__name__)
COOL_S = 1.0
"""Between two looks at what is warm for nobody."""
Records = list[dict[str, Any]]
Names = list[str]
Lost = tuple[list[int], list[Placement]]
Views = list[CellView]


class Cells:
    """All cells of a node. Everything is called on the event loop. ``hearing`` is entered for what a cell says at a
    time.
    """

    def __init__(
        self,
        engine: Engine,
        boot: int,
        entrance: Entrance,
        slots_dir: Path,
        signals: Signals,
        limits: CellLimits | None = None,
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self.slots_dir = slots_dir
        slots_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # a place may be taken before open()
        for left in slots_dir.iterdir():
            left.unlink()
        self._engine = engine
        self._entrance = entrance
        self._signals = signals
        self._limits = limits or CellLimits()
        self._acceptor = Acceptor(boot, self._limits, self._admit, hearing)
        self._table = CellTable(self._limits)
        self._pool = WarmPool(self._limits.warm_cells, self._limits.warm_s, self._limits.wave_s)
        self._cooling: asyncio.TimerHandle | None = None
        self._suspects = Suspects(self._limits.suspect_halves, self._limits.suspect_s)
        self._cells: dict[str, StartedCell] = {}
        self._where: dict[int, StartedCell] = {}
        self._starts = CellStarts(
            engine, self._limits, lambda cell: self._acceptor.expect(cell.token, cell.name), self._never
        )
        self._watch = CellWatch(self._cells.values, self._limits, self.lose, self._memory_bytes, self._meter)
        self._stacks = StackQuestions()
        self._cpu = CpuMeter()
        self._unmetered: dict[str, int] = {}  # by dead cells, who had each to itself
        self._closed = False

    async def open(self) -> None:
        """Listen, unless that is done, then open the engine: at first, after a failure, or after ``EngineLost``. What
        is placed before it is open waits. Raises EngineError, OSError.
        """
        if not self._entrance.is_open:
            await self._entrance.open(self._acceptor)
            self._watch.start(self.remote)
        await self._engine.open(self._engine_lost, self._engine_exit)
        self._starts.up()
        self._start_all(self._table.spare())

    async def close(self) -> None:
        """End every cell. No event is sent any more."""
        self._closed = True
        if self._cooling is not None:
            self._cooling.cancel()
        self._watch.stop()
        self._starts.close()
        self._entrance.close()
        self._acceptor.close()
        for cell in list(self._cells.values()):
            self._end(cell)
        await self._engine.close()

    @property
    def remote(self) -> bool:
        """Whether cells are on other machines, as far as the node can know."""
        return self._entrance.remote

    @property
    def warm(self) -> WarmCells:
        """The spare cells there are, and those that are to be."""
        wanted = self._pool.wanted(asyncio.get_running_loop().time())
        return WarmCells(self._table.spares, max(wanted, self._table.least), self._pool.most)

    def _asked(self) -> Names:
        """A cell was asked for; the ones to start, so that the next that come together find theirs."""
        self._pool.asked(asyncio.get_running_loop().time())
        if self._cooling is None:
            self._cool()
        return self._warmed()

    def _warmed(self) -> Names:
        """The cells to start so that as many are spare as are wanted."""
        return self._table.spare(self._pool.wanted(asyncio.get_running_loop().time()))

    def _cool(self) -> None:
        """End the spare cells that nobody has asked for lately, and look again when there may be more of these."""
        now_s = asyncio.get_running_loop().time()
        quiet_s = self._pool.quiet_in_s(now_s)
        for name in self._table.surplus(self._pool.wanted(now_s)):
            self._end(self._cells[name])
        self._cooling = None
        if quiet_s is not None and not self._closed:
            self._cooling = asyncio.get_running_loop().call_later(max(quiet_s, COOL_S), self._cool)

    # For the kernel

    def place(self, placement: Placement) -> None:
        """Run a process somewhere. Never blocks; ends in CellStarted, CellStartFailed, CellRefused or CellLost."""
        pid = placement.pid
        if self._closed:
            return
        if pid in self._where:
            raise StateError(f"pid {pid} is placed already, in cell {self._where[pid].name}")
        self._open_to_all(self._suspects.quiet(asyncio.get_running_loop().time()))
        half = self._suspects.half(placement.address)
        name, started = self._table.place(pid, placement.isolation, placement.domain, placement.made_by, half)
        if name is not None and self._table[name].isolation == "dedicated":
            started += self._asked()
        if started:
            self._start_all(started)
        if name is None:
            self._say_soon(CellRefused(pid, self._table.refusal(placement.made_by)))
            return
        cell = self._where[pid] = self._cells[name]
        cell.port.add(placement)
        self._meter(cell)
        if cell.port.waits(pid):
            asyncio.get_running_loop().call_later(self._limits.wait_s, self._check_waiting, pid, cell)

    def configure(self, pid: int, config: dict[str, Any]) -> None:
        """What the behaviour of a process is told from its next turn on. Raises Invalid."""
        if pid in self._where:
            self._where[pid].port.configure(pid, config)

    def deliver(
        self, pid: int, turn: str, message: Message, history: Records, tools: Names, sizes: Sequence[int] = ()
    ) -> None:
        """Open a turn. Raises StateError, Invalid."""
        cell = self._where.get(pid)
        if cell is None:
            raise StateError(f"pid {pid} is in no cell")
        cell.port.deliver(pid, turn, message, history, tools, sizes)

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: CallOutcome) -> None:
        """Answer a syscall. Dropped when the turn is over."""
        if pid in self._where:
            self._where[pid].port.result(pid, turn, round_, index, outcome)

    def say_whole(self, pid: int, turn: str, round_: int, index: int) -> None:
        """Have a syscall made once more, told in terms of nothing else. Dropped when the turn is over."""
        if pid in self._where:
            self._where[pid].port.say_whole(pid, turn, round_, index)

    def end_turn(self, pid: int, turn: str, why: str) -> None:
        """Close a turn: TurnEnded is raised in the behaviour. The next turn may be delivered at once."""
        if pid in self._where:
            self._where[pid].port.end_turn(pid, turn, why)

    def stop(self, pid: int, why: str) -> None:
        """The process is dead to the node; its cell has ``confirm_s`` to agree, else the cell is killed."""
        if pid in self._where:
            self._where[pid].port.stop(pid, why)

    def list(self) -> Views:
        views = []
        for name, cell in self._cells.items():
            occupants = self._table[name]
            views.append(
                CellView(name, cell.os_pid, tuple(occupants.pids), occupants.isolation, occupants.domain)
            )
        return views

    async def census(self) -> Census | None:
        """The cells that the engine has."""
        return await self._engine.census() if self._starts.engine_up else None

    def end_cell(self, name: str, why: str) -> None:
        """End a cell that there should not be, or that is not there any more."""
        cell = self._cells.get(name)
        if cell is None:
            self._engine.kill_cell(name)
        else:
            self.lose(cell, why, culprit=0)

    async def stacks(self, pid: int) -> CellStacks:
        """Where the tasks of a process stand, or, where its cell does not answer, the cell's threads. Raises NotFound
        (it is in no cell, or that ended meanwhile), Busy.
        """
        return await self._stacks.ask(pid, self._where.get(pid))

    def _memory_bytes(self, cell: StartedCell) -> int:
        return 0 if self.remote else own_memory_bytes(cell.os_pid)

    def _meter(self, cell: StartedCell, used_ms: int = 0) -> None:
        """Say what whoever has a cell to itself uses of the machine; ``used_ms``: in all, when that is known. Cells on
        other machines are not measured.
        """
        if self.remote or self._closed or cell.gone or not cell.os_pid:
            return
        occupants = self._table[cell.name]
        pid = next(iter(occupants.pids), 0) if occupants.isolation == "dedicated" else 0
        if address := cell.port.address_of(pid):
            more_ms = self._cpu.read(pid, address, used_ms or cpu_ms(cell.os_pid))
            self._say_soon(CellUsed(pid, address, more_ms, own_memory_bytes(cell.os_pid)))

    def _meter_last(self, pid: int, used_ms: int) -> None:
        """The same when it has left its cell, or that is gone, and has used so much in all, as far as is known."""
        if address := self._cpu.address_of(pid):
            more_ms = self._cpu.read(pid, address, used_ms)
            self._cpu.forget(pid)
            if not self._closed:
                self._say_soon(CellUsed(pid, address, more_ms, last=True))

    def _meter_dead(self, cell: StartedCell, pid: int) -> None:
        """The same of one whose cell is killed, or dead: what can be read by now, and what its engine says soon."""
        if address := self._cpu.address_of(pid):
            self._unmetered[cell.name] = pid
            more_ms = self._cpu.read(pid, address, cpu_ms(cell.os_pid))
            if more_ms and not self._closed:
                self._say_soon(CellUsed(pid, address, more_ms))
            asyncio.get_running_loop().call_later(self._limits.confirm_s, self._metered, cell.name, 0)

    def _metered(self, name: str, used_ms: int) -> None:
        self._meter_last(self._unmetered.pop(name, 0), used_ms)

    def place_of(self, pid: int) -> Place:
        """Where a process lives; nowhere when it has no cell."""
        cell = self._where.get(pid)
        return Place() if cell is None else Place(cell.name, cell.os_pid, self._table[cell.name].isolation)

    # Starting

    def _start_all(self, names: Names) -> None:
        for name in names:
            self._cells[name] = StartedCell(self, name, self._signals, self._limits)
        self._starts.add([self._cells[name] for name in names])

    def _say_soon(self, said: CellStartFailed | CellRefused | CellUsed) -> None:
        """Say something once whoever is at work here goes on."""
        asyncio.get_running_loop().call_soon(self._signals.say, said)

    def refused(self, cell: StartedCell, pid: int, why: str) -> None:
        """A process could not be handed to its cell."""
        self.released(cell, pid)
        self._say_soon(CellStartFailed(pid, why))

    def _check_waiting(self, pid: int, cell: StartedCell) -> None:
        if self._where.get(pid) is cell and cell.port.waits(pid):
            cell.port.stop(pid, "no cell")
            why = f"no cell within {self._limits.wait_s:g} s"
            self._signals.say(CellLost(cell.name, 0, [pid], why, died=False))

    def _never(self, cell: StartedCell, why: str) -> None:
        """A cell that could not be started is lost like any other: those that wait for it are not to blame."""
        if cell.gone or cell.connection is not None:
            return
        log.warning("cell %s failed to start: %s", cell.name, why)
        _, waiting = self._end(cell)
        if waiting:
            pids = [placement.pid for placement in waiting]
            why = f"cell {cell.name} failed to start: {why}"
            self._signals.say(CellLost(cell.name, 0, pids, why, died=False))

    def _admit(self, name: str, connection: CellConnection) -> None:
        """A connection has shown the cell's token."""
        cell = self._cells[name]
        cell.admit(connection)
        connection.link.hand_over(
            functools.partial(self._received, cell), functools.partial(self._link_closed, cell)
        )
        cell.send(["welcome", None if cell.slot.path is None else str(cell.slot.path)])
        cell.port.connect()
        self._meter(cell)
        self._starts.over(name)

    # Running

    def _received(self, cell: StartedCell, frame: Any) -> None:
        match frame:
            case ["pong"]:
                cell.pong()
            case ["beat", int() as number, int() as running] if cell.lease and isinstance(
                cell.slot, ToldSlot
            ):
                cell.lease.beat(number, asyncio.get_running_loop().time())
                cell.slot.pid = running
            case ["stack", int() as number, dict() as stacks]:
                self._stacks.answered(cell, number, stacks)
            case _:
                cell.port.receive(frame, 0 if cell.connection is None else cell.connection.link.cost_bytes)

    def released(self, cell: StartedCell, pid: int) -> None:
        """A process has left its cell for good."""
        self._meter_last(pid, cpu_ms(cell.os_pid) if self._cpu.address_of(pid) else 0)
        if self._where.get(pid) is cell:
            del self._where[pid]
        for name in self._table.release(cell.name, pid):
            self._end(self._cells[name])

    # Ending

    def _link_closed(self, cell: StartedCell, error: Exception | None) -> None:
        if cell.gone:
            return
        if isinstance(error, FrameError):
            log.warning("cell %s broke the rules and is killed: %s", cell.name, error)
            self.lose(cell, str(error), self._culprit(cell, error))
        else:
            self._engine.look()  # then nobody in it is to blame, and it is lost by now
            # A cell that had not read all when it ended resets its link: which of the two comes is chance.
            ended = error is None or isinstance(error, ConnectionResetError | BrokenPipeError)
            self.lose(cell, "end of file" if ended else str(error))

    def _culprit(self, cell: StartedCell, error: FrameError) -> int | None:
        """Who broke the rules: whoever the frame was of, else whoever runs, else the only one that is in a turn. None
        when that is not known.
        """
        if isinstance(error, TamperedLink):
            return 0
        seated, turns = self._table[cell.name].pids, cell.port.open_turns()
        for pid in (error.speaker, cell.running()):
            if pid in seated:
                return pid
        return turns[0] if len(turns) == 1 else None

    def _to_blame(self, cell: StartedCell, blame: Blame) -> int:
        """Whoever runs, where that counts, else the only one that is at work on its turn: a thread is in no slot. Not
        of a cell that may be on another machine: that may be gone.
        """
        if blame is Blame.NOBODY:
            return 0
        pid, at_work = cell.running(), cell.port.at_work()
        if self.remote or (blame is Blame.RUNNING and pid in self._table[cell.name].pids):
            return pid
        return at_work[0] if len(at_work) == 1 else 0

    def lose(
        self,
        cell: StartedCell,
        why: str,
        culprit: int | None = None,
        *,
        died: bool = True,
        blame: Blame = Blame.RUNNING,
        reason: str = CRASH,
    ) -> None:
        """The cell is dead, or must die: a new place for what waited, then one event for all that lived in it: what is
        stopped because of it is found where it is. ``culprit`` is to blame, 0 for nobody, when it is known, and exits
        for ``reason``; else the one that ``blame`` says, or the last suspect, and nobody when it has not ``died`` by
        itself.
        """
        if cell.gone or self._closed:
            return
        occupants = self._table[cell.name]
        with_its_machine = self.remote and culprit is None and reason != TIMEOUT  # as far as can be known
        if culprit is None:
            culprit = self._found(cell, occupants, self._to_blame(cell, blame)) if died else 0
        elif culprit:
            self._open_to_all(self._suspects.clear(occupants.half))
        address = cell.port.address_of(culprit)
        lost, waiting = self._end(cell)
        log.info("cell %s lost with %d processes, running %d: %s", cell.name, len(lost), culprit, why)
        shared = occupants.isolation == "shared"
        felled_by = (address, culprit) if address and shared and not with_its_machine else None
        running = culprit if culprit in lost else 0
        again = [placement.pid for placement in waiting if felled_by and placement.address == address]
        for placement in waiting:
            if placement.pid not in again:
                self.place(placement)
        if occupants.domain is not None and self._starts.engine_up:
            self._start_all(self._asked() if shared and lost else self._warmed())
        if lost or felled_by is not None:
            self._signals.say(CellLost(cell.name, running, lost, why, died, reason, felled_by))
        if again:  # where the successor of who is to blame goes is decided anew
            self._signals.say(CellLost(cell.name, 0, again, why, died=False))

    def _found(self, cell: StartedCell, occupants: CellOccupants, running: int) -> int:
        """Who has taken it down, 0 when that is not known: then its processes are suspects. Not on another machine,
        which may be gone, nor where all have taken cells down. ``running``: who is to blame as far as can be seen.
        """
        if cell.port.address_of(running):
            self._open_to_all(self._suspects.clear(occupants.half))
            return running
        if self.remote or occupants.isolation != "shared" or occupants.isolated:
            return 0
        pids = {address: pid for pid in sorted(occupants.pids) if (address := cell.port.address_of(pid))}
        now_s = asyncio.get_running_loop().time()
        found = self._suspects.lost(occupants.half, list(pids), now_s)
        self._open_to_all(found.cleared)
        return pids.get(found.culprit, 0)

    def _open_to_all(self, halves: Names) -> None:
        for half in halves:
            self._table.clear(half)

    def _end(self, cell: StartedCell) -> Lost:
        """Kill it and forget it."""
        cell.gone = True
        self._cells.pop(cell.name, None)
        self._acceptor.forget(cell.token)
        for pid in self._table[cell.name].pids:
            self._where.pop(pid, None)
            self._meter_dead(cell, pid)
        self._table.remove(cell.name)
        lost, waiting = cell.port.close()
        if cell.connection is not None:
            cell.connection.kill()
        self._engine.kill_cell(cell.name)
        cell.slot.remove()
        self._starts.over(cell.name)
        return lost, waiting

    def _engine_exit(self, name: str, why: str, used_ms: int) -> None:
        self._metered(name, used_ms)
        cell = self._cells.get(name)
        if cell is None or self._closed:
            return
        if cell.connection is None:
            self._never(cell, why)
        else:
            self._meter(cell, used_ms)
            cell.connection.hear_out()

    def _engine_lost(self, why: str) -> None:
        if self._closed or not self._starts.engine_up:
            return
        self._starts.down()
        for cell in list(self._cells.values()):
            if cell.connection is not None or self._starts.under_way(cell.name):
                self.lose(cell, f"engine lost: {why}", died=False)
        self._signals.say(EngineLost(why))
