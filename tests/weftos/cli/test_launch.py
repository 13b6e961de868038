"""Starting a node and waiting for it: real child processes that speak on the ready descriptor as a node does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from weftos import WeftosError
from weftos.lifecycle.launch import NodeProcess

PRELUDE = """
import json, os, signal, sys, time
fd = int(sys.argv[sys.argv.index("--ready-fd") + 1])
def say(**document):
    os.write(fd, json.dumps(document).encode() + b"\\n")
"""


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., NodeProcess]:
    (tmp_path / "logs").mkdir()

    def start(code: str, stop_timeout_s: float = 30.0) -> NodeProcess:
        return NodeProcess(tmp_path, [sys.executable, "-c", PRELUDE + code], stop_timeout_s)

    return start


def interrupt(number: int) -> None:
    """Send this process a signal, as a terminal would."""
    os.kill(os.getpid(), number)


def test_steps_are_reported_until_the_node_is_ready(started: Callable[..., NodeProcess]) -> None:
    steps: list[str] = []
    with started("say(step='one'); say(step='two'); say(ready=True, origin='weftos-x')") as node:
        assert node.until_ready(steps.append) == {"ready": True, "origin": "weftos-x"}
        assert steps == ["one", "two"]
        assert node.wait() == 0


def test_a_node_leads_a_session_of_its_own(started: Callable[..., NodeProcess]) -> None:
    with started("say(ready=True, leader=os.getsid(0) == os.getpid())") as node:
        assert node.until_ready(lambda step: None)["leader"] is True
        node.wait()


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_is_mirrored(started: Callable[..., NodeProcess], status: int) -> None:
    with started(f"say(ready=True); sys.exit({status})") as node:
        node.until_ready(lambda step: None)
        assert node.wait() == status


def test_death_by_a_signal_is_128_and_the_signal(started: Callable[..., NodeProcess]) -> None:
    with started("say(ready=True); os.kill(os.getpid(), signal.SIGKILL)") as node:
        node.until_ready(lambda step: None)
        assert node.wait() == 128 + signal.SIGKILL


def test_a_refusal_to_boot_keeps_its_words_and_code(started: Callable[..., NodeProcess]) -> None:
    with started("say(error='another node has it', code='conflict'); sys.exit(1)") as node:
        with pytest.raises(WeftosError, match="another node has it") as caught:
            node.until_ready(lambda step: None)
        assert caught.value.code == "conflict"


def test_a_node_that_dies_while_booting_is_quoted(started: Callable[..., NodeProcess]) -> None:
    words = r"status 1 before it was ready(.|\n)*no such luck"
    code = "say(step='one'); raise RuntimeError('no such luck')"
    with started(code) as node, pytest.raises(WeftosError, match=words):
        node.until_ready(lambda step: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_node_as_sigterm_and_it_is_waited_for(
    started: Callable[..., NodeProcess], number: int
) -> None:
    before = signal.getsignal(number)
    code = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
say(ready=True)
signal.pause()
"""
    with started(code) as node:
        node.until_ready(lambda step: None)
        threading.Thread(target=interrupt, args=(number,)).start()
        assert node.wait() == 7
    assert signal.getsignal(number) is before


def test_a_signal_while_booting_stops_the_boot(started: Callable[..., NodeProcess]) -> None:
    words = "stopped before the node was ready"
    with started("say(step='one'); signal.pause()") as node, pytest.raises(WeftosError, match=words):
        node.until_ready(lambda step: interrupt(signal.SIGINT))


def test_a_node_that_ignores_its_end_is_killed(started: Callable[..., NodeProcess]) -> None:
    code = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say(ready=True)
while True: signal.pause()
"""
    with started(code, stop_timeout_s=0.1) as node:
        node.until_ready(lambda step: None)
        node.stop()
        assert node.wait() == 128 + signal.SIGKILL
