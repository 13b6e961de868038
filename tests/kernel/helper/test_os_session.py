"""The lock and the end of an old session, with real processes."""

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.errors import LockedError, SessionError
from kernel.helper.os_session import (
    directory_mark,
    end_old_session,
    flock_holder,
    lock,
    read_boot,
    session_members,
    write_boot,
)
from tests.endless import ENDLESS, put_endless
from tests.patience import HANG_S
from tests.places import ROOT

# As a node does: writes boot.json, has a child and an orphan that outlives its parent, and prints their pids.
NODE = """
    import os, signal, subprocess, sys
    from pathlib import Path
    from kernel.helper.os_session import write_boot

    write_boot(Path(sys.argv[1]), 7, Path("/tmp/x"))
    child = subprocess.Popen(["sleep", "300"], stdout=subprocess.DEVNULL)
    out, into = os.pipe()
    if os.fork() == 0:
        orphan = os.fork()
        if orphan == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.close(1)
            signal.pause()
        os.write(into, str(orphan).encode())
        os._exit(0)
    os.wait()
    print(child.pid, os.read(out, 20).decode(), flush=True)
    signal.pause()
"""


class Started:
    """A process in a session of its own, with what it printed."""

    def __init__(self, source: str, *arguments: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(source), *arguments],
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=ROOT,
        )
        assert self.popen.stdout is not None
        assert select.select([self.popen.stdout], [], [], HANG_S)[0], "said nothing"
        self.line = self.popen.stdout.readline().decode()

    def end(self) -> None:
        for pid in session_members(self.popen.pid):
            os.kill(pid, signal.SIGKILL)
        self.popen.wait(HANG_S)
        assert self.popen.stdout is not None
        self.popen.stdout.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def run(source: str, *arguments: str) -> Started:
        started.append(Started(source, *arguments))
        return started[-1]

    yield run
    for process in started:
        process.end()


def edit_boot(data: Path, **changes: Any) -> None:
    fields = json.loads((data / "boot.json").read_text())
    (data / "boot.json").write_text(json.dumps(fields | changes))


def test_the_whole_old_session_is_ended(tmp_path: Path, start: Callable[..., Started]) -> None:
    node = start(NODE, str(tmp_path))
    child, orphan = map(int, node.line.split())
    assert set(session_members(node.popen.pid)) == {node.popen.pid, child, orphan}
    assert end_old_session(tmp_path) == 3
    assert session_members(node.popen.pid) == []
    assert node.popen.wait(HANG_S) == -signal.SIGKILL


def test_all_of_the_old_session_is_stopped_before_any_of_it_is_killed(
    tmp_path: Path, start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script whose running step was killed before it would go on with its next one."""
    start(NODE, str(tmp_path))
    sent: list[int] = []
    send = signal.pidfd_send_signal

    def sends(handle: int, number: int) -> None:
        sent.append(number)
        send(handle, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", sends)
    assert end_old_session(tmp_path) == 3
    assert sent[:6] == [signal.SIGSTOP] * 3 + [signal.SIGKILL] * 3


def test_orphans_are_ended_when_their_leader_is_long_dead(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    node = start(NODE, str(tmp_path))
    node.popen.kill()
    node.popen.wait(HANG_S)
    assert len(session_members(node.popen.pid)) == 2
    assert end_old_session(tmp_path) == 2
    assert session_members(node.popen.pid) == []
    assert end_old_session(tmp_path) == 0


def test_a_zombie_is_not_a_living_process(tmp_path: Path, start: Callable[..., Started]) -> None:
    node = start(NODE, str(tmp_path))
    end_old_session(tmp_path)  # the leader is now a zombie: its parent, this test, has not waited for it
    assert session_members(node.popen.pid) == []
    assert end_old_session(tmp_path) == 0


@pytest.mark.parametrize(
    "changes",
    [{"start_ticks": 1}, {"machine_boot": "of another boot"}, {"session_leader": 0}],
    ids=["pid given out again", "machine booted since", "node without a session"],
)
def test_a_session_that_is_not_the_old_one_is_left_alone(
    changes: dict[str, Any], tmp_path: Path, start: Callable[..., Started]
) -> None:
    node = start(NODE, str(tmp_path))
    edit_boot(tmp_path, **changes)
    assert end_old_session(tmp_path) == 0
    assert len(session_members(node.popen.pid)) == 3


def test_a_copy_of_the_directory_does_not_end_the_node_on_the_original(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    original, copy, moved = tmp_path / "original", tmp_path / "copy", tmp_path / "moved"
    original.mkdir()
    node = start(NODE, str(original))
    shutil.copytree(original, copy)
    assert read_boot(copy) is None
    assert end_old_session(copy) == 0
    assert len(session_members(node.popen.pid)) == 3
    original.rename(moved)
    assert end_old_session(moved) == 3


def test_members_older_than_the_leader_are_left_alone(tmp_path: Path, start: Callable[..., Started]) -> None:
    node = start(NODE, str(tmp_path))
    node.popen.kill()
    node.popen.wait(HANG_S)
    edit_boot(tmp_path, start_ticks=2**62)
    assert end_old_session(tmp_path) == 0
    assert len(session_members(node.popen.pid)) == 2


BYSTANDER = """
    import signal
    print("here", flush=True)
    signal.pause()
"""


def forge_boot(data: Path, leader: int) -> None:
    """What who can write ``data`` can say of any process."""
    write_boot(data, 1, Path("/tmp/x"))
    ticks = Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[19]
    edit_boot(data, session_leader=leader, start_ticks=int(ticks))


def test_a_forged_record_ends_nobodys_session(tmp_path: Path, start: Callable[..., Started]) -> None:
    foreign = start(BYSTANDER)
    forge_boot(tmp_path, foreign.popen.pid)
    with pytest.raises(SessionError, match=f"processes {foreign.popen.pid} are of the last run, and none of"):
        end_old_session(tmp_path, 0.1)
    assert foreign.popen.poll() is None


def test_a_forged_record_does_not_end_the_node_of_another_directory(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    theirs.mkdir()
    own.mkdir()
    node = start(NODE, str(theirs))
    shutil.copy(theirs / "boot.json", own)
    edit_boot(own, directory=directory_mark(own))
    (own / "leader").hardlink_to(theirs / "leader")
    with pytest.raises(SessionError, match="none of them shows that it is"):
        end_old_session(own, 0.1)
    assert len(session_members(node.popen.pid)) == 3
    assert end_old_session(theirs) == 3


def test_a_leader_shows_itself_though_nothing_that_it_started_is_left(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    node = start(NODE, str(tmp_path))
    for pid in map(int, node.line.split()):
        os.kill(pid, signal.SIGKILL)
    assert end_old_session(tmp_path) >= 1
    assert node.popen.wait(HANG_S) == -signal.SIGKILL


def test_what_has_an_environment_of_its_own_shows_whose_the_session_is(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    """Nobody else is left of it: a node that was killed could not be started again while a tool's program ran."""
    node = start(NODE.replace('["sleep", "300"],', '["sleep", "300"], env={},'), str(tmp_path))
    orphan = int(node.line.split()[1])
    node.popen.kill()
    node.popen.wait(HANG_S)
    put_off_number(orphan)
    assert end_old_session(tmp_path) == 2
    assert session_members(node.popen.pid) == []


def put_off_number(pid: int) -> None:
    resource.prlimit(pid, 10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_what_has_put_off_its_mark_is_named_and_not_left_unsaid(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    node = start(NODE, str(tmp_path))
    child, orphan = map(int, node.line.split())
    node.popen.kill()
    node.popen.wait(HANG_S)
    handle = os.pidfd_open(child)
    os.kill(
        child, signal.SIGKILL
    )  # the orphan was forked by the leader itself, so its environment tells nothing
    assert select.select([handle], [], [], HANG_S)[0]
    os.close(handle)
    put_off_number(orphan)
    with pytest.raises(SessionError, match=rf"processes (\d+, )*{orphan}\b.* delete the file"):
        end_old_session(tmp_path, 0.1)


def test_the_callers_own_session_is_never_ended(tmp_path: Path) -> None:
    write_boot(tmp_path, 1, tmp_path)
    leader = os.getsid(0)
    ticks = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    edit_boot(tmp_path, session_leader=leader, start_ticks=int(ticks))
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        assert end_old_session(tmp_path) == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_node_inside_somebodys_session_does_not_record_it(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        from kernel.helper.os_session import write_boot
        print(write_boot(Path(sys.argv[1]), 1, Path("/tmp/x")).session_leader)
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert said.stdout == "0\n"


def test_a_directory_that_never_ran_has_no_old_session(tmp_path: Path) -> None:
    assert read_boot(tmp_path) is None
    assert end_old_session(tmp_path) == 0


def test_boot_record_is_read_as_written_and_private(tmp_path: Path) -> None:
    written = write_boot(tmp_path, 2**63 + 5, tmp_path / "run")
    assert read_boot(tmp_path) == written
    assert (tmp_path / "boot.json").stat().st_mode & 0o777 == 0o600
    assert written.boot == 2**63 + 5
    assert {path.name for path in tmp_path.iterdir()} - {"leader"} == {"boot.json"}


@ENDLESS
def test_a_boot_record_that_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    put_endless(tmp_path / "boot.json", kind)
    with pytest.raises(
        SessionError, match=r"boot\.json cannot be read .*not a regular file.* delete the file"
    ):
        read_boot(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "\xff", '{"boot": "1", "session_leader": "1", "start_ticks": 1}', "{", "[" * 50_000],
)
def test_a_damaged_boot_record_is_an_error_that_says_what_to_do(text: str, tmp_path: Path) -> None:
    (tmp_path / "boot.json").write_text(text, encoding="latin-1")
    with pytest.raises(SessionError, match=r"boot\.json cannot be read .* delete the file"):
        end_old_session(tmp_path)


HOLDER = """
    import os, signal, sys
    from pathlib import Path
    from kernel.helper.os_session import lock
    held = lock(Path(sys.argv[1]), runs=True)
    print("locked", flush=True)
    signal.pause()
"""
LOOKER = HOLDER.replace(", runs=True", "")


def test_a_locked_directory_is_refused_and_the_holder_named(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    holder = start(HOLDER, str(tmp_path))
    with pytest.raises(LockedError, match=f"in use by process {holder.popen.pid}: stop that node") as caught:
        lock(tmp_path)
    assert (caught.value.pid, caught.value.runs) == (holder.popen.pid, True)
    assert caught.value.code == "conflict"


def test_who_holds_the_lock_and_does_not_run_is_told_from_who_does(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    """The one may be asked to stop, the other not."""
    holder = start(LOOKER, str(tmp_path))
    with pytest.raises(LockedError, match="is no node that runs there, but another command") as caught:
        lock(tmp_path, patience_s=0.0)
    assert (caught.value.pid, caught.value.runs) == (holder.popen.pid, False)


def test_a_lock_of_another_directorys_run_is_nobodys_who_runs_here(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    """A copy made of links has the lock's file itself."""
    theirs, copy = tmp_path / "theirs", tmp_path / "copy"
    theirs.mkdir()
    copy.mkdir()
    start(HOLDER, str(theirs))
    os.link(theirs / "lock", copy / "lock")
    with pytest.raises(LockedError) as caught:
        lock(copy, patience_s=0.0)
    assert not caught.value.runs


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_who_only_looks_is_waited_for(tmp_path: Path, start: Callable[..., Started], after_s: float) -> None:
    """A start is not refused because doctor tried the lock at that moment."""
    holder = start(LOOKER, str(tmp_path))
    letting = threading.Timer(after_s, holder.popen.kill)
    letting.start()
    lock(tmp_path, runs=True, patience_s=HANG_S).close()
    letting.join(HANG_S)


def test_a_lock_that_is_closed_runs_no_more(tmp_path: Path) -> None:
    lock(tmp_path, runs=True).close()
    held = lock(tmp_path)
    with pytest.raises(LockedError) as caught:
        lock(tmp_path, patience_s=0.0)
    assert not caught.value.runs
    held.close()


@pytest.mark.parametrize("said", ["1\n", "", "0\n", "-1\n", "no number"])
def test_who_holds_a_lock_is_told_by_the_kernel_and_not_by_the_file(
    tmp_path: Path, start: Callable[..., Started], said: str
) -> None:
    """Whom the file names, weftos down would end."""
    holder = start(HOLDER, str(tmp_path))
    (tmp_path / "lock").write_text(said)
    with pytest.raises(LockedError) as caught:
        lock(tmp_path)
    assert caught.value.pid == holder.popen.pid


LOCKS = """\
1: POSIX  ADVISORY  WRITE 100 fe:00:77 0 EOF
2: FLOCK  ADVISORY  WRITE 200 00:2b:77 0 EOF
3: FLOCK  ADVISORY  WRITE 300 fe:00:77 0 EOF
3: -> FLOCK  ADVISORY  WRITE 400 fe:00:77 0 EOF
4: FLOCK  ADVISORY  WRITE 500 fe:00:78 0 EOF
5: FLOCK  ADVISORY  WRITE -1 fe:00:79 0 EOF
6: FLOCK  ADVISORY  WRITE 600 <none>:0 0 EOF
"""


@pytest.mark.parametrize(
    ("device", "inode", "pid"),
    [("fe:00", 77, 300), ("00:2b", 77, 200), ("", 77, 0), ("", 78, 500), ("00:2c", 78, 0), ("fe:00", 79, 0)],
)
def test_a_file_of_the_same_number_on_another_disk_is_not_the_lock(device: str, inode: int, pid: int) -> None:
    """In a file system of his own anybody can give a file any number."""
    assert flock_holder(LOCKS, device, inode) == pid


def test_a_lock_that_is_let_go_while_its_holder_is_looked_for_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by weftos cluster status, which holds it for a moment."""
    held = lock(tmp_path)
    locks = tmp_path / "locks"
    os.mkfifo(locks)
    monkeypatch.setattr("kernel.helper.os_session._LOCKS", locks)

    def let_go() -> None:
        into = os.open(locks, os.O_WRONLY)  # waits until the holder is asked for
        held.close()
        os.close(into)

    letting = threading.Thread(target=let_go)
    letting.start()
    lock(tmp_path).close()
    letting.join(HANG_S)


def test_where_proc_tells_of_no_locks_the_leader_is_the_holder(
    tmp_path: Path, start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = "    write_boot(Path(sys.argv[1]), 1, Path('/tmp/x'))\n"
    node = start(
        HOLDER.replace("import lock", "import lock, write_boot").replace("    print", f"{lead}    print"),
        str(tmp_path),
    )
    monkeypatch.setattr("kernel.helper.os_session._LOCKS", tmp_path / "none")
    with pytest.raises(LockedError) as caught:
        lock(tmp_path)
    assert caught.value.pid == node.popen.pid


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_where_nothing_can_be_written_a_run_is_still_found_and_what_it_left_can_be_ended(
    tmp_path: Path, start: Callable[..., Started], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    holder = start(HOLDER, str(tmp_path))
    opened = os.open

    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(number, os.strerror(number))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(LockedError) as caught:
        lock(tmp_path)
    assert (caught.value.pid, caught.value.runs) == (holder.popen.pid, True)
    holder.popen.kill()
    holder.popen.wait(HANG_S)
    lock(tmp_path).close()
    with pytest.raises(OSError, match=os.strerror(number)):
        lock(tmp_path, runs=True)


def test_a_killed_holder_leaves_no_lock(tmp_path: Path, start: Callable[..., Started]) -> None:
    holder = start(HOLDER, str(tmp_path))
    holder.popen.kill()
    holder.popen.wait(HANG_S)
    lock(tmp_path).close()


def test_a_closed_lock_can_be_taken_again(tmp_path: Path) -> None:
    first = lock(tmp_path, runs=True)
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        lock(tmp_path)
    first.close()
    first.close()
    lock(tmp_path).close()


def test_the_lock_is_not_inherited_by_what_the_node_starts(tmp_path: Path) -> None:
    held = lock(tmp_path)
    child = subprocess.Popen(["sleep", "300"], close_fds=False)
    try:
        held.close()
        lock(tmp_path).close()
    finally:
        child.kill()
        child.wait()


LEADS_AND_CUTS_LOOSE = """
import os, resource, signal, subprocess, sys
from pathlib import Path
from kernel.helper.os_processes import new_mark
from kernel.helper.os_session import write_boot
data = Path(sys.argv[1])
write_boot(data, 1, data)
loose = subprocess.Popen(["sleep", "60"], start_new_session=True)
scrubbed = subprocess.Popen(["sleep", "60"], start_new_session=True, env={})
foreign = subprocess.Popen(["sleep", "60"], start_new_session=True, env={})
resource.prlimit(foreign.pid, 10, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
worker = subprocess.Popen(["sh", "-c", "read go; env -i setsid sleep 60 >/dev/null & echo $!"], stdin=-1, stdout=-1)
new_mark().put_on(worker.pid)
told, _ = worker.communicate(b"go\\n")
print(loose.pid, scrubbed.pid, int(told), foreign.pid, flush=True)
signal.pause()
"""


def test_what_a_killed_node_had_cut_loose_is_found_by_what_it_was_born_with(tmp_path: Path) -> None:
    """With the environment that was handed on or without it, and below a worker that has a mark of its own."""
    command = [sys.executable, "-c", LEADS_AND_CUTS_LOOSE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as leader:
        assert leader.stdout is not None
        *own, foreign = map(int, leader.stdout.readline().split())
        leader.kill()
    try:
        assert end_old_session(tmp_path) == 3
        assert end_old_session(tmp_path) == 0
        assert [session_members(pid) for pid in own] == [[], [], []]
        assert session_members(foreign) == [foreign]
    finally:
        for pid in (*own, foreign):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_an_old_node_that_had_closed_itself_to_others_is_ended_by_its_user() -> None:
    """What lies in its /proc/PID belongs to root."""
    data = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(data, STRANGER, STRANGER)
    ready, told = os.pipe()
    leader = _as_stranger(lambda: _lead(data, told))
    try:
        assert os.read(ready, 1) == b"r"
        _, status = os.waitpid(_as_stranger(lambda: sys.exit(end_old_session(data))), 0)
        assert os.waitstatus_to_exitcode(status) == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGKILL)
        os.waitpid(leader, 0)
        shutil.rmtree(data)
        os.close(ready)
        os.close(told)


STRANGER = 65534


def _as_stranger(act: Callable[[], None]) -> int:
    """A child of another user; it ends when ``act`` does, with its exit status."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        act()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os._exit(status)


def _lead(data: Path, told: int) -> None:
    os.setsid()
    write_boot(data, 1, data)
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
    os.write(told, b"r")
    signal.pause()
