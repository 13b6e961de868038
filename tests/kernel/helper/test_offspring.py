"""What ends with a process, whatever it does against that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kernel.helper.offspring import end_offspring
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

ENDS_A_TREE = """
import os, subprocess, sys
from kernel.helper.offspring import OFFSPRING, become_subreaper, end_offspring, end_tree
from kernel.helper.os_processes import read_process

def start(shell, mark):
    told, tell = os.pipe()
    with OFFSPRING.birth() as born:
        env = {**os.environ, "WEFTOS_WORKER": mark}
        child = subprocess.Popen(["sh", "-c", shell, str(tell)], env=env, pass_fds=[tell])
        born(child.pid)
    os.close(tell)
    with open(told) as said:
        return read_process(child.pid), int(said.readline())

def alive(pid):
    row = read_process(pid)
    return row is not None and row.alive

become_subreaper()
loose = "setsid sh -c 'echo $$ >&$0; exec sleep 1000' $0 & "
other, its_own = start(loose + "exec sleep 1000", "another")
_, its_cut_loose = start("(" + loose + ") & wait", "a third")
worker, started = start(sys.argv[1], "this one")
end_tree(worker, b"WEFTOS_WORKER=this one")
print([alive(pid) for pid in (other.pid, its_own, its_cut_loose, worker.pid, started)])
end_offspring()
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


PROGRAM = "setsid sh -c 'echo $$ >&$0; exec sleep 1000' $0"


@pytest.mark.parametrize("scrubbed", ["", "env -i PATH=/usr/bin:/bin "])
@pytest.mark.parametrize(
    "shell", ["{} & exec sleep 1000", "({} &) ; exec sleep 1000", "{} & exit", "({} &) ; exit"]
)
def test_a_tree_is_ended_wherever_it_has_gone_and_nothing_of_others(shell: str, scrubbed: str) -> None:
    """Below its root or not, that hangs or has died; with the environment that was handed on, or one of its own."""
    words = [sys.executable, "-c", ENDS_A_TREE, shell.format(scrubbed + PROGRAM)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout == "[True, True, True, False, False]\n"
