"""Who owns a data directory, and what of its last run still lives.

The node and its helpers run in a session of their own (setsid); ``boot.json`` names its leader, so that the
next run can end all of it, found by session and signalled by pidfd, never by name. A pid is not given out
again while a process has it as its session, so as long as anything of the old session lives, its leader's
pid is either still the leader's or nobody's. Hence: a leader's pid with another start time belongs to
somebody else, and so do processes of that session that are older than the leader, of another user, or of
another boot of the machine.

The record also says which directory it was written in. A copy of a data directory, made while its node ran or after a
crash, holds that node's record, and must not end that node.

The record is a file, so whoever can write there could name any session. Hence it only says where to look, and the
processes show whose they are, by what no file can give to another one: the leader holds a POSIX lock in this directory
(fcntl(2) tells who does), and what it starts has the session's mark from its birth, and hands it on: a word in its
environment, and a number, made of that word, as its limit of file locks (:class:`kernel.helper.os_processes.Mark`).
A session is its leader's to its last member, so one that shows it speaks for all. What does not show it is not ended,
and nothing is started beside it.

    lock(data_dir, runs=False) -> DataLock           LockedError names the holder; .close() lets go
    write_boot(data_dir, boot: int, runtime: Path) -> BootRecord         by the session's leader
    read_boot(data_dir) -> BootRecord | None         SessionError when it cannot be read
    directory_mark(data_dir) -> str                  what tells a directory from its copies
    end_old_session(data_dir, timeout_s=10.0) -> int number of processes killed; SessionError when some remain
    session_members(sid: int) -> list[int]           pids, zombies not counted
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import struct
import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from chain.disk import open_regular
from kernel.errors import LockedError, SessionError
from kernel.helper.os_processes import (
    SESSION_VARIABLE,
    Mark,
    ProcessRow,
    descendants,
    is_own_users,
    read_process,
    read_processes,
    run_mark,
)

_BOOT_FILE = "boot.json"
_MAX_BOOT_BYTES = 64 * 1024
_LOCK_FILE = "lock"
_LEADER_FILE = "leader"
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock of fcntl(2): type, whence, start, length, pid
_LOCKS = Path("/proc/locks")
LOCK_PATIENCE_S = 1.0
_PROOF_S = 2.0
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class BootRecord:
    """The running or last boot. ``start_ticks``: the leader's start, in clock ticks of the machine's boot.

    ``directory`` is the :func:`directory_mark` of the data directory it was written in.

    ``session_leader`` is 0 when the node had no session of its own; then there is none to end.
    """

    boot: int
    session_leader: int
    start_ticks: int
    runtime: str
    machine_boot: str
    directory: str


class DataLock:
    """A held lock. It ends with the process or with :meth:`close`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock(data_dir: Path, *, runs: bool = False, patience_s: float = LOCK_PATIENCE_S) -> DataLock:
    """Lock ``data_dir`` for this process. Raises LockedError: at once when somebody runs on it, after ``patience_s``
    when somebody else has it, who looks at it or ends what a run has left.

    ``runs``: this process is to run on it, as a node or a cluster's launcher. Only such a holder may be asked to stop,
    so that is told as the lock itself is: by a lock that others find, not by words in a file.
    """
    fd = _open_lock(data_dir, runs)
    try:
        deadline = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if runs:
                    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock_of(data_dir))
                return DataLock(fd)
            _check_holder(fd, data_dir, patient=time.monotonic() < deadline)
            time.sleep(_PAUSE_S)
    except BaseException:
        os.close(fd)
        raise


def _open_lock(data_dir: Path, runs: bool) -> int:
    """Where nothing can be written any more, a run can still be found, and what it left be ended."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CREAT | flags, 0o600)
    except OSError as error:
        if runs or error.errno not in (errno.EROFS, errno.ENOSPC):
            raise
        return os.open(data_dir / _LOCK_FILE, os.O_RDONLY | flags)


def _check_holder(fd: int, data_dir: Path, patient: bool) -> None:
    """Raises LockedError when its holder runs on ``data_dir``, and otherwise unless ``patient``."""
    pid = _holder(fd) or max(_leader_of(data_dir), 0)
    runs = _runs(fd, data_dir) and pid == (_holder(fd) or pid)
    if patient and not (runs and pid):
        return
    holder = f"process {pid}" if pid else "another process"
    what = (
        f"stop that node first (weftos down --data {data_dir})"
        if runs
        else "it is no node that runs there, but another command: see what it does, then try again"
    )
    raise LockedError(f"{data_dir} is in use by {holder}: {what}", pid, runs=runs)


def _runs(fd: int, data_dir: Path) -> bool:
    """Whether the lock's holder has said that it runs on ``data_dir``."""
    kind: int = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _flock_of(data_dir)))[0]
    return kind != fcntl.F_UNLCK


def _holder(fd: int) -> int:
    """The process that has locked the file, 0 when /proc does not tell. The kernel says who: what stands in the file
    anybody can have written who can write there.
    """
    try:
        return flock_holder(_LOCKS.read_text(), _device_of(fd), os.fstat(fd).st_ino)
    except OSError:
        return 0


def flock_holder(locks: str, device: str, inode: int) -> int:
    """Who holds the flock(2) of a file, by the text of /proc/locks (proc_locks(5)); 0 when that does not tell.

    ``device``: major and minor number, hexadecimal; empty when not known: then any with such an inode will do, if
    there is only one.
    """
    rows = [line.split() for line in locks.splitlines()]
    held = {
        int(row[4])
        for row in rows
        if row[1] == "FLOCK"
        and row[5].endswith(f":{inode}")
        and row[5].startswith(f"{device}:" if device else "")
    }
    return max(held.pop(), 0) if len(held) == 1 else 0


def _device_of(fd: int) -> str:
    """The device as /proc/locks names it, empty when not known: that of the mount. What stat(2) says is another one on
    some file systems (btrfs, overlayfs).
    """
    about = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines())
    mount = about.get("mnt_id", "").strip()
    for row in map(str.split, Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()):
        if row[0] == mount:
            major, minor = map(int, row[2].split(":"))
            return f"{major:02x}:{minor:02x}"
    return ""


def write_boot(data_dir: Path, boot: int, runtime: Path) -> BootRecord:
    """Record this process's session as the one to end before the next boot. Durable on return.

    Only the session's leader does so: a node that was started inside somebody's session does not own that. From then
    on it can be known as this directory's, to its end, and so can what it starts with :data:`SESSION_VARIABLE`.
    """
    leader = read_process(os.getpid()) if os.getsid(0) == os.getpid() else None
    record = BootRecord(
        boot=boot,
        session_leader=leader.pid if leader else 0,
        start_ticks=leader.start_ticks if leader else 0,
        runtime=str(runtime),
        machine_boot=_machine_boot(),
        directory=directory_mark(data_dir),
    )
    os.environ.pop(SESSION_VARIABLE, None)
    if leader:
        _lock_as_leader(data_dir)
        mark = mark_of(record)
        os.environ[SESSION_VARIABLE] = mark.word
        mark.put_on(0)
    text = json.dumps({**asdict(record), "boot": f"{boot:016x}"}, indent=1)
    path = data_dir / _BOOT_FILE
    fresh = data_dir / f"{_BOOT_FILE}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(fd)
    os.replace(fresh, path)
    directory = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return record


def read_boot(data_dir: Path) -> BootRecord | None:
    """The record of the last boot on this very directory, None when there was none."""
    path = data_dir / _BOOT_FILE
    try:
        with open_regular(path) as file:
            fields = json.loads(file.read(_MAX_BOOT_BYTES))
        record = BootRecord(
            boot=int(fields["boot"], 16),
            session_leader=fields["session_leader"],
            start_ticks=fields["start_ticks"],
            runtime=fields["runtime"],
            machine_boot=fields["machine_boot"],
            directory=fields["directory"],
        )
        if type(record.session_leader) is not int or type(record.start_ticks) is not int:
            raise ValueError("session_leader and start_ticks must be numbers")
        if type(record.runtime) is not str:
            raise ValueError("runtime must be a path")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SessionError(
            f"{path} cannot be read ({type(error).__name__}: {error}), so that processes of the last run "
            "cannot be found: see that no process of this node is left, then delete the file"
        ) from error
    return record if record.directory == directory_mark(data_dir) else None


def directory_mark(data_dir: Path) -> str:
    """What a directory keeps when it is moved, and does not share with its copies: device and inode."""
    found = os.stat(data_dir)
    return f"{found.st_dev}:{found.st_ino}"


def end_old_session(data_dir: Path, timeout_s: float = 10.0) -> int:
    """Kill what is left of the last run and wait until it is gone. To be called with the lock held.

    Returns how many processes were killed. The session of the caller is never touched. Raises SessionError when the
    record names processes that do not show that they are of a run on this directory; then none is killed.
    """
    record = read_boot(data_dir)
    if record is None or record.machine_boot != _machine_boot():
        return 0
    deadline = time.monotonic() + timeout_s
    _await_proof(data_dir, record, min(deadline, time.monotonic() + _PROOF_S))
    killed: set[int] = set()
    while members := _left_of(record):  # again, for what was forked meanwhile
        if time.monotonic() >= deadline:
            left = ", ".join(str(process.pid) for process in members)
            raise SessionError(
                f"processes of the last run are still there {timeout_s:g} s after they were killed: {left}"
            )
        _kill_and_wait(members, deadline)
        killed.update(process.pid for process in members)
    return len(killed)


def session_members(sid: int) -> list[int]:
    """All living processes of session ``sid``."""
    return [row.pid for row in read_processes().values() if row.alive and row.session == sid]


def _await_proof(data_dir: Path, record: BootRecord, deadline: float) -> None:
    """Until a living member shows whose session it is, or there is none. What is just ending has no environment any
    more, hence the patience. Raises SessionError.
    """
    while (members := _old_members(record)) and not _is_proven(data_dir, record, members):
        if time.monotonic() >= deadline:
            pids = ", ".join(str(process.pid) for process in members)
            raise SessionError(
                f"{data_dir / _BOOT_FILE} says that processes {pids} are of the last run, and none of them shows that "
                "it is: nothing was ended, and nothing is started beside them. Look at them (ps); end those of "
                "this node, then delete the file"
            )
        time.sleep(_PAUSE_S)


def _is_proven(data_dir: Path, record: BootRecord, members: list[ProcessRow]) -> bool:
    """Whether the session of ``record`` was led by a run on ``data_dir``."""
    mark = mark_of(record)
    return _leader_of(data_dir) == record.session_leader or any(
        mark.is_on(process.pid) for process in members if process.session == record.session_leader
    )


def mark_of(record: BootRecord) -> Mark:
    """Of it all, so that who can write the record cannot have it name what another run has started."""
    return run_mark(f"{record.session_leader}:{record.start_ticks}:{record.machine_boot}:{record.directory}")


def _lock_as_leader(data_dir: Path) -> None:
    """Hold, for as long as this process lives, what tells others that it leads a session on ``data_dir``.

    Closing any descriptor of that file would give the lock up, so this one stays open and no other is opened.
    """
    fd = os.open(data_dir / _LEADER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLK, _flock_of(data_dir))
    except OSError as error:
        os.close(fd)
        holder = _leader_of(data_dir)
        who = f"process {holder}" if holder else str(error)
        raise SessionError(
            f"{data_dir} is still led by an earlier run ({who}): end it, then start again"
        ) from error


def _leader_of(data_dir: Path) -> int:
    """The process that holds :func:`_lock_as_leader`, 0 when none does."""
    try:
        fd = os.open(data_dir / _LEADER_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return 0
    wish = _flock_of(data_dir)
    try:
        *found, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, wish))
    finally:
        os.close(fd)
    return pid if found == [*_FLOCK.unpack(wish)][:-1] else 0


def _flock_of(data_dir: Path) -> bytes:
    """A lock on one byte: another one in each directory, so that no link to another file's locks passes for it."""
    byte = int.from_bytes(sha256(directory_mark(data_dir).encode()).digest()[:7], "big")
    return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)


def _may_be_ours(record: BootRecord) -> bool:
    if record.session_leader in (0, os.getsid(0)):
        return False
    leader = read_process(record.session_leader)
    return leader is None or leader.start_ticks == record.start_ticks


def _old_members(record: BootRecord) -> list[ProcessRow]:
    """Those of the session, and what is below them in sessions of its own."""
    if not _may_be_ours(record):
        return []
    rows = read_processes()
    roots = [row.pid for row in rows.values() if row.alive and row.session == record.session_leader]
    members = {*roots, *(below for root in roots for below in descendants(rows, root))}
    return [
        rows[pid]
        for pid in sorted(members)
        if rows[pid].start_ticks >= record.start_ticks and is_own_users(pid)
    ]


def _cut_loose(record: BootRecord) -> list[ProcessRow]:
    """What left the session, and was left by whoever adopted it: it has the session's mark still.

    A node takes such along at its end; one that was killed could not. What has given up both its environment and its
    limit is not found.
    """
    mark = mark_of(record)
    return [
        process
        for process in read_processes().values()
        if process.alive
        and process.session != os.getsid(0)
        and is_own_users(process.pid)
        and mark.is_on(process.pid)
    ]


def _left_of(record: BootRecord) -> list[ProcessRow]:
    found = {process.pid: process for process in (*_old_members(record), *_cut_loose(record))}
    return [found[pid] for pid in sorted(found)]


def _kill_and_wait(processes: list[ProcessRow], deadline: float) -> None:
    """SIGKILL each when all are stopped, the younger first, so that none goes on with its next step because its present
    one or its parent has been killed; then wait until all have ended or the deadline is over.
    """
    poll = select.poll()
    waiting: list[int] = []
    try:
        for process in reversed(processes):
            pidfd = _open(process)
            if pidfd is not None:
                waiting.append(pidfd)
                poll.register(pidfd, select.POLLIN)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pidfd in waiting:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, number)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for pidfd, _ in poll.poll(left_s * 1000):
                poll.unregister(pidfd)
                waiting.remove(pidfd)
                os.close(pidfd)
    finally:
        for pidfd in waiting:
            os.close(pidfd)


def _open(process: ProcessRow) -> int | None:
    """A pidfd of ``process``, None when it is gone, even if its pid has been given out again."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    present = read_process(process.pid)
    if present and (present.session, present.start_ticks) == (process.session, process.start_ticks):
        return pidfd
    os.close(pidfd)
    return None


def _machine_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
