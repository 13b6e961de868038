"""What this process has started, and what falls to it: processes that a cell, a tool or Ray cut loose.

A process can leave its session and outlive its parent; it is then the child of the nearest *subreaper* above
(``PR_SET_CHILD_SUBREAPER``, prctl(2)). A node is one, so nothing that was started below it gets away from it: at its
end it kills whatever is still below. What it started itself it knows, since ``Offspring`` is told of each birth; every
other child was cut loose by something that has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from kernel.helper.os_processes import (
    END_S,
    SESSION_VARIABLE,
    Mark,
    ProcessRow,
    descendants,
    descends,
    is_own_users,
    kill_all,
    orphans,
    read_process,
    read_processes,
    run_mark,
    stop_all,
)

_PR_SET_CHILD_SUBREAPER = 36
_REAP_S = 5.0
_PAUSE_S = 0.01
_HUNT_S = 0.05


def become_subreaper() -> None:
    """From now on what is cut loose below this process becomes its child. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this process cannot become a subreaper: {os.strerror(number)}")
    OFFSPRING.adopts = True


class Offspring:
    """The children that this process has started itself. For any thread.

    ``adopts``: there may be others, since it is a subreaper.
    """

    def __init__(self) -> None:
        self.adopts = False
        self._lock = threading.Lock()
        self._being_born = 0
        self._births = 0
        self._own: dict[int, int] = {}

    @contextlib.contextmanager
    def birth(self) -> Iterator[Callable[[int], None]]:
        """Around the start of a child, which is to be told its pid: in between it is not mistaken for an orphan."""
        with self._lock:
            self._being_born += 1
            self._births += 1
        try:
            yield self._register
        finally:
            with self._lock:
                self._being_born -= 1

    def _register(self, pid: int) -> None:
        row = read_process(pid)
        with self._lock:
            self._own[pid] = row.start_ticks if row else -1

    def orphans(self) -> list[int] | None:
        """What is below this process, or of its session, and was not started by it or by what it started.

        None while that cannot be told, because a child is just being born.
        """
        with self._lock:
            births = self._births
            if self._being_born:
                return None
        rows = read_processes()
        with self._lock:
            if births != self._births:
                return None
            self._own = {pid: ticks for pid, ticks in self._own.items() if _is(rows, pid, ticks)}
            return orphans(rows, os.getpid(), self._own.keys() if self.adopts else None)

    def strangers(self, spared: Collection[Mark] = ()) -> dict[int, int] | None:
        """:meth:`orphans`, and what bears the mark of this process's session elsewhere, each with the clock ticks of
        its start; without what bears a mark that is ``spared``. None while that cannot be told.
        """
        found, word = self.orphans(), os.environ.get(SESSION_VARIABLE)
        if found is None:
            return None
        if not word or os.getsid(0) != os.getpid():
            return {}
        rows, mark = read_processes(), run_mark(word)
        marked = {
            pid
            for pid in rows
            if not descends(rows, pid, os.getpid()) and is_own_users(pid) and mark.is_on(pid)
        }
        return {
            pid: rows[pid].start_ticks
            for pid in sorted(marked | set(found))
            if pid in rows and rows[pid].alive and not any(one.is_on(pid) for one in spared)
        }


OFFSPRING = Offspring()
"""Of the operating system's process that this is: there is one, as there is one ``os.environ``."""


def end_orphans(timeout_s: float = END_S) -> int:
    """Kill this process's orphans until none is left or the time is over; returns how many were killed."""
    deadline = time.monotonic() + timeout_s
    killed: set[int] = set()
    refused: set[int] = set()
    while time.monotonic() < deadline:
        if (found := OFFSPRING.orphans()) is None:
            time.sleep(_PAUSE_S)
            continue
        if not set(found) - refused:
            break
        todo = stop_all(lambda: OFFSPRING.orphans() or (), refused, deadline)
        refused |= kill_all(todo, deadline)
        killed |= todo - refused
    return len(killed)


def end_offspring(timeout_s: float = END_S) -> int:
    """At this process's end: kill everything below it, and wait until it is gone. Returns how many were killed.

    What may not be signalled, having become another user's, is left.
    """
    deadline = time.monotonic() + timeout_s
    killed: set[int] = set()
    refused: set[int] = set()
    while _reap() and time.monotonic() < deadline:
        todo = stop_all(lambda: descendants(read_processes(), os.getpid()), refused, deadline)
        refused |= kill_all(todo, deadline)
        killed |= todo - refused
        killed |= _hunt(refused, min(deadline, time.monotonic() + _HUNT_S))
        if refused and refused.issuperset(_children()):
            break
    return len(killed)


def _hunt(spared: set[int], deadline: float) -> set[int]:
    """Kill children as they come. Returns the killed.

    One that forks and exits without a pause is in no listing of all processes by the time it is to be killed; but each
    that it forks falls to this process.
    """
    killed: set[int] = set()
    while _reap() and time.monotonic() < deadline and (found := set(_children()) - spared):
        for pid in found:  # a child that nobody has waited for keeps its number
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except PermissionError:
                spared.add(pid)
    return killed


def _reap() -> bool:
    """Wait for those children that are dead; whether there are others. No listing tells that as surely: what forks fast
    enough is in none."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_strangers(
    found: Mapping[int, int], spared: Collection[Mark] = (), timeout_s: float = END_S
) -> set[int]:
    """Kill those of ``found`` (by :meth:`Offspring.strangers`) that are strangers still. Returns the killed."""
    deadline = time.monotonic() + timeout_s
    still = OFFSPRING.strangers(spared) or {}
    todo = stop_all(lambda: [pid for pid, ticks in found.items() if still.get(pid) == ticks], (), deadline)
    return todo - kill_all(todo, deadline)


async def reap_adopted(every_s: float = _REAP_S) -> None:
    """For ever: take note of the end of children that nobody here started. One that was dead the last time already has
    nobody else who waits for it."""
    dead: dict[int, int] = {}
    while True:
        with contextlib.suppress(OSError):  # no descriptor to look with: the next look finds them
            found = dict(_dead_children())
            for pid in (pid for pid, ticks in found.items() if dead.get(pid) == ticks):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            dead = found
        await asyncio.sleep(every_s)


def _dead_children() -> Iterator[tuple[int, int]]:
    for pid in _children():
        row = read_process(pid)
        if row is not None and not row.alive:
            yield pid, row.start_ticks


def _children() -> Iterator[int]:
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            yield from map(int, file.read().split())


def _is(rows: dict[int, ProcessRow], pid: int, ticks: int) -> bool:
    return pid in rows and rows[pid].start_ticks == ticks
