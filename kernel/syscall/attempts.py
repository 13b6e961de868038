"""Attempts at tool calls that are under way. Lost with the node; then the open intents say what may have been done.

An attempt is **begun** when it is handed to whoever carries it out. Until then it can be **withdrawn**, and has surely
not been made; from then on only an answer tells what became of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class Attempt:
    """One attempt. ``withdrawn`` says why it will not be made, empty: it will. ``over``: it is known what came of it,
    and that is being recorded. ``task`` carries it out, from its first step on: one that is withdrawn before that takes
    the step and says so itself. ``take_back``: instead of a task, whoever it was left to; ``end_it(why)``: and how that
    is ended once it was begun. ``pid``: the incarnation that asked for it; 0 for one that waits for an answer.
    ``begun_s``: when it was handed over, on the loop's clock.
    """

    begun: bool = False
    over: bool = False
    withdrawn: str = ""
    task: asyncio.Task[None] | None = None
    take_back: Callable[[], None] | None = None
    end_it: Callable[[str], None] | None = None
    timer: asyncio.TimerHandle | None = None
    pid: int = 0
    begun_s: float = 0.0

    def begin(self) -> None:
        """It is handed over."""
        self.begun, self.begun_s = True, asyncio.get_running_loop().time()

    def withdraw(self, why: str) -> bool:
        """See that it is not made. False when it may have been made already, or another outcome is being recorded."""
        if self.begun or (self.over and not self.withdrawn):
            return False
        if not self.withdrawn:
            self.withdrawn = why
            if self.take_back is not None:
                self.take_back()
            elif self.task is not None:
                self.task.cancel()
        return True

    def stop(self, why: str) -> None:
        """Nobody wants it any more: end whoever carries it out. What becomes of it is heard as ever."""
        if self.end_it is not None and self.begun and not self.over:
            self.end_it(why)


class Attempts:
    """At most one attempt at each call."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, turn: str, ordinal: str) -> Attempt | None:
        return self._running.get((turn, ordinal))

    def under_way(self, turn: str, ordinal: str) -> bool:
        """Whether an attempt at that call is, handed over or not."""
        return self.get(turn, ordinal) is not None

    def begin(self, turn: str, ordinal: str, pid: int, *, begun: bool = False) -> Attempt:
        """An attempt that is under way from now on."""
        attempt = self._running[turn, ordinal] = Attempt(pid=pid)
        if begun:
            attempt.begin()
        return attempt

    def run(
        self,
        turn: str,
        ordinal: str,
        pid: int,
        work: Callable[[Attempt], Coroutine[Any, Any, None]],
        *,
        begun: bool = False,
    ) -> None:
        """Carry out an attempt, in a task of its own."""
        self.go_on(turn, ordinal, self.begin(turn, ordinal, pid, begun=begun), work)

    def go_on(
        self, turn: str, ordinal: str, attempt: Attempt, work: Callable[[Attempt], Coroutine[Any, Any, None]]
    ) -> None:
        """Carry it on, in a task, from where others have left it."""
        attempt.task = attempt.take_back = attempt.end_it = None

        async def guarded() -> None:
            attempt.task = asyncio.current_task()
            own = attempt.task
            try:
                await work(attempt)
            finally:
                if attempt.task is own and attempt.take_back is None:  # nobody goes on with it
                    self.end(turn, ordinal, attempt)

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, turn: str, ordinal: str, attempt: Attempt) -> None:
        """It is known what came of it, and recorded."""
        attempt.task = attempt.take_back = attempt.end_it = None
        if self.get(turn, ordinal) is attempt:  # else the next attempt is under way already
            del self._running[turn, ordinal]

    def wait(self, turn: str, ordinal: str, delay_s: float, late: Callable[[], None]) -> None:
        """An attempt that waits for an answer from elsewhere: ``late`` is called when it has not come in time."""
        timer = asyncio.get_running_loop().call_later(delay_s, late)
        self._running[turn, ordinal] = Attempt(begun=True, timer=timer)

    def stop_waiting(self, turn: str, ordinal: str) -> None:
        """The answer has come, or nobody wants it."""
        attempt = self.get(turn, ordinal)
        if attempt is not None and attempt.timer is not None:
            attempt.timer.cancel()
            self.end(turn, ordinal, attempt)

    def release(self, turn: str, ordinal: str) -> None:
        """The attempt is over for whoever asks, though its task has still to end."""
        self._running.pop((turn, ordinal), None)

    def not_begun(self) -> list[tuple[str, str, Attempt]]:
        """The attempts that have not been handed over, with the turn and the ordinal of their calls."""
        return [(*key, attempt) for key, attempt in self._running.items() if not attempt.begun]

    async def close(self) -> None:
        """Stop waiting, and end the tasks."""
        for attempt in self._running.values():
            if attempt.timer is not None:
                attempt.timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
