"""Cells: what thinks. Each process does what its message says, round by round, and again the same when it is resumed.

A question to a model has all that was remembered and asked before in the turn, and is told as cells tell it.

Who sits where follows :mod:`kernel.cells.health.suspects` and what the node says of each; a cell that dies may have
had nobody running, and who is to blame may have held it or have been dead to the node already.

They keep the rules of :class:`kernel.cells.cell_port.CellPort`: nothing is heard of a process that the node has ended,
of a turn that is closed, or of a cell that is lost. Beside that they bear witness: no address has two processes here,
no turn two, and none that has ended comes again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernel.abi import Message, TurnResult
from kernel.cell.conversation import Conversation
from kernel.cell.protocol import CallOutcome, ModelQuestion, read_arguments
from kernel.cells.cell_events import (
    CellAsked,
    CellCall,
    CellCrashed,
    CellLeft,
    CellLost,
    CellStarted,
    CellStartFailed,
    CellView,
    Place,
    Placement,
    TurnDone,
)
from kernel.cells.health.suspects import Suspects
from kernel.model.states import CELL_LOST, CRASH, NORMAL, TIMEOUT
from kernel.shapes import told
from kernel.signals import Signals
from kernel.slices.mailboxes import MESSAGE, PUBLICATION
from tests.simulation.plans import OF_TURN
from tests.simulation.world import World, plan_of

SEATS = 4
OF_A_DOWN: dict[str, Any] = {"name": "the end of another", "rounds": []}


@dataclass(eq=False)
class Hosted:
    """A process in a cell. ``waits`` for the outcomes of the round it is in."""

    placement: Placement
    cell: str
    running: bool = False
    turn: str = ""
    plan: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0
    round: int = 0
    waits: set[str] = field(default_factory=set)
    outcomes: dict[str, Any] = field(default_factory=dict)
    talk: list[Any] = field(default_factory=list)
    conversation: Conversation = field(default_factory=lambda: Conversation([]))
    whole: dict[str, CellCall] = field(default_factory=dict)
    wanted_whole: set[str] = field(default_factory=set)


class SimulatedCells:
    remote = False

    def __init__(self, signals: Signals, world: World) -> None:
        self._signals = signals
        self._world = world
        self.hosted: dict[int, Hosted] = {}
        self._cells = 0
        self._rooms: dict[str, str] = {}  # of each cell, who alone may be in it
        self._felled: set[str] = set()  # who has taken a cell down, and does so again
        self._suspects = Suspects(most=6, quiet_s=120.0)
        self._silent: set[str] = (
            set()
        )  # cells whose links lose what either side says, and which are lost for that
        self.ambush: Callable[[str], None] | None = None  # who is told of the address that asks next
        self._ended: set[str] = set()  # turns that are over, in this boot
        self.turns: dict[str, int] = {}  # deliveries of each

    # -- what the node asks ----------------------------------------------------------------------------------------

    def place(self, placement: Placement) -> None:
        for other in self.hosted.values():
            if other.placement.address == placement.address:
                self._world.broken(
                    f"{placement.address} has PID {other.placement.pid} in a cell, and PID {placement.pid} comes"
                )
        if placement.pid in self._world.placed:
            self._world.broken(f"PID {placement.pid} is given to {placement.address}, and was given before")
        self._world.placed.add(placement.pid)
        hosted = self.hosted[placement.pid] = Hosted(placement, self._seat(placement))
        if self._lost_to(hosted):
            return
        if self._world.chance.random() < 0.04:
            why = self._world.chance.choice(("no such behaviour", "timeout: not constructed in time"))
            self._later(hosted, lambda: self._fail(hosted, why))
        else:
            self._later(hosted, lambda: self._started(hosted))

    def configure(self, pid: int, config: dict[str, Any]) -> None:
        self._world.broken(f"PID {pid} is told another configuration, and there is only one")

    def deliver(
        self,
        pid: int,
        turn: str,
        message: Message,
        history: list[Any],
        tools: list[str],
        sizes: Sequence[int] = (),
    ) -> None:
        hosted = self.hosted[pid]
        if hosted.turn:
            self._world.broken(f"PID {pid} is handed {turn} in the middle of {hosted.turn}")
        if any(other.turn == turn for other in self.hosted.values()):
            self._world.broken(f"{turn} is handed to PID {pid} and in the hands of another")
        if turn in self._ended:
            self._world.broken(f"{turn} is handed to PID {pid}, and it has ended")
        if self._lost_to(hosted):
            return
        hosted.turn, hosted.plan = turn, _plan_of(message)
        hosted.round, hosted.waits, hosted.outcomes = 0, set(), {}
        hosted.talk, hosted.conversation = list(history), Conversation(history)
        hosted.whole, hosted.wanted_whole = {}, set()
        hosted.attempt = self.turns[turn] = self.turns.get(turn, 0) + 1
        self._next(hosted)

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: CallOutcome) -> None:
        hosted, ordinal = self.hosted.get(pid), f"{round_}.{index}"
        if hosted is None or hosted.turn != turn or self._lost_to(hosted):
            return
        if ordinal not in hosted.waits:
            self._world.broken(
                f"PID {pid} is told an outcome of {turn}:{ordinal}, for which it does not wait"
            )
            return
        hosted.waits.discard(ordinal)
        hosted.outcomes[ordinal] = told(outcome)
        if not hosted.waits:
            hosted.round += 1
            self._next(hosted)

    def say_whole(self, pid: int, turn: str, round_: int, index: int) -> None:
        hosted, ordinal = self.hosted.get(pid), f"{round_}.{index}"
        if hosted is None or hosted.turn != turn or ordinal not in hosted.waits - hosted.wanted_whole:
            return
        if self._lost_to(hosted):
            return
        hosted.wanted_whole.add(ordinal)

        def say() -> None:
            hosted.wanted_whole.discard(ordinal)
            if ordinal in hosted.waits:
                self._signals.say(CellAsked(pid, hosted.whole[ordinal]))

        self._later(hosted, say, turn)

    def end_turn(self, pid: int, turn: str, why: str) -> None:
        hosted = self.hosted.get(pid)
        if "diverged" in why:
            self._world.broken(f"{turn} of PID {pid} {why}, and it asks what it asked")
        self._ended.add(turn)
        if hosted is not None and hosted.turn == turn:
            hosted.turn = ""

    def stop(self, pid: int, why: str) -> None:
        self.hosted.pop(pid, None)

    def place_of(self, pid: int) -> Place:
        return Place(self.hosted[pid].cell) if pid in self.hosted else Place()

    def list(self) -> list[CellView]:
        return []

    async def close(self) -> None:
        self.hosted.clear()

    # -- what they do ----------------------------------------------------------------------------------------------

    def _seat(self, placement: Placement) -> str:
        """In the newest cell of those it may share it with, when that has room, or in a new one."""
        self._open_to_all(self._suspects.quiet(asyncio.get_running_loop().time()))
        half = self._suspects.half(placement.address)
        room = f"PID {placement.pid}" if placement.isolation != "shared" else half
        if placement.isolation != "shared":
            self._world.saw("isolated")
        newest = next((cell for cell in reversed(self._rooms) if self._rooms[cell] == room), "")
        if not newest or sum(one.cell == newest for one in self.hosted.values()) >= SEATS:
            self._cells += 1
            newest = f"c{self._cells}"
            self._rooms[newest] = room
        return newest

    def _open_to_all(self, halves: Sequence[str]) -> None:
        for cell, room in self._rooms.items():
            if room in halves:
                self._rooms[cell] = ""

    def _lost_to(self, hosted: Hosted) -> bool:
        """Whether what the node says to it is lost."""
        if hosted.cell in self._silent:
            self._world.saw("silent-to-cell")
        return hosted.cell in self._silent

    def _later(self, hosted: Hosted, call: Callable[[], None], turn: str = "") -> None:
        """After a while, unless it has ended by then, it or the turn."""
        pid = hosted.placement.pid

        def due() -> None:
            if self.hosted.get(pid) is not hosted or hosted.turn != turn:
                return
            if hosted.cell in self._silent:
                self._world.saw("silent-from-cell")
            else:
                call()

        asyncio.get_running_loop().call_later(self._world.delay_s(), due)

    def _started(self, hosted: Hosted) -> None:
        hosted.running = True
        self._signals.say(CellStarted((hosted.placement.pid,), hosted.cell))

    def _fail(self, hosted: Hosted, why: str) -> None:
        self._world.cause(hosted.placement.pid, CRASH)
        del self.hosted[hosted.placement.pid]
        self._signals.say(CellStartFailed(hosted.placement.pid, why))

    def _next(self, hosted: Hosted) -> None:
        rounds = hosted.plan["rounds"]
        step = self._done if hosted.round == len(rounds) else self._ask
        self._later(hosted, lambda: step(hosted), hosted.turn)

    def _ask(self, hosted: Hosted) -> None:
        calls = hosted.plan["rounds"][hosted.round]
        if calls[0]["op"] == "raise":
            if hosted.attempt <= calls[0]["times"]:
                self.crash(hosted)
                return
            hosted.round += 1
            self._next(hosted)
            return
        turn, round_ = hosted.turn, hosted.round
        hosted.waits = {f"{round_}.{index}" for index in range(len(calls))}
        for index, call in enumerate(calls):
            if hosted.turn != turn or self.hosted.get(hosted.placement.pid) is not hosted:
                return  # something that came of the last call has ended it
            args = call.get("args", {})
            if call["op"] in ("demonitor", "unlink"):
                args = {**args, "ref": _first_ref(hosted.outcomes)}
            if args.get("name") == "file_write":
                args = {**args, "arguments": args["arguments"].replace(OF_TURN, turn)}
            asked = CellCall(turn, round_, index, call["op"], read_arguments(call["op"], args))
            self._signals.say(CellAsked(hosted.placement.pid, self._told(hosted, asked)))
        ambush, self.ambush = self.ambush, None
        if ambush is not None:
            ambush(hosted.placement.address)
        last = round_ + 1 == len(hosted.plan["rounds"])
        if (
            last
            and hosted.plan.get("hasty")
            and self.hosted.get(hosted.placement.pid) is hosted
            and hosted.turn == turn
            and hosted.waits
        ):
            self._done(hosted)  # it waits for nothing

    def _told(self, hosted: Hosted, call: CellCall) -> CellCall:
        """A call as its cell says it."""
        if not isinstance(call.args, ModelQuestion):
            return call
        hosted.talk += call.args.messages
        whole = replace(call.args, messages=tuple(hosted.talk))
        hosted.whole[f"{call.round}.{call.index}"] = replace(call, args=whole)
        said, terms = hosted.conversation.told(list(hosted.talk))
        return replace(call, args=replace(whole, messages=tuple(said), terms=terms))

    def _done(self, hosted: Hosted) -> None:
        outcomes = json.dumps([hosted.plan["name"], hosted.outcomes], sort_keys=True)
        reply = hashlib.sha256(outcomes.encode()).hexdigest()[:16]
        turn, hosted.turn = hosted.turn, ""
        self._ended.add(turn)
        remember = [{"said": reply}] if hosted.plan.get("remember") else []
        self._signals.say(TurnDone(hosted.placement.pid, turn, TurnResult(reply, tuple(remember))))

    def reachable(self) -> Sequence[Hosted]:
        """The processes that run, and can say so."""
        return [one for one in self.hosted.values() if one.running and one.cell not in self._silent]

    # -- what befalls them -----------------------------------------------------------------------------------------

    def crash(self, hosted: Hosted) -> None:
        """Its behaviour raises."""
        self._world.cause(hosted.placement.pid, CRASH)
        del self.hosted[hosted.placement.pid]
        self._signals.say(CellCrashed(hosted.placement.pid, hosted.turn or None, "it raised"))

    def leave(self, hosted: Hosted) -> None:
        """Its behaviour ends it."""
        self._world.cause(hosted.placement.pid, NORMAL)
        del self.hosted[hosted.placement.pid]
        self._signals.say(CellLeft(hosted.placement.pid, NORMAL))

    def lose(self, cell: str) -> None:
        """A cell dies, with all in it; maybe somebody was running."""
        lost = [one for one in self.hosted.values() if one.cell == cell]
        running = [one.placement.pid for one in lost if one.turn]
        room = self._rooms.pop(cell, "")
        again = [pid for pid in running if self.hosted[pid].placement.address in self._felled]
        culprit = self._world.chance.choice(again or [0, *running]) or self._suspect(room, lost)
        reason = TIMEOUT if culprit % 3 == 0 else CRASH
        felled_by = None
        for one in lost:
            pid, placement = one.placement.pid, one.placement
            self._world.cause(pid, reason if pid == culprit else CELL_LOST)
            del self.hosted[pid]
            if pid == culprit and placement.isolation == "shared":
                felled_by = (placement.address, pid)
                self._felled.add(placement.address)
        pids = [one.placement.pid for one in lost]
        self._silent.discard(cell)
        self._signals.say(CellLost(cell, culprit, pids, "end of file", True, reason, felled_by))

    def _suspect(self, room: str, lost: Sequence[Hosted]) -> int:
        """The PID of the last suspect, 0 while there are others."""
        pids = {one.placement.address: one.placement.pid for one in lost}
        shared = [one.placement.address for one in lost if one.placement.isolation == "shared"]
        found = self._suspects.lost(room, shared, asyncio.get_running_loop().time())
        self._open_to_all(found.cleared)
        if found.culprit:
            self._world.saw("suspect-found")
        return pids.get(found.culprit, 0)

    def silence(self, cell: str, for_s: float) -> None:
        """The link of a cell loses whatever either side says, and after a while the cell is given up for lost."""
        if cell not in self._silent:
            self._silent.add(cell)
            asyncio.get_running_loop().call_later(for_s, self.lose, cell)


def _plan_of(message: Message) -> dict[str, Any]:
    """What it is asked to do; nothing by the end of another, which may have been sent again as a message."""
    plan = plan_of(message.text) if message.kind in (MESSAGE, PUBLICATION) else {}
    return plan if "rounds" in plan else OF_A_DOWN


def _first_ref(outcomes: dict[str, Any]) -> str:
    """The first monitor or link that was set in this turn, the same when it is resumed."""
    return next((outcome["ref"] for _, outcome in sorted(outcomes.items()) if outcome.get("ref")), "none")
