"""Processes that a dead helper has left behind, and all that a worker has started.

A node leads a session; its helpers, and what they start, are in it. A process of that session whose parents do not
lead back to the node is an orphan: it was started by something that is dead. So is one whose parents lead to it by a
child that it never started (:mod:`kernel.helper.offspring`). What a worker has started is known by a mark besides,
wherever it has gone. Found by session, parent, group and mark, signalled by pidfd, never by name.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import secrets
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

_DEAD = frozenset("ZXx")
_RLIMIT_LOCKS = 10  # setrlimit(2); Python has no name for it
END_S = 5.0
_LOOKS = 10
WORKER_VARIABLE = "WEFTOS_WORKER"
"""In the environment of a worker: which one it is."""
SESSION_VARIABLE = "WEFTOS_SESSION"
"""In the environment of a node, to be passed on to whatever it starts: which run on which directory it is."""
_SERIAL_BITS = 16
_SERIALS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One line of the operating system's process table. ``alive``: it acts. One whose first thread has ended is called
    a zombie, though its others go on.
    """

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
    alive = fields[0].decode() not in _DEAD or int(fields[17]) > 1
    return ProcessRow(pid, parent, session, alive, int(fields[19]), group)


def own_memory_bytes(pid: int) -> int:
    """Memory that a process has for itself, without what it shares with others; 0 when that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            _, resident, shared, *_ = file.read(128).split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def cpu_ms(pid: int) -> int:
    """Processor time that a process has used, with its children that have ended; 0 when that cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    ticks = sum(map(int, stat[stat.rindex(b")") + 2 :].split()[11:15]))
    return ticks * 1000 // os.sysconf("SC_CLK_TCK")


def environment_of(pid: int) -> list[bytes]:
    """What the process was started with; nothing when that is closed to this one, or it has ended. A thread that has
    ended tells nothing, and only the first one can be such.
    """
    with contextlib.suppress(OSError):
        threads = [str(pid), *os.listdir(f"/proc/{pid}/task")[-1:]]  # none when it ends just now
        for thread in threads:
            with contextlib.suppress(OSError):
                if told := Path(f"/proc/{pid}/task/{thread}/environ").read_bytes():
                    return told.split(b"\0")
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


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process and all that it starts can be known by, wherever that goes. ``word`` is in its environment, as
    ``variable``, which may be handed on or not. ``number`` is its soft limit of file locks, which Linux does not
    enforce since 2.4.25: each process has it of the one that started it, and a program that changes it is not known.
    Its last ``free_bits`` may be others.
    """

    variable: str
    word: str
    number: int
    free_bits: int = 0

    def put_on(self, pid: int) -> None:
        """Before it starts anything; 0 is this process. Where the system does not let us, its environment has to do."""
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, _RLIMIT_LOCKS, (self.number, resource.prlimit(pid, _RLIMIT_LOCKS)[1]))

    def is_on(self, pid: int) -> bool:
        """Whether that process bears it."""
        number, told = _soft_locks(pid), f"{self.variable}={self.word}".encode()
        numbered = number is not None and number >> self.free_bits == self.number >> self.free_bits
        return numbered or told in environment_of(pid)


def run_mark(word: str) -> Mark:
    """That of a whole run, and of each of its workers. The number follows from the word, so that whoever knows the run
    finds what is left of it when nobody lives who could tell.
    """
    number = int.from_bytes(sha256(word.encode()).digest()[:8], "big") >> 2 + _SERIAL_BITS << _SERIAL_BITS
    return Mark(SESSION_VARIABLE, word, number, _SERIAL_BITS)


def new_mark() -> Mark:
    """One of this run that nobody bears: a worker's."""
    run = run_mark(os.environ.get(SESSION_VARIABLE) or secrets.token_hex(16))
    serial = 1 + next(_SERIALS) % (2**_SERIAL_BITS - 1)
    return Mark(WORKER_VARIABLE, secrets.token_hex(16), run.number + serial)


def is_own_users(pid: int) -> bool:
    """Whether that process is of this one's user."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _soft_locks(pid: int) -> int | None:
    try:
        limits = Path(f"/proc/{pid}/limits").read_text()
    except OSError:
        return None
    words = limits.partition("Max file locks")[2].split()
    return int(words[0]) if words and words[0].isdigit() else None


def end_tree(root: ProcessRow, mark: Mark, timeout_s: float = END_S) -> None:
    """Kill all that ``root`` has started, wherever that has gone, then ``root`` itself, and wait until they are gone.
    What may not be signalled is left. Raises OSError; TimeoutError when something is still there by then.
    """
    deadline = time.monotonic() + timeout_s
    refused: set[int] = set()
    while found := stop_all(lambda: _started_by(root, mark), refused, deadline):
        refused |= kill_all(found, deadline)
        if time.monotonic() >= deadline:
            raise TimeoutError(
                f"{len(found)} processes are still there {timeout_s:g} s after they were killed"
            )
    present = read_process(root.pid)
    if present is not None and present.start_ticks == root.start_ticks:
        kill_all([root.pid], deadline)


def _started_by(root: ProcessRow, mark: Mark) -> set[int]:
    """What lives of it: below it, of its process group, or with its mark."""
    rows = read_processes()
    is_there = root.pid in rows and rows[root.pid].start_ticks == root.start_ticks
    return {
        row.pid
        for row in rows.values()
        if row.alive
        and row.pid not in (root.pid, os.getpid())
        and row.start_ticks >= root.start_ticks
        and ((is_there and descends(rows, row.pid, root.pid)) or row.group == root.pid or mark.is_on(row.pid))
    }


def stop_all(find: Callable[[], Iterable[int]], spared: Collection[int], deadline: float) -> set[int]:
    """Stop what ``find`` finds and is not ``spared``, and look again until there is nothing new, or the deadline
    (``time.monotonic``) is over. To be done before any of it is killed: else a script whose running step is killed
    first goes on with its next one. A look during which any process was born is not the last: what becomes a daemon
    forks and ends, twice, and then is in no listing that began before.
    """
    found: set[int] = set()
    for _ in range(_LOOKS):  # a stopped process forks nothing; one that forks and ends for ever is in no look
        there = _present()
        if not (fresh := set(find()).difference(found, spared)) and _present() <= there:
            break
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        found |= fresh
        if time.monotonic() >= deadline:
            break
    return found


def _present() -> set[str]:
    """The numbers of all processes that there are, dead ones included."""
    return {name for name in os.listdir("/proc") if name.isdigit()}


def kill_all(pids: Iterable[int], deadline: float) -> set[int]:
    """SIGKILL each and wait until they are dead or the deadline (``time.monotonic``) is over. The younger first: the
    end of a parent can have the system wake what is stopped (an orphaned process group, setpgid(2)).

    Returns those that this process may not signal: a program with rights of its own has made them another user's.
    """
    refused: set[int] = set()
    poll = select.poll()
    handles: set[int] = set()
    waiting: set[int] = set()
    try:
        for pid in sorted(pids, reverse=True):
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
