"""The receiver of traces, started and ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.places import ROOT


class Receiver:
    """One that runs. ``spans``: what has come so far."""

    def __init__(self, place: Path, port: int) -> None:
        self._place = place
        self.endpoint = f"http://127.0.0.1:{port}/v1/traces"

    def spans(self) -> list[dict[str, Any]]:
        if not self._place.exists():
            return []
        lines = self._place.read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in lines]


@contextmanager
def receiver(place: Path, mode: str) -> Iterator[Receiver]:
    argv = [sys.executable, "-m", "tests.servers.otlp_receiver", str(place), mode]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        yield Receiver(place, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
