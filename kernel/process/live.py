"""The processes that exist right now, and the supervisors of their children. Lost with the node, and rebuilt by it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from kernel.errors import StateError
from kernel.model.address import name_of
from kernel.model.address import parent as parent_of
from kernel.model.spec import ProcessSpec
from kernel.model.states import PROCESS_TABLE, ProcessEvent, ProcessState, advance
from kernel.policy.asker import Asker, channel_of
from kernel.process.asked import Asked
from kernel.process.turn_time import TurnTime
from kernel.slices.tree.exits import NEVER, Exit
from kernel.slices.turns import Turn
from kernel.supervision.reducer import Child, Phase, SlotState, Supervisor


@dataclass(slots=True)
class LiveProcess:
    """One incarnation. ``asked`` holds the ordinals its cell waits for, ``prepared`` those of them that have not been
    compared with the record yet, so that nothing recorded answers them; ``rights`` the tools of its open turn;
    ``draining``: told to end, first at ``draining_s`` of the tree's clock; ``config`` is the JSON of what the node's
    configuration told it; ``overdue`` goes off when its turn has taken too long; ``after`` is the end before it, as
    long as that is not on record; ``alone``: isolated, whatever its spec says. ``since_s``: since when it
    is, or was last, without a turn; ``calls_s``: when its cell first made each of the calls that it waits for;
    ``known``: how many calls its turn had on record when it took it up; ``ops``: of which kinds those are that
    it has made since; ``time``: what its turn has taken of its time.
    """

    pid: int
    address: str
    spec: ProcessSpec
    started_s: float
    state: ProcessState = ProcessState.STARTING
    turn: str = ""
    asked: set[str] = field(default_factory=set)
    prepared: set[str] = field(default_factory=set)
    rights: frozenset[str] = frozenset()
    draining: bool = False
    draining_s: float | None = None
    config: str = ""
    overdue: asyncio.TimerHandle | None = None
    after: Exit = NEVER
    alone: bool = False
    since_s: float = 0.0
    calls_s: dict[str, float] = field(default_factory=dict)
    known: int = 0
    ops: set[str] = field(default_factory=set)
    time: TurnTime = field(default_factory=TurnTime)

    def asker(self, turn: Turn) -> Asker:
        """This process as who asks something in its open turn."""
        mail = turn.mail
        return Asker(
            mail.sender,
            channel_of(mail.sender),
            self.address,
            turn.id,
            mail.trace,
            self.rights,
            identity=mail.identity,
        )

    def leave_turn(self) -> None:
        """It is in no turn any more."""
        self.turn = ""
        self.asked, self.prepared, self.calls_s = set(), set(), {}
        self.rest()

    def rest(self) -> None:
        """Its turn takes no time: it is over, or its end waits for the disk alone."""
        self.time.cancel()
        if self.overdue is not None:
            self.overdue.cancel()
            self.overdue = None

    def on(self, event: ProcessEvent) -> None:
        """Move along ``states.PROCESS_TABLE``. While it waits for a person its turn takes no time."""
        before, self.state = self.state, advance(PROCESS_TABLE, self.state, event)
        if self.turn and before is not self.state is ProcessState.SUSPENDED:
            self.time.hold()
        elif self.turn and before is ProcessState.SUSPENDED:
            self.time.go_on()


class LiveTable:
    """Live processes by PID and by address: one address has at most one. ``asked``: what their calls cost."""

    def __init__(self) -> None:
        self._by_pid: dict[int, LiveProcess] = {}
        self._by_address: dict[str, LiveProcess] = {}
        self.asked = Asked()

    def add(self, process: LiveProcess) -> None:
        """Raises StateError when its address or its PID is taken."""
        present = self._by_address.get(process.address) or self._by_pid.get(process.pid)
        if present is not None:
            raise StateError(
                f"PID {process.pid} would be a second process at {process.address}, where PID {present.pid} runs: "
                "a fault in weftos, please report it"
            )
        self._by_pid[process.pid] = process
        self._by_address[process.address] = process

    def remove(self, pid: int) -> LiveProcess | None:
        process = self._by_pid.pop(pid, None)
        if process is not None:
            del self._by_address[process.address]
        return process

    def get(self, pid: int) -> LiveProcess | None:
        return self._by_pid.get(pid)

    def at(self, address: str) -> LiveProcess | None:
        return self._by_address.get(address)

    def __len__(self) -> int:
        return len(self._by_pid)

    def all(self) -> list[LiveProcess]:
        return list(self._by_pid.values())


class Supervisors(dict[str, Supervisor]):
    """By the address whose children they have. Whoever changes one puts the new one in the place of the old."""

    def __init__(self, live: LiveTable) -> None:
        super().__init__()
        self._live = live

    def child(self, address: str) -> Child | None:
        """What the supervisor of ``address`` knows of it."""
        supervisor = self.get(parent_of(address))
        return supervisor.table.get(name_of(address)) if supervisor is not None else None

    def is_ending(self, address: str) -> bool:
        """Whether what runs at ``address`` was told to end, it or what is below it."""
        process, supervisor = self._live.at(address), self.get(address)
        closing = supervisor is not None and supervisor.closing is not None
        return closing or (process is not None and process.draining)

    def is_up(self, address: str) -> bool:
        """Whether something runs at ``address``, or is to: its start may wait for the next round of the loop."""
        child = self.child(address)
        return self._live.at(address) is not None or (child is not None and child.phase is not Phase.NONE)

    def awaits(self, address: str) -> bool:
        """Whether its supervisor is owed a process at ``address``, also one to stop again at once."""
        child = self.child(address)
        starting = child is not None and child.pid is None and child.phase in (Phase.STARTING, Phase.STOPPING)
        return starting and self._live.at(address) is None

    def comes_back(self, address: str) -> bool:
        """Whether the supervisor of ``address`` is about to start it."""
        child = self.child(address)
        return child is not None and child.phase in (Phase.STARTING, Phase.WAITING, Phase.QUEUED)

    def is_restarted(self, address: str) -> bool:
        """Whether what runs at ``address``, or is to, is stopped in order to be started again."""
        child = self.child(address)
        return child is not None and (child.phase, child.slot) == (Phase.STOPPING, SlotState.RESTARTING)
