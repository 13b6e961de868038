"""What children print is bounded in rate and size, and never holds up the node."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernel.helper.log_budget import BURST_BYTES, OVERHEAD_BYTES, RATE_BYTES, LogBudget
from kernel.helper.output_log import Allowance, BoundedFile, OutputLogs
from tests.patience import HANG_S

FLOOD = "import os\nwhile True: os.write(1, b'x' * 65536)"


def test_an_allowance_is_a_burst_and_then_a_rate() -> None:
    allowance = Allowance(0.0, rate=10, burst=100)
    assert allowance.left(0.0) == 100
    allowance.take(100)
    assert [allowance.left(now) for now in (0.0, 1.0, 5.0, 1000.0)] == [0, 10, 50, 100]


def test_a_file_that_would_be_too_long_begins_anew_beside_one_earlier(tmp_path: Path) -> None:
    file = BoundedFile(tmp_path / "log", max_bytes=10)
    for piece in (b"aaaa", b"bbbb", b"cccc", b"dddd", b"eeee"):
        file.append(piece)
    assert (tmp_path / "log").read_bytes() == b"eeee"
    assert (tmp_path / "log.1").read_bytes() == b"ccccdddd"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"")
    (tmp_path / "log").symlink_to("theirs")
    BoundedFile(tmp_path / "log").append(b"x")
    assert (tmp_path / "theirs").read_bytes() == b""


def test_a_log_that_cannot_begin_anew_closes_no_file_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file, theirs = os.open, list[int]()

    def full_disk(path: Path, flags: int, mode: int) -> int:
        """No place for another name; at that moment somebody else opens a file that is there."""
        if (tmp_path / "log.1").exists():
            theirs.append(open_file(tmp_path / "theirs", os.O_WRONLY))
            raise OSError(errno.ENOSPC, "no space left")
        return open_file(path, flags, mode)

    (tmp_path / "theirs").touch()
    with monkeypatch.context() as disk:
        disk.setattr(os, "open", full_disk)
        BoundedFile(tmp_path / "log", max_bytes=0).append(b"x")
    [file] = theirs
    os.write(file, b"all of it")
    os.close(file)
    assert (tmp_path / "theirs").read_bytes() == b"all of it"


def test_what_a_child_printed_before_its_end_is_there(tmp_path: Path) -> None:
    logs = OutputLogs()
    for word in ("one", "two"):
        theirs = logs.pipe_to(tmp_path / "log")
        subprocess.run([sys.executable, "-c", f"print('{word}')"], stdout=theirs, check=True)
        os.close(theirs)
        logs.drain(30)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_flood_waits_and_its_neighbour_does_not(tmp_path: Path) -> None:
    """After its burst, a child that prints without end is read no faster than it may; others are read all the time."""
    logs = OutputLogs()
    theirs = logs.pipe_to(tmp_path / "flood")
    with subprocess.Popen([sys.executable, "-c", FLOOD], stdout=theirs) as flood:
        os.close(theirs)
        while not (tmp_path / "flood.1").exists():
            assert flood.poll() is None
        for number in range(3):
            theirs = logs.pipe_to(tmp_path / "calm")
            os.write(theirs, b"%d" % number)
            os.close(theirs)
            while not (tmp_path / "calm").read_bytes().endswith(b"%d" % number):
                assert flood.poll() is None
        flood.kill()
    logs.drain(30)
    assert (tmp_path / "calm").read_bytes() == b"012"
    assert sum(path.stat().st_size for path in tmp_path.glob("flood*")) <= 2 * 4 * 2**20


def test_a_cell_that_logs_too_much_is_cut_and_says_so_when_it_may_again() -> None:
    now = [0.0]
    budget = LogBudget(lambda: now[0])
    text = "x" * 1000
    kept = [budget.admit(text) for _ in range(1000)]
    assert kept.count(text) == BURST_BYTES // (1000 + OVERHEAD_BYTES)
    assert kept[-1] is None
    now[0] += (1000 + OVERHEAD_BYTES) / RATE_BYTES
    dropped = kept.count(None)
    assert budget.admit(text) == f"[{dropped} lines of this cell were too many and are not kept]\n{text}"
    assert budget.admit(text) is None


def test_what_reads_the_logs_is_begun_again_when_there_was_no_thread_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would read what children print, and each would wait for that for ever."""
    logs, log = OutputLogs(), tmp_path / "log"

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as squeezed:
        squeezed.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            logs.pipe_to(log)
    assert set(os.listdir("/proc/self/fd")) <= before  # a thread may have closed some of a test before
    os.close(logs.pipe_to(log))
    logs.drain(HANG_S)
    assert set(os.listdir("/proc/self/fd")) <= before  # a thread may have closed some of a test before
