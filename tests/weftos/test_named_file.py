"""Files that a person names: what is read, and what is not waited for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.patience import HANG_S
from weftos.named_file import read_named

TEXT = b"said\n" * 40_000  # more than a pipe holds
READ = """
import sys
from pathlib import Path
from weftos.named_file import read_named
sys.stdout.buffer.write(read_named(Path(sys.argv[1]), 10**6))
"""


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/PID/fd"])
def test_a_pipe_that_the_caller_hands_over_is_read_to_its_end(folder: str) -> None:
    ours, theirs = os.pipe()

    def say() -> None:
        with contextlib.suppress(BrokenPipeError), open(theirs, "wb", buffering=0) as file:
            file.write(TEXT)

    writer = threading.Thread(target=say)
    writer.start()
    try:
        assert read_named(Path(folder.replace("PID", str(os.getpid())), str(ours)), len(TEXT) + 1) == TEXT
    finally:
        os.close(ours)
        writer.join()


def test_standard_input_is_read_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    command = [sys.executable, "-c", READ, "/dev/stdin"]
    piped = subprocess.run(command, input=TEXT, capture_output=True, timeout=HANG_S, check=True)
    with open(tmp_path / "file", "rb") as file:
        named = subprocess.run(command, stdin=file, capture_output=True, timeout=HANG_S, check=True)
    assert piped.stdout == named.stdout == TEXT


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="not a regular file"):
            read_named(tmp_path / name, 10)


def test_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    assert read_named(tmp_path / "file", 7) == TEXT[:7]
