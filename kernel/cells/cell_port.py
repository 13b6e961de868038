"""What one cell may say, and when: the trust boundary between the node and a cell.

The rules:

1. A cell speaks for the processes that were handed to it, and for no other.
2. It makes syscalls for the turn that is open for the process, with rising ordinals; it answers a turn once. One that
   the node wants whole comes once more, and whole.
3. A process that the node has declared dead is not heard any more; the cell has ``confirm_s`` to say that it
   is gone.
4. A turn that the node has ended is not heard any more either; not unwound within ``confirm_s``, its process
   has crashed. It may be handed out again meanwhile: a cell takes up a delivery when it has answered those before,
   so what it says in that turn is said in the oldest it has not answered.
5. Whoever breaks 2, or has a frame of the wrong shape sent in its name, has crashed: that process alone, and it is to
   blame. Its neighbours go on.
6. A frame that breaks 1, or is in the name of no process here, is a lie of the cell: :class:`FrameError`, the link is
   closed and the cell killed. So is one whose process fails 3, which is to blame.
7. Who is to confirm something has the time of a neighbour that computes besides, up to half as much again as
   one may: while that one holds the cell's loop nothing can be heard, and one that holds it all the time is found out
   before. Nor is one judged whose cell has not answered since, for then it may not have heard of it.

Code in a cell can send frames in the name of its neighbours there: a cell is one domain of trust.

While a process of the cell has yet to confirm its death, new ones wait here and are not sent: if the cell
must be killed for it, they go elsewhere unharmed. Clock, link and slot are the host's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kernel.abi import MOST_STAGES, Message, TurnResult
from kernel.cell.link.frames import VALUE_BYTES, FrameError
from kernel.cell.protocol import STARTED_TOGETHER, CallOutcome, StartOrder, read_arguments
from kernel.cells.cell_events import (
    CellAsked,
    CellCall,
    CellCrashed,
    CellLeft,
    CellLogged,
    CellStarted,
    CellStartFailed,
    Placement,
    TurnDiffers,
    TurnDone,
)
from kernel.cells.cell_table import CellLimits
from kernel.errors import Invalid, StateError
from kernel.helper.log_budget import LogBudget
from kernel.shapes import ShapeError, read, told
from kernel.signals import Signals
from mesh.bounded import Unbounded, count_values, unpack

WHOLE_VALUES = 16 * 16_384
"""Of all messages of a question that is said whole: it was told in many frames, and may have what these may have."""


class CellHost(Protocol):
    """What a port needs of its surroundings."""

    def send(self, frame: list[Any]) -> None: ...

    def kill(self, why: str, culprit: int) -> None:
        """End the cell, for which that process is to blame; ``CellPort.close`` follows."""

    def now_s(self) -> float: ...

    def later(self, delay_s: float, call: Callable[..., None], *args: Any) -> None: ...

    def running(self) -> int:
        """The PID in the cell's slot."""

    def ask(self) -> None:
        """See whether the cell is there."""

    def is_silent(self) -> bool:
        """Whether it has not answered that yet."""

    def released(self, pid: int) -> None:
        """The process has left the cell for good."""

    def refused(self, pid: int, why: str) -> None:
        """The process cannot be handed over: it has left for good, and failed to start."""


@dataclass(slots=True)
class Hosted:
    """A process in the cell. ``waiting``: its start has not been sent. ``last``: the newest ordinal of the turn.
    ``delivered``: how many turns were handed to it; ``differed``: the replay of the newest has. ``ending``: by that
    number, those that the node has ended and the cell has not answered.
    """

    placement: Placement
    state: Literal["waiting", "starting", "running", "stopping"] = "waiting"
    turn: str | None = None
    last: tuple[int, int] = (-1, -1)
    open_calls: set[tuple[int, int]] = field(default_factory=set)
    wanted_whole: set[tuple[int, int]] = field(default_factory=set)
    delivered: int = 0
    differed: bool = False
    ending: dict[int, str] = field(default_factory=dict)

    def unwinds(self, turn: str) -> bool:
        """Whether a delivery of the turn has been ended and not been answered."""
        return turn in self.ending.values()

    def unwound(self, turn: str) -> None:
        """The oldest of those has been answered."""
        del self.ending[next(number for number, ended in self.ending.items() if ended == turn)]


class CellPort:
    """One cell as the node sees it."""

    def __init__(self, cell: str, signals: Signals, limits: CellLimits, host: CellHost) -> None:
        self.cell = cell
        self._signals = signals
        self._limits = limits
        self._host = host
        self._hosted: dict[int, Hosted] = {}
        self._waiting: dict[int, Hosted] = {}
        self._stopping: set[int] = set()
        # What is starting and when it is late; some have started since.
        self._starting: deque[tuple[float, Hosted]] = deque()
        self._watches = False
        self._connected = False
        self._budget = LogBudget(host.now_s)

    # What the node wants

    def connect(self) -> None:
        """The cell is there: hand over what waits."""
        self._connected = True
        self._start_waiting()

    def add(self, placement: Placement) -> None:
        hosted = self._hosted[placement.pid] = Hosted(placement)
        if self._connected and not self._stopping:
            self._start(hosted)
            self._watch_starts()
        else:
            self._waiting[placement.pid] = hosted

    def waits(self, pid: int) -> bool:
        return pid in self._waiting

    def configure(self, pid: int, config: dict[str, Any]) -> None:
        """What the behaviour of a process is told from its next turn on. Raises Invalid when it is too large."""
        if pid in self._hosted:
            try:
                self._host.send(["configure", pid, config])
            except FrameError as error:
                raise Invalid(f"pid {pid} cannot be told its configuration: {error}") from error

    def deliver(
        self,
        pid: int,
        turn: str,
        message: Message,
        history: list[dict[str, Any]],
        tools: list[str],
        sizes: Sequence[int] = (),
    ) -> None:
        """Open a turn. Raises StateError when the process cannot take one, Invalid when it is too large to be
        sent.
        """
        hosted = self._hosted.get(pid)
        if hosted is None or hosted.state != "running" or hosted.turn is not None:
            raise StateError(f"turn {turn} delivered to pid {pid}, which is {self._describe(hosted)}")
        try:
            self._host.send(["turn", pid, turn, told(message), history, tools, list(sizes)])
        except FrameError as error:
            raise Invalid(f"turn {turn} cannot be handed to pid {pid}: {error}") from error
        hosted.turn = turn
        hosted.delivered += 1
        hosted.differed = False
        hosted.last = (-1, -1)

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: CallOutcome) -> None:
        """Answer a syscall; dropped when the turn is over or the call was answered before."""
        hosted = self._hosted.get(pid)
        if hosted is not None and hosted.turn == turn and (round_, index) in hosted.open_calls:
            self._host.send(["result", pid, turn, round_, index, told(outcome)])
            hosted.open_calls.discard((round_, index))

    def say_whole(self, pid: int, turn: str, round_: int, index: int) -> None:
        """Have an open syscall made once more, whole; dropped when it is not open any more, or on its way."""
        hosted, ordinal = self._hosted.get(pid), (round_, index)
        if hosted is None or hosted.turn != turn or ordinal not in hosted.open_calls - hosted.wanted_whole:
            return
        self._host.send(["whole", pid, turn, round_, index])
        hosted.wanted_whole.add(ordinal)

    def end_turn(self, pid: int, turn: str, why: str) -> None:
        """Close a turn from the node's side; ignored when it is not the open one."""
        hosted = self._hosted.get(pid)
        if hosted is None or hosted.state != "running" or hosted.turn != turn:
            return
        self._close_turn(hosted)
        hosted.ending[hosted.delivered] = turn
        self._host.send(["end", pid, turn, why])
        self._confirm(self._check_ended, hosted, hosted.delivered)

    def stop(self, pid: int, why: str) -> None:
        """Declare a process dead."""
        hosted = self._hosted.get(pid)
        if hosted is None or hosted.state == "stopping":
            return
        if hosted.state == "waiting":
            del self._hosted[pid], self._waiting[pid]
            self._host.released(pid)
            return
        self._host.send(["stop", pid, why])
        self._await_end(hosted)

    def close(self) -> tuple[list[int], list[Placement]]:
        """The cell is gone: the processes that are lost with it, and those that had not been handed over."""
        lost = [pid for pid, hosted in self._hosted.items() if hosted.state in ("starting", "running")]
        waiting = [hosted.placement for hosted in self._waiting.values()]
        self._hosted.clear()
        self._waiting.clear()
        self._stopping.clear()
        return lost, waiting

    # What the cell says

    def receive(self, frame: Any, cost_bytes: int = 0) -> None:
        """One frame from the cell, which costs ``cost_bytes`` while held. Raises :class:`FrameError` for a lie."""
        match frame:
            case ["started", *pids] if {*map(type, pids)} == {int}:
                self._started(pids)  # it is of many, and finds out itself who is to blame
                return
        try:
            self._receive(frame, cost_bytes)
        except FrameError as error:
            hosted = self._speaker(frame)
            if hosted is None:
                raise
            self._condemn(hosted, str(error))

    def _speaker(self, frame: Any) -> Hosted | None:
        """The process of this cell in whose name a frame was sent."""
        match frame:
            case [str(), int() as pid, *_] if type(pid) is int:
                hosted = self._hosted.get(pid)
                return None if hosted is None or hosted.state == "waiting" else hosted
        return None

    def _condemn(self, hosted: Hosted, why: str) -> None:
        """End a process that broke a rule, it alone; one that is dead already has its second to go."""
        pid, was, open_turn = hosted.placement.pid, hosted.state, hosted.turn
        if was == "stopping":
            return
        self.stop(pid, "it broke the rules of the link")
        why = self._line(f"broke the rules of the link: {why}")
        if was == "starting":
            self._signals.say(CellStartFailed(pid, why))
        else:
            self._signals.say(CellCrashed(pid, open_turn, why))

    def address_of(self, pid: int) -> str:
        """Of a process that was handed over, also of one that is dead to the node and may still run; else empty."""
        hosted = self._hosted.get(pid)
        return "" if hosted is None or hosted.state == "waiting" else hosted.placement.address

    def is_starting(self, pid: int) -> bool:
        """Whether it is being constructed, or is to be."""
        hosted = self._hosted.get(pid)
        return hosted is not None and hosted.state == "starting"

    def open_turns(self) -> list[int]:
        """The processes that are in a turn."""
        return [pid for pid, hosted in self._hosted.items() if hosted.turn is not None]

    def at_work(self) -> list[int]:
        """Those of them that wait for nothing from the node, and those that have yet to confirm their death."""
        return [*(pid for pid in self.open_turns() if not self._hosted[pid].open_calls), *self._stopping]

    def _receive(self, frame: Any, cost_bytes: int) -> None:
        if isinstance(frame, list) and bool in map(type, frame):
            raise FrameError(f"cell {self.cell} sent yes or no in place of a number")
        match frame:
            case [
                "call",
                int() as pid,
                str() as turn,
                int() as round_,
                int() as index,
                str() as op,
                dict() as args,
            ]:
                self._call(pid, turn, (round_, index), op, args, cost_bytes)
            case [
                "differs",
                int() as pid,
                str() as turn,
                str() as ordinal,
                str() as first,
                str() as then,
            ]:
                self._differs(pid, turn, ordinal, first, then)
            case ["done", int() as pid, str() as turn, dict() as result]:
                self._done(pid, turn, result)
            case ["failed", int() as pid, str() as why]:
                if (hosted := self._heard(pid, "starting")) is not None:
                    self._await_end(hosted)
                    self._signals.say(CellStartFailed(pid, self._line(why)))
            case ["ended", int() as pid, str() as turn]:
                self._ended(pid, turn)
            case ["crashed", int() as pid, str() as turn, str() as why]:
                self._crashed(pid, turn, why)
            case ["exited", int() as pid, str() as turn, "normal", ""]:
                self._left(pid, turn, "normal", "")
            case ["exited", int() as pid, str() as turn, "no_progress" | "refused" as reason, str() as why]:
                self._left(pid, turn, reason, why)
            case ["stopped", int() as pid]:
                self._stopped(pid)
            case ["log", int() as pid, str() as text]:
                if self._heard(pid, "running", "starting") is not None:
                    kept = self._budget.admit(text[: self._limits.log_chars])
                    if kept is not None:
                        self._signals.say(CellLogged(pid, kept))
            case _:
                raise FrameError(f"cell {self.cell} sent a frame of no known shape")

    def _started(self, pids: list[int]) -> None:
        if len(pids) > STARTED_TOGETHER:
            raise FrameError(
                f"cell {self.cell} reported {len(pids)} starts in one frame, limit {STARTED_TOGETHER}"
            )
        running = tuple(pid for pid in pids if self._runs(pid))
        if running:
            self._signals.say(CellStarted(running, self.cell))

    def _runs(self, pid: int) -> bool:
        """Whether a start that is reported is one that is waited for, and not dead to the node since. A process that it
        is not is to blame for that, and none of those that are reported with it.
        """
        try:
            hosted = self._heard(pid, "starting")
        except FrameError as error:
            liar = self._speaker(["started", pid])
            if liar is None:
                raise
            self._condemn(liar, str(error))
            return False
        if hosted is not None:
            hosted.state = "running"
        return hosted is not None

    def _call(
        self, pid: int, turn: str, ordinal: tuple[int, int], op: str, args: dict[str, Any], cost_bytes: int
    ) -> None:
        hosted = self._heard(pid, "running")
        if hosted is None or hosted.unwinds(turn):
            return
        self._check_turn(hosted, turn)
        if ordinal in hosted.wanted_whole and args.get("terms") is None:
            args, more_bytes = _unpacked(args)
            call = _read_call(turn, ordinal, op, args, cost_bytes + more_bytes)
            hosted.wanted_whole.discard(ordinal)
            if ordinal in hosted.open_calls:
                self._signals.say(CellAsked(pid, call))
            return
        if ordinal <= hosted.last or min(ordinal) < 0:
            raise FrameError(f"cell {self.cell} numbered a call of pid {pid} {ordinal} after {hosted.last}")
        if len(hosted.open_calls) >= self._limits.open_calls:
            raise FrameError(
                f"cell {self.cell} has {len(hosted.open_calls)} calls open for pid {pid}, the limit"
            )
        call = _read_call(turn, ordinal, op, args, cost_bytes)
        hosted.last = ordinal
        hosted.open_calls.add(ordinal)
        self._signals.say(CellAsked(pid, call))

    def _differs(self, pid: int, turn: str, ordinal: str, first: str, then: str) -> None:
        hosted = self._heard(pid, "running")
        if hosted is None or hosted.unwinds(turn):
            return
        self._check_turn(hosted, turn)
        if not hosted.placement.check_replay or hosted.differed:
            raise FrameError(f"cell {self.cell} told of a replay of pid {pid} that nobody asked for")
        hosted.differed = True
        self._signals.say(TurnDiffers(pid, turn, *map(self._line, (ordinal, first, then))))

    def _done(self, pid: int, turn: str, result: dict[str, Any]) -> None:
        hosted = self._heard(pid, "running")
        if hosted is None:
            return
        if hosted.unwinds(turn):
            hosted.unwound(turn)
            return
        self._check_turn(hosted, turn)
        returned = _read_result(result)
        self._close_turn(hosted)
        self._signals.say(TurnDone(pid, turn, returned))

    def _ended(self, pid: int, turn: str) -> None:
        hosted = self._heard(pid, "running")
        if hosted is None:
            return
        if not hosted.unwinds(turn):
            raise FrameError(f"cell {self.cell} unwound turn {turn} of pid {pid}, which was not ended")
        hosted.unwound(turn)

    def _crashed(self, pid: int, turn: str, why: str) -> None:
        hosted = self._over(pid, turn)
        if hosted is not None:
            open_turn, beside = hosted.turn, hosted.unwinds(turn)
            self._await_end(hosted)
            self._signals.say(CellCrashed(pid, open_turn, self._line(why), beside))

    def _left(self, pid: int, turn: str, reason: str, why: str) -> None:
        hosted = self._over(pid, turn)
        if hosted is not None:
            beside = hosted.unwinds(turn)
            self._await_end(hosted)
            self._signals.say(CellLeft(pid, reason, self._line(why), beside))

    def _over(self, pid: int, turn: str) -> Hosted | None:
        """The process that says it is over in that turn, if it is heard."""
        hosted = self._heard(pid, "running")
        if hosted is not None and not hosted.unwinds(turn):
            self._check_turn(hosted, turn)
        return hosted

    def _stopped(self, pid: int) -> None:
        self._expect(pid, "stopping")
        del self._hosted[pid]
        self._stopping.discard(pid)
        self._host.released(pid)
        self._start_waiting()

    # Rules

    def _heard(self, pid: int, *states: str) -> Hosted | None:
        """The process if it may be heard, None when it is dead to the node; raises for any other."""
        hosted = self._hosted.get(pid)
        if hosted is not None and hosted.state == "stopping":
            return None
        return self._expect(pid, *states)

    def _expect(self, pid: int, *states: str) -> Hosted:
        hosted = self._hosted.get(pid)
        if hosted is None or hosted.state not in states:
            raise FrameError(f"cell {self.cell} spoke for pid {pid}, which is {self._describe(hosted)}")
        return hosted

    def _check_turn(self, hosted: Hosted, turn: str) -> None:
        if turn != hosted.turn:
            raise FrameError(
                f"cell {self.cell} spoke in turn {turn[:80]!r} of pid {hosted.placement.pid}, open is {hosted.turn!r}"
            )

    def _describe(self, hosted: Hosted | None) -> str:
        if hosted is None:
            return f"not in cell {self.cell}"
        return f"{hosted.state}, in turn {hosted.turn}" if hosted.turn else hosted.state

    def _line(self, text: str) -> str:
        text = text[: self._limits.detail_chars]
        return "".join(char if char.isprintable() else " " for char in text)

    @staticmethod
    def _close_turn(hosted: Hosted) -> None:
        hosted.turn = None
        hosted.open_calls.clear()
        hosted.wanted_whole.clear()

    def _start_waiting(self) -> None:
        if not self._connected or self._stopping:
            return
        waiting, self._waiting = self._waiting, {}
        for hosted in waiting.values():
            self._start(hosted)
        self._watch_starts()

    def _start(self, hosted: Hosted) -> None:
        """Hand it over."""
        placement = hosted.placement
        try:
            self._host.send(["start", placement.pid, told(start_order(placement))])
        except FrameError as error:
            del self._hosted[placement.pid]
            self._host.refused(placement.pid, f"its configuration is too large: {error}")
            return
        hosted.state = "starting"
        self._starting.append((self._host.now_s() + self._limits.start_s, hosted))

    def _watch_starts(self) -> None:
        """One timer for all of them: hundreds are handed over at a time, and hardly one is late."""
        if self._starting and not self._watches:
            self._watches = True
            due_s = self._starting[0][0]
            self._host.later(max(0.0, due_s - self._host.now_s()), self._check_starts)

    def _check_starts(self) -> None:
        self._watches = False
        now_s = self._host.now_s()
        while self._starting and (self._starting[0][0] <= now_s or self._starting[0][1].state != "starting"):
            self._check_started(self._starting.popleft()[1])
        self._watch_starts()

    def _check_started(self, hosted: Hosted) -> None:
        pid = hosted.placement.pid
        if hosted.state != "starting" or self._hosted.get(pid) is not hosted:
            return
        if self._is_held_from(pid):  # who holds it is the one to be judged
            self._host.later(self._limits.confirm_s, self._check_started, hosted)
            return
        self.stop(pid, "start timeout")
        self._signals.say(CellStartFailed(pid, f"timeout: not constructed within {self._limits.start_s:g} s"))

    def _is_held_from(self, pid: int) -> bool:
        """Whether the cell cannot run it just now: another one computes, or none does and the cell does not answer."""
        running = self._host.running()
        return running not in (0, pid) or (not running and self._host.is_silent())

    def _confirm(self, check: Callable[..., None], hosted: Hosted, *args: Any) -> None:
        """Make ``check`` when the process had its time to confirm."""
        self._host.ask()
        latest_s = self._host.now_s() + 1.5 * self._limits.hold_s

        def due() -> None:
            if self._is_held_from(hosted.placement.pid) and self._host.now_s() < latest_s:
                self._host.later(self._limits.confirm_s, due)
            else:
                check(hosted, *args)

        self._host.later(self._limits.confirm_s, due)

    def _check_ended(self, hosted: Hosted, delivery: int) -> None:
        turn = hosted.ending.get(delivery)
        if turn is not None and hosted.state == "running":
            pid, open_turn = hosted.placement.pid, hosted.turn
            self.stop(pid, "turn not unwound")
            why = f"turn {turn} went on for {self._limits.confirm_s:g} s after it had been ended"
            self._signals.say(CellCrashed(pid, open_turn, why, beside=True))

    def _await_end(self, hosted: Hosted) -> None:
        pid = hosted.placement.pid
        hosted.state = "stopping"
        self._close_turn(hosted)
        self._stopping.add(pid)
        self._confirm(self._check_stopped, hosted)

    def _check_stopped(self, hosted: Hosted) -> None:
        pid = hosted.placement.pid
        if self._hosted.get(pid) is hosted:
            self._host.kill(f"pid {pid} still ran {self._limits.confirm_s:g} s after its death", pid)


def start_order(placement: Placement) -> StartOrder:
    """What a cell is told of a process."""
    return StartOrder(
        placement.address,
        placement.name,
        placement.behaviour,
        placement.import_string,
        placement.python_path,
        placement.config,
        placement.last_exit,
        placement.check_replay,
    )


def _read_call(
    turn: str, ordinal: tuple[int, int], op: str, args: dict[str, Any], cost_bytes: int
) -> CellCall:
    """Raises :class:`FrameError`."""
    try:
        return CellCall(turn, *ordinal, op, read_arguments(op, args), cost_bytes)
    except ShapeError as error:
        raise FrameError(str(error)) from None


def _unpacked(args: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The arguments of a question that is said whole, of which each message comes packed: its values are counted here,
    before one is built; and what they cost. Raises :class:`FrameError`.
    """
    packed = args.get("messages", [])
    if not isinstance(packed, list) or not all(isinstance(message, bytes) for message in packed):
        raise FrameError("a question that is said whole must have its messages packed")
    values = 0
    try:
        for message in packed:
            values += count_values(message, WHOLE_VALUES - values)
        messages = [unpack(message, None, any_keys=True) for message in packed]
    except Unbounded as error:
        raise FrameError(f"a question that is said whole, limit {WHOLE_VALUES} values: {error}") from None
    return {**args, "messages": messages}, VALUE_BYTES * values


def _read_result(result: dict[str, Any]) -> TurnResult:
    """Raises :class:`FrameError`."""
    try:
        returned = read(TurnResult, result)
    except ShapeError as error:
        raise FrameError(f"turn result of the wrong shape: {error}") from None
    if len(returned.stages) > MOST_STAGES:
        raise FrameError(f"turn result of {len(returned.stages)} stages, limit {MOST_STAGES}")
    return returned
