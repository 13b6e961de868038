"""Processes that a dead helper has left behind.

A node leads a session; its helpers, and what they start, are in it. A process of that session whose parents do not
lead back to the node is an orphan: it was started by something that is dead. So is one whose parents lead to it by a
child that it never started (:mod:`kernel.helper.offspring`). Found by session and parent, signalled by pidfd, never by
name.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One line of the operating system's process table."""

    pid: int
    parent: int
    session: int
    alive: bool
    start_ticks: int = 0
    group: int = 0


def read_processes() -> dict[int, ProcessRow]:
    """All processes of this machine, from /proc/PID/stat (proc(5))."""
    rows = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def read_process(pid: int) -> ProcessRow | None:
    """One of them; None when there is none. The command in the file may hold anything and ends at the last ``)``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (
        FileNotFoundError,
        ProcessLookupError,
        PermissionError,
    ):  # the last: /proc is mounted with hidepid
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    parent, group, session = map(int, fields[1:4])
    return ProcessRow(pid, parent, session, fields[0].decode() not in _DEAD, int(fields[19]), group)


def environment_of(pid: int) -> list[bytes]:
    """What the process was started with; nothing when that is closed to this one."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def descends(rows: Mapping[int, ProcessRow], pid: int, root: int) -> bool:
    """Whether ``pid`` is ``root`` or a descendant of it."""
    seen: set[int] = set()
    while pid in rows and pid not in seen and pid != root:
        seen.add(pid)
        pid = rows[pid].parent
    return pid == root


def descendants(rows: Mapping[int, ProcessRow], root: int) -> list[int]:
    """The living processes below ``root``."""
    return [pid for pid, row in rows.items() if row.alive and pid != root and descends(rows, pid, root)]


def orphans(rows: Mapping[int, ProcessRow], node: int, own: Collection[int] | None = None) -> list[int]:
    """The orphans of a node that leads a session of its own; none when it leads none.

    ``own``: the children that it has started itself; None for all that it has.
    """
    if node not in rows or rows[node].session != node:
        return []
    loose = [pid for pid, row in rows.items() if row.parent == node and own is not None and pid not in own]
    return [
        pid
        for pid, row in rows.items()
        if row.alive
        and pid != node
        and (
            (row.session == node and not descends(rows, pid, node))
            or any(descends(rows, pid, root) for root in loose)
        )
    ]


def started_by(rows: Mapping[int, ProcessRow], root: ProcessRow, mark: bytes) -> set[int]:
    """The living processes that ``root`` has started: what is below it, what is of its process group, and what has
    ``mark`` in its environment, which is handed on: also what left its session and has lost its parent.
    """
    is_there = root.pid in rows and rows[root.pid].start_ticks == root.start_ticks
    return {
        row.pid
        for row in rows.values()
        if row.alive
        and row.pid not in (root.pid, os.getpid())
        and row.start_ticks >= root.start_ticks
        and (
            (is_there and descends(rows, row.pid, root.pid))
            or row.group == root.pid
            or mark in environment_of(row.pid)
        )
    }


def kill_all(pids: Iterable[int], deadline: float) -> set[int]:
    """SIGKILL each and wait until they are dead or the deadline (``time.monotonic``) is over.

    Returns those that this process may not signal: a program with rights of its own has made them another user's.
    """
    refused: set[int] = set()
    poll = select.poll()
    handles: set[int] = set()
    waiting: set[int] = set()
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                handles.add(handle)
                try:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                except PermissionError:
                    refused.add(pid)
                else:
                    poll.register(handle, select.POLLIN)
                    waiting.add(handle)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for handle, _ in poll.poll(left_s * 1000):
                poll.unregister(handle)
                waiting.discard(handle)
        return refused
    finally:
        for handle in handles:
            os.close(handle)
