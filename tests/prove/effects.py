"""The effect server as the harness sees it: started, asked, stopped."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import HANG_S
from tests.places import ROOT


class EffectServer:
    """A running effect server. ``log`` holds one line an effect, as often as it happened."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.log = log

    def counts(self, effects: list[str] | None = None) -> dict[str, int]:
        """How often each of these effects, or every one, has happened. Settled: nothing of them is under way."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S) as link,
            link.makefile("rwb") as lines,
        ):
            lines.write(json.dumps({"ask": effects}).encode() + b"\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
        return {str(effect): int(count) for effect, count in answer["counts"].items()}


@contextmanager
def effect_server(log: Path, delay_s: float) -> Iterator[EffectServer]:
    """An effect server, gone at the end of the block."""
    with server("tests.prove.effect_server", str(log), str(delay_s)) as port:
        yield EffectServer(port, log)


@contextmanager
def server(module: str, *words: str) -> Iterator[int]:
    """A module that prints its port and serves until its standard input closes, gone at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
