"""Which process a step of the event loop belongs to.

Every coroutine of a behaviour, its main one and each task it creates, is wrapped in a
:class:`SteppedCoroutine`: the event loop steps the wrapper, which writes the PID into the cell's slot, steps
the behaviour, and writes 0. When the cell dies inside a step, the slot tells whose it was. Callbacks
(``loop.call_later``) and threads are not covered: for a cell that dies in one of them the only process that is in a
turn there, and waits for nothing from the node, is to blame; of several nobody is.

The tasks of a process are known (:class:`Steps`), so that they can be cancelled together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_CURRENT: ContextVar[Steps | None] = ContextVar("weftos_steps", default=None)


class Steps:
    """The running coroutines of one process. ``running`` is the slot: ``running[0]`` is the PID that runs."""

    def __init__(self, pid: int, running: memoryview) -> None:
        self.pid = pid
        self.running = running
        self.tasks: set[asyncio.Task[Any]] = set()
        self._idle: Callable[[], None] | None = None

    def run(self, call: Callable[[], T]) -> T:
        """A plain call as a step of this process."""
        context = copy_context()
        context.run(_CURRENT.set, self)
        self.running[0] = self.pid
        try:
            return context.run(call)
        finally:
            self.running[0] = 0

    def create_task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process. What it creates in turn belongs to the process as well."""
        context = copy_context()
        context.run(_CURRENT.set, self)
        return context.run(asyncio.get_running_loop().create_task, coroutine)

    def cancel(self) -> None:
        for task in tuple(self.tasks):
            task.cancel()

    def cancel_others(self) -> None:
        """All but the task that is running."""
        for task in self.tasks - {asyncio.current_task()}:
            task.cancel()

    def forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not self.tasks and self._idle is not None:
            self.when_idle(self._idle)

    def when_idle(self, call: Callable[[], None]) -> None:
        """Make ``call`` once, when no task is left."""
        self._idle = call if self.tasks else None
        if not self.tasks:
            call()


class SteppedCoroutine(Coroutine[Any, Any, Any]):
    """Delegates to a coroutine, with the slot set during each step.

    SystemExit and KeyboardInterrupt, which would end the whole event loop, become a RuntimeError of the task.
    """

    __slots__ = ("_coroutine", "_pid", "_running")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], steps: Steps) -> None:
        self._coroutine = coroutine
        self._pid = steps.pid
        self._running = steps.running

    def send(self, value: Any) -> Any:
        self._running[0] = self._pid
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"{type(error).__name__} raised in a task") from error
        finally:
            self._running[0] = 0

    def throw(self, *error: Any) -> Any:
        self._running[0] = self._pid
        try:
            return self._coroutine.throw(*error)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"{type(error).__name__} raised in a task") from error
        finally:
            self._running[0] = 0

    def close(self) -> None:
        self._coroutine.close()

    @property
    def stepped(self) -> Coroutine[Any, Any, Any]:
        """The coroutine itself."""
        return self._coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __repr__(self) -> str:
        return f"<step of {self._pid}: {self._coroutine!r}>"


def task_factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """The cell's task factory (``loop.set_task_factory``): a task created inside a process belongs to it."""
    steps = _CURRENT.get()
    if steps is None:
        return asyncio.Task(coroutine, loop=loop, **options)
    task = asyncio.Task(SteppedCoroutine(coroutine, steps), loop=loop, **options)
    steps.tasks.add(task)
    task.add_done_callback(steps.forget)
    return task
