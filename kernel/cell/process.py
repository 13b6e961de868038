"""One process inside a cell: an instance of its behaviour, and a task for the turn it is in.

Every turn that the node delivers is answered by exactly one frame: ``done``, ``ended`` (the node had ended
it), ``crashed``, or ``exited`` (it leaves by itself: normally by SystemExit, for a logical reason by
LogicalExit). A process that is over, by the last two or because the node stopped it, has all its tasks
cancelled; when none is left it says ``stopped``, and is never heard of again. One whose tasks survive that
never says so, and the node kills the cell.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from kernel.abi import (
    MOST_STAGES,
    Behaviour,
    LogicalExit,
    LogicalReason,
    Message,
    StageReport,
    TurnEnded,
    TurnResult,
)
from kernel.cell.link.frames import FrameError
from kernel.cell.load import describe, in_one_line, trace
from kernel.cell.protocol import Stacks
from kernel.cell.replay import Recording, check_replay
from kernel.cell.stacks import stacks_of
from kernel.cell.steps import Steps
from kernel.cell.syscalls import CellSyscalls, Send
from kernel.shapes import told

UNWIND_S = 0.25
REASONS = get_args(LogicalReason)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A turn as it came from the node. ``make`` makes the instance that handles it and those after it, where that is
    told something else than the one before it; None: that one goes on. ``sizes``: tokens of the tools.
    """

    turn: str
    message: Message
    history: list[dict[str, Any]]
    tools: list[str]
    make: Callable[[], Behaviour] | None = None
    sizes: tuple[int, ...] = ()


class CellProcess:
    """``gone(pid)`` is called when the process is over, after its last frame was sent. ``fresh`` makes a new
    instance, by which each turn is checked once it has ended (:mod:`kernel.cell.replay`); None: none is.
    """

    def __init__(
        self,
        behaviour: Behaviour,
        steps: Steps,
        send: Send,
        gone: Callable[[int], None],
        fresh: Callable[[], Behaviour] | None = None,
    ) -> None:
        self.pid = steps.pid
        self._behaviour = behaviour
        self._steps = steps
        self._send = send
        self._gone = gone
        self._fresh = fresh
        self._recording: Recording | None = None
        self._queue: deque[Delivery] = deque()
        self._turn: str | None = None
        self._sys: CellSyscalls | None = None
        self._ended = False
        self._stopping = False

    def deliver(self, delivery: Delivery) -> None:
        """Handle a message, once the turn before it has been unwound."""
        if not self._stopping:
            self._queue.append(delivery)
            self._next()

    def resolve(self, turn: str, round_: int, index: int, outcome: Any) -> None:
        if turn == self._turn and self._sys is not None:
            if self._recording is not None:
                self._recording.told(round_, index, outcome)
            self._sys.resolve(round_, index, outcome)

    def say_whole(self, turn: str, round_: int, index: int) -> None:
        if turn == self._turn and self._sys is not None:
            self._sys.say_whole(round_, index)

    def end(self, turn: str, why: str) -> None:
        """The node closed this turn: TurnEnded at the call that waits; without one, or without effect,
        cancellation. One that still unwinds may have been handed out again, and then that delivery is meant.
        """
        if turn == self._turn and self._sys is not None and not self._ended:
            self._ended = True
            if self._sys.end(why):
                asyncio.get_running_loop().call_later(UNWIND_S, self._cancel_turn, self._sys)
            else:
                self._steps.cancel()
            return
        for delivery in [queued for queued in self._queue if queued.turn == turn]:
            self._queue.remove(delivery)
            self._send(["ended", self.pid, turn])

    def stacks(self) -> Stacks:
        """Where its tasks stand."""
        found = stacks_of(self._steps.tasks)
        return Stacks(tuple(found), len(self._steps.tasks) - len(found))

    def stop(self) -> None:
        """Cancel everything; ``stopped`` is sent when all of it has come to its end, if it does."""
        if self._stopping:
            return
        self._stopping = True
        self._queue.clear()
        if self._sys is not None:
            self._sys.end("the process is stopped")
        self._steps.cancel()
        self._steps.when_idle(self._confirm)

    def _confirm(self) -> None:
        self._send(["stopped", self.pid])
        self._gone(self.pid)

    def _cancel_turn(self, sys: CellSyscalls) -> None:
        if sys is self._sys:
            self._steps.cancel()

    def _next(self) -> None:
        if self._turn is None and self._queue:
            delivery = self._queue.popleft()
            self._turn = delivery.turn
            self._recording = None if self._fresh is None else Recording(self._send, delivery.history)
            send = self._send if self._recording is None else self._recording.send
            self._sys = self._syscalls(delivery, delivery.history, send)
            self._steps.create_task(self._handle(delivery, self._sys)).add_done_callback(self._settled)

    def _syscalls(self, delivery: Delivery, history: list[dict[str, Any]], send: Send) -> CellSyscalls:
        return CellSyscalls(self.pid, delivery.turn, history, delivery.tools, send, delivery.sizes)

    async def _check(self, delivery: Delivery, result: dict[str, Any]) -> None:
        """Go through the turn once more, if that is wanted, and tell where it differs. What the turn left running comes
        no further than it would have without that.
        """
        if self._fresh is None or self._recording is None:
            return
        await asyncio.sleep(0)
        if self._sys is not None:
            self._sys.end("the turn is over")
        self._steps.cancel_others()
        syscalls = functools.partial(self._syscalls, delivery, self._recording.history())
        found = await check_replay(
            self._fresh,
            self._steps,
            syscalls,
            delivery.message,
            self._recording,
            result,
            _result,
        )
        if found is not None:
            self._send(["differs", self.pid, delivery.turn, found.ordinal, found.first, found.then])

    async def _handle(self, delivery: Delivery, sys: CellSyscalls) -> bool:
        """Handle a turn, and answer it in its own last step: so who waits for that is told a round of the loop sooner.
        Whether the process goes on.
        """
        try:
            if delivery.make is not None:
                self._behaviour = delivery.make()
                self._fresh = None if self._fresh is None else delivery.make
            result = _result(await self._behaviour.handle(delivery.message, sys))
            await self._check(delivery, result)
            frame = ["done", self.pid, delivery.turn, result]
        except BaseException as error:  # the boundary: what a behaviour raises is its own death only
            frame = self._raised(delivery.turn, error)
        return not self._stopping and self._answer(frame)

    def _raised(self, turn: str, error: BaseException) -> list[Any]:
        """The frame that answers a turn which ended so."""
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return ["exited", self.pid, turn, "normal", ""]
        if isinstance(error, LogicalExit):
            return self._left(turn, error)
        if isinstance(error, (TurnEnded, asyncio.CancelledError)) and self._ended:
            return ["ended", self.pid, turn]
        if not (self._stopping or isinstance(error, SystemExit)):
            self._send(["log", self.pid, trace(error)])
        return ["crashed", self.pid, turn, describe(error)]

    def _left(self, turn: str, end: LogicalExit) -> list[Any]:
        try:
            if end.reason not in REASONS:
                raise ValueError(f"reason is {end.reason!r}, must be one of {', '.join(REASONS)}")
            return ["exited", self.pid, turn, end.reason, in_one_line(end.detail)]
        except Exception as error:  # a class of its own, with fields of its own
            return ["crashed", self.pid, turn, describe(error)]

    def _settled(self, task: asyncio.Task[bool]) -> None:
        """The turn's task is over: cancel what it left running, and go on with the next turn."""
        if self._stopping:
            return
        if task.cancelled():  # before its first step
            goes_on = self._answer(["ended" if self._ended else "crashed", self.pid, self._turn, "cancelled"])
        else:
            goes_on = task.result()
        self._turn = None
        if goes_on:
            self._steps.cancel()
            self._next()
        else:
            self.stop()

    def _answer(self, frame: list[Any]) -> bool:
        """Say how the turn ended, and have nothing that it left running make a call behind that. Whether the process
        goes on.
        """
        if self._sys is not None:
            self._sys.end("the turn is over")
        ended, self._sys, self._ended = self._ended, None, False
        if ended and frame[0] == "done":
            frame[0] = "ended"
        try:
            self._send(frame[:3] if frame[0] == "ended" else frame)
        except (FrameError, TypeError, ValueError, OverflowError) as error:
            frame = ["crashed", self.pid, frame[2], f"its result cannot be sent: {describe(error)}"]
            self._send(frame)
        return frame[0] in ("done", "ended")


def _result(returned: Any) -> dict[str, Any]:
    """What ``handle`` returned, checked here so that one bad behaviour does not cost its neighbours the cell."""
    if returned is None:
        returned = ""
    if isinstance(returned, str):
        returned = TurnResult(returned)
    if not isinstance(returned, TurnResult):
        raise TypeError(f"handle() returned {type(returned).__name__}, expected TurnResult, str or None")
    if not isinstance(returned.reply, str):
        raise TypeError(f"TurnResult.reply is {type(returned.reply).__name__}, expected str")
    if returned.status not in ("ok", "error"):
        raise ValueError(f"TurnResult.status is {returned.status!r}, expected 'ok' or 'error'")
    if not all(isinstance(record, dict) for record in returned.remember):
        raise TypeError("TurnResult.remember holds something that is not a dict")
    if not all(isinstance(stage, StageReport) for stage in returned.stages):
        raise TypeError("TurnResult.stages holds something that is no StageReport")
    stages = tuple(
        replace(stage, stage=in_one_line(stage.stage), why=in_one_line(stage.why))
        for stage in returned.stages
    )
    return told(TurnResult(returned.reply, tuple(returned.remember), returned.status, stages[:MOST_STAGES]))
