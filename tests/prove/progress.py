"""How far a proof is: a bar on a terminal, elsewhere a line now and then, so that no reader of a log wonders."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 10.0

T = TypeVar("T")


class Steps:
    """``total`` steps of ``what``, None when nobody knows. A context manager; :meth:`reach` says how many are done."""

    def __init__(self, console: Console, what: str, total: int | None) -> None:
        self._console = console
        self._what = what
        self._total = total
        self._started = self._said = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Steps:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def reach(self, done: int, what: str = "") -> None:
        """``done`` steps are done now; ``what`` says of what, when that is not what was said at the start."""
        self._what = what or self._what
        self._bar.update(self._task, completed=done, description=self._what)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._said >= LINE_EVERY_S:
            self._said = now
            of = "" if self._total is None else f" of {self._total:,}"
            self._console.print(
                f"  {self._what}: {done:,}{of}, {now - self._started:.0f} s", highlight=False, markup=False
            )


def follow(console: Console, what: str, total: int, steps: Iterable[T]) -> Iterator[T]:
    """``steps`` one by one, each counted when the next is asked for."""
    with Steps(console, what, total) as bar:
        for done, step in enumerate(steps, 1):
            yield step
            bar.reach(done)
