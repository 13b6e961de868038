"""How an environment gets to a child that has it in no environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S
from weftos import WeftosError
from weftos.sealed_environment import Handover, open_part, secrets_of

GIVEN = {
    "PATH": "/bin:/usr/bin",
    "HOME": "/h",
    "A_KEY": "sk-1=2\n3",
    "WEFTOS_NODE__NAME": "n",
    "PYTHONWARNINGS": "",
}
TELLS = """
import argparse, json, os, sys
from pathlib import Path
from weftos.sealed_environment import seal, take_environment
parser = argparse.ArgumentParser()
parser.add_argument("--environment-fd", type=int)
parser.add_argument("--other")
given = parser.parse_args()
fd = given.environment_fd
before = os.readlink(f"/proc/self/fd/{fd}") if fd is not None else None
taken = take_environment(seal(fd))
left = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name != "3"]
print(json.dumps([taken, dict(os.environ), before in left, os.getpid(), given.other]))
"""


def tells(environment: dict[str, str], *words: str, fd: int | None = None) -> subprocess.Popen[str]:
    argv = [sys.executable, "-P", "-c", TELLS, "--other", "x", *words]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env=environment, pass_fds=() if fd is None else (fd,)
    )


def test_a_child_is_told_all_and_has_what_everybody_may_have() -> None:
    handover = Handover(GIVEN)
    child = tells(open_part(GIVEN), "--environment-fd", str(handover.fd), fd=handover.fd)
    handover.begin()
    taken, own, still_open, _, _ = json.loads(child.communicate(timeout=HANG_S)[0])
    assert taken == GIVEN
    assert {name: own[name] for name in GIVEN if name in own} == {
        "PATH": "/bin:/usr/bin",
        "HOME": "/h",
        "PYTHONWARNINGS": "",
    }
    assert not still_open


def test_a_child_started_by_hand_begins_anew_without_its_environment() -> None:
    """The same process, with the same words: whoever waits for it need not know."""
    child = tells(GIVEN)
    taken, own, still_open, pid, other = json.loads(child.communicate(timeout=HANG_S)[0])
    assert {name: taken[name] for name in GIVEN} == GIVEN
    assert "A_KEY" not in own
    assert "WEFTOS_NODE__NAME" not in own
    assert not still_open
    assert (pid, other) == (child.pid, "x")


def test_a_child_that_ends_without_asking_leaves_its_starter_in_peace() -> None:
    handover = Handover(GIVEN)
    with subprocess.Popen([sys.executable, "-c", ""], pass_fds=(handover.fd,)) as child:
        handover.begin()
    assert child.returncode == 0


def test_nothing_is_given_before_the_child_says_that_it_is_closed() -> None:
    handover = Handover(GIVEN)
    thief = os.dup(handover.fd)
    handover.begin()
    os.set_blocking(thief, False)
    with pytest.raises(BlockingIOError):
        os.read(thief, 100)
    os.write(thief, b"thieve")
    os.set_blocking(thief, True)
    assert os.read(thief, 100) == b""
    os.close(thief)


def test_a_key_in_a_variable_that_everybody_is_given_is_refused() -> None:
    assert secrets_of(("A_KEY", "NOT_SET"), GIVEN) == {"A_KEY": "sk-1=2\n3"}
    with pytest.raises(WeftosError, match="names HOME, which every process of the node is given"):
        secrets_of(("A_KEY", "HOME"), GIVEN)


def test_the_foreground_command_closes_itself_before_it_starts_the_node(tmp_path: Path) -> None:
    """It holds the provider keys in its environment for as long as the node runs."""
    code = """
import ctypes, sys
from weftos.cli import app
from weftos.lifecycle import launch
class Started(Exception): pass
def start(*args, **kwargs):
    print("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
    raise SystemExit
launch.NodeProcess = start
sys.argv = ["weftos", "up", "--data", sys.argv[1]]
app.app()
"""
    argv = [sys.executable, "-P", "-c", code, str(tmp_path / "node")]
    assert "dumpable 0" in subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S).stdout
