"""The operating system's processes: who belongs to a run, who is still alive, how much memory they hold.

Written apart from the node's own code for the same, which is under test here. Zombies do not count as alive,
unless it is their first thread alone that has ended.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class OsProcess:
    """One line of /proc/PID/stat (proc(5)); ``command`` is its argv in one line."""

    pid: int
    parent: int
    session: int
    command: str


def living() -> dict[int, OsProcess]:
    """Every process that is alive."""
    found = {}
    for name in os.listdir("/proc"):
        with suppress(ValueError, FileNotFoundError, ProcessLookupError):
            pid = int(name)
            stat = Path(f"/proc/{pid}/stat").read_text()
            fields = stat[stat.rindex(")") + 2 :].split()
            if fields[0] not in _DEAD or int(fields[17]) > 1:
                command = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                found[pid] = OsProcess(pid, int(fields[1]), int(fields[3]), command.strip())
    return found


def below(root: int, processes: dict[int, OsProcess]) -> list[OsProcess]:
    """The living descendants of ``root``."""
    found: list[OsProcess] = []
    parents = {root}
    while children := [p for p in processes.values() if p.parent in parents and p not in found]:
        found += children
        parents = {child.pid for child in children}
    return found


def pss_bytes(pid: int) -> int:
    """Proportional set size: what a process holds alone, and its share of what it holds with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss line")


def kill(pid: int) -> None:
    """SIGKILL by pidfd, so that it meets this process and no successor of its pid."""
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


class Run:
    """All processes of one run of the node: its session and its descendants, held by pidfd."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self._held: dict[int, tuple[int, str]] = {}

    def hold(self) -> None:
        """Take hold of every process that belongs to the run just now."""
        processes = living()
        mine = [p for p in processes.values() if p.session == self.leader] + below(self.leader, processes)
        for process in mine:
            if process.pid not in self._held:
                with suppress(ProcessLookupError):
                    self._held[process.pid] = (os.pidfd_open(process.pid), process.command)

    def left(self) -> list[str]:
        """What is still alive: of those held, and of the session."""
        poll = select.poll()
        for handle, _ in self._held.values():
            poll.register(handle, select.POLLIN)
        ended = {handle for handle, _ in poll.poll(0)}
        left = {pid: command for pid, (handle, command) in self._held.items() if handle not in ended}
        left |= {p.pid: p.command for p in living().values() if p.session == self.leader}
        return [f"{pid} {command[:100]}" for pid, command in sorted(left.items())]

    def close(self) -> None:
        for handle, _ in self._held.values():
            os.close(handle)
        self._held.clear()
