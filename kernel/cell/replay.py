"""The check of replay: a turn that is over is gone through once more, against what it asked and what it was told.

A turn that is resumed after a crash is handled anew by another instance, which must ask the same things in the same
order: what is recorded answers it. So the check hands the message to a new instance too, and answers each syscall
as it was answered before. What is asked otherwise, left out, or returned otherwise shows a behaviour that depends on
more than its message, its configuration and its syscalls: the clock, chance, or what it has kept in memory.

Nothing of the second run reaches the node but where it differed. Nothing here is done unless the check is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from kernel.abi import Behaviour, Message
from kernel.cell.conversation import canonical_json
from kernel.cell.link.frames import FrameError
from kernel.cell.load import describe, in_one_line
from kernel.cell.steps import Steps
from kernel.cell.syscalls import CellSyscalls, Send

PATIENCE_S = 10.0
"""What a replay may take beyond twice the time in which the turn itself did not wait for an answer."""

SHOWN_CHARS = 400
THE_END = "end"
Ordinal = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay differed: the ordinal of the syscall, or :data:`THE_END`; what was asked at first, and then."""

    ordinal: str
    first: str
    then: str


@dataclass(slots=True)
class _Made:
    """A call of the first run. ``packed``: as it was when it was made; ``refused``: the link did not take it;
    ``outcome``: packed as it came, for what the behaviour was given may be changed by it.
    """

    op: str
    packed: bytes
    refused: str = ""
    outcome: bytes | None = None


class Recording:
    """What a turn asks and is told, while it is handled: it stands between the syscalls and the link. ``history``: what
    it begins with, kept as it is now.
    """

    def __init__(self, send: Send, history: list[dict[str, Any]]) -> None:
        self._send = send
        self._history = msgpack.packb(history)
        self._now_s = asyncio.get_running_loop().time
        self._changed_s = self._now_s()
        self._unanswered = 0
        self._own_s = 0.0
        self.made: dict[Ordinal, _Made] = {}

    @property
    def own_s(self) -> float:
        """How long the turn took while it waited for no answer."""
        self._pass()
        return self._own_s

    def history(self) -> list[dict[str, Any]]:
        """As it was."""
        history: list[dict[str, Any]] = _unpacked(self._history)
        return history

    def _pass(self) -> None:
        now_s = self._now_s()
        if not self._unanswered:
            self._own_s += now_s - self._changed_s
        self._changed_s = now_s

    def send(self, frame: list[Any]) -> None:
        """Raises FrameError."""
        try:
            self._send(frame)
        except FrameError as error:
            self._note(frame, str(error))
            raise
        self._note(frame, "")

    def _note(self, frame: list[Any], refused: str) -> None:
        if frame[0] == "call":
            _, _, _, round_, index, op, args = frame
            if (round_, index) in self.made:
                return
            self._pass()
            self._unanswered += not refused
            self.made[round_, index] = _Made(op, msgpack.packb(args), refused)

    def told(self, round_: int, index: int, outcome: Any) -> None:
        made = self.made.get((round_, index))
        if made is not None and made.outcome is None:
            self._pass()
            self._unanswered -= 1
            made.outcome = msgpack.packb(outcome)


class _Replay:
    """The node of a second run, as that sees it."""

    def __init__(self, recording: Recording) -> None:
        self.sys: CellSyscalls | None = None
        self.differs: asyncio.Future[Difference] = asyncio.get_running_loop().create_future()
        self._made = recording.made
        self._again: set[Ordinal] = set()

    def send(self, frame: list[Any]) -> None:
        """Raises FrameError where the link did at first."""
        if frame[0] != "call" or self.differs.done():
            return
        _, _, _, round_, index, op, args = frame
        made, packed = self._made.get((round_, index)), msgpack.packb(args)
        if made is None or (made.op, made.packed) != (op, packed):
            first = "nothing" if made is None else _shown(made.op, made.packed)
            self.differs.set_result(Difference(f"{round_}.{index}", first, _shown(op, packed)))
            return
        self._again.add((round_, index))
        if made.refused:
            raise FrameError(made.refused)
        if made.outcome is not None and self.sys is not None:
            asyncio.get_running_loop().call_soon(self.sys.resolve, round_, index, _unpacked(made.outcome))

    def left_out(self) -> Difference | None:
        """The first call that was not made again."""
        for ordinal, made in self._made.items():
            if ordinal not in self._again:
                return Difference(f"{ordinal[0]}.{ordinal[1]}", _shown(made.op, made.packed), "nothing")
        return None


async def check_replay(
    fresh: Callable[[], Behaviour],
    steps: Steps,
    syscalls: Callable[[Send], CellSyscalls],
    message: Message,
    recording: Recording,
    result: dict[str, Any],
    told: Callable[[Any], dict[str, Any]],
) -> Difference | None:
    """Where a second run of the turn differs from the first, of which ``recording`` is and which came to ``result``;
    None when it does not. ``told``: what a returned value is told as.
    """
    replay = _Replay(recording)
    replay.sys = syscalls(replay.send)
    try:
        task = steps.create_task(_handle(steps.run(fresh), message, replay.sys))
    except BaseException as error:  # foreign code: whatever it raises is what differed
        return Difference("0.0", "it was constructed", describe(error))
    try:
        limit_s = 2 * recording.own_s + PATIENCE_S
        either: set[asyncio.Future[Any]] = {task, replay.differs}
        await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if replay.differs.done():
            return replay.differs.result()
        if not task.done():
            return Difference(THE_END, "it ended", f"it did not end within {limit_s:.0f} s")
        return replay.left_out() or _ends(task, result, told)
    finally:
        replay.sys.end("the check is over")
        task.cancel()


async def _handle(behaviour: Behaviour, message: Message, syscalls: CellSyscalls) -> Any:
    """Whatever awaitable it is that the behaviour answers with."""
    return await behaviour.handle(message, syscalls)


def _ends(
    task: asyncio.Task[Any], result: dict[str, Any], told: Callable[[Any], dict[str, Any]]
) -> Difference | None:
    if task.cancelled():
        return Difference(THE_END, "it ended", "it was cancelled")
    error = task.exception()
    if error is not None:
        return Difference(THE_END, "it ended", describe(error))
    try:
        again = told(task.result())
    except Exception as unfit:  # what is returned is foreign too
        return Difference(THE_END, "it ended", describe(unfit))
    if _untimed(again) == _untimed(result):
        return None
    return Difference(THE_END, _text(result), _text(again))


def _untimed(result: dict[str, Any]) -> dict[str, Any]:
    """How long a step took is another time each time."""
    return {**result, "stages": [{**stage, "took_us": 0} for stage in result.get("stages", ())]}


def _shown(op: str, packed: bytes) -> str:
    return f"{op} {_text(_unpacked(packed))}"


def _unpacked(packed: bytes) -> Any:
    return msgpack.unpackb(packed, strict_map_key=False)


def _text(value: Any) -> str:
    try:
        return in_one_line(canonical_json(value))[:SHOWN_CHARS]
    except (TypeError, ValueError, RecursionError) as error:
        return describe(error)
