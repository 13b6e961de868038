"""Starts the servers of this directory as real processes, for tests."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import HANG_S
from tests.servers.certificates import Certificates

ROOT = Path(__file__).parents[2]


class ModelServer:
    """A running model server. ``base_url`` is what a provider is configured with."""

    def __init__(self, process: subprocess.Popen[str], port: int, tls: Certificates | None) -> None:
        self._process = process
        self._believes = ssl.create_default_context(cafile=tls.authority) if tls else None
        self.base_url = f"http{'s' if tls else ''}://127.0.0.1:{port}/v1"

    def requests(self) -> list[dict[str, Any]]:
        """Everything it was asked so far."""
        with urllib.request.urlopen(
            self.base_url + "/requests", timeout=HANG_S, context=self._believes
        ) as answer:
            asked: list[dict[str, Any]] = json.load(answer)
        return asked

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def model_server(
    directory: Path, script: dict[str, Any], tls: Certificates | None = None
) -> Iterator[ModelServer]:
    """A model server with that script (see ``model_server.py``), gone at the end of the block."""
    path = directory / f"script-{len(list(directory.glob('script-*')))}.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    argv = [sys.executable, "-m", "tests.servers.model_server", "--port", "0", "--script", str(path)]
    process = subprocess.Popen(
        [*argv, "--exit-with-stdin", *(["--tls", str(tls.server)] if tls else [])],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        yield ModelServer(process, int(process.stdout.readline()), tls)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
