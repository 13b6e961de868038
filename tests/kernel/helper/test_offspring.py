"""What ends with a process, whatever it does against that."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernel.helper import offspring
from kernel.helper.offspring import end_offspring, reap_adopted
from tests.patience import HANG_S
from tests.weftos.twins.strangers import as_stranger, needs_root, wait_for

RUNS_AWAY = """
import os, time
from kernel.helper.offspring import become_subreaper, end_offspring
become_subreaper()
for _ in range(10):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
        os._exit(0)
    end_offspring(20)
    try:
        os.waitpid(-1, os.WNOHANG)
        print("something is left")
    except ChildProcessError:
        pass
"""


def sleeper() -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # its end, should nothing else be
        signal.pause()
        os._exit(0)
    return child


@needs_root
def test_one_that_may_not_be_signalled_does_not_keep_the_others_alive() -> None:
    roots: list[int] = []
    told, tell = os.pipe()

    def before() -> None:
        roots.append(sleeper())
        os.write(tell, str(roots[0]).encode())

    def act() -> None:
        own = sleeper()
        assert end_offspring() == 1
        try:
            os.kill(own, 0)
        except ProcessLookupError:
            return
        raise AssertionError("it lives")

    child = as_stranger(act, before)
    try:
        wait_for(child)
    finally:
        os.kill(int(os.read(told, 32)), signal.SIGKILL)
        os.close(told)
        os.close(tell)


def test_one_that_forks_and_exits_without_a_pause_is_caught() -> None:
    left = subprocess.run([sys.executable, "-c", RUNS_AWAY], stdout=subprocess.PIPE, text=True, check=True)
    assert left.stdout == ""


def test_the_look_for_adopted_children_goes_on_after_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def no_descriptor() -> Iterator[tuple[int, int]]:
        looks.append(len(looks))
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(offspring, "_dead_children", no_descriptor)

    async def main() -> None:
        reaping = asyncio.create_task(reap_adopted(every_s=0.0))
        async with asyncio.timeout(HANG_S):
            while len(looks) < 3:
                await asyncio.sleep(0)
        reaping.cancel()

    asyncio.run(main())
