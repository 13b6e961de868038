"""Starts the scripted embeddings server as a real process, for tests and proofs."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import HANG_S

EMBEDDING_SERVER = Path(__file__).with_name("embedding_server.py")


class EmbeddingServer:
    """A running embeddings server. ``base_url`` is what a provider is configured with."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def asked(self) -> dict[str, int]:
        """How many texts were sent for each model."""
        with urllib.request.urlopen(self.base_url + "/requests", timeout=HANG_S) as answer:
            counts: dict[str, int] = json.load(answer)
        return counts

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """An embeddings server, gone at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, str(EMBEDDING_SERVER), "--port", "0", "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        yield EmbeddingServer(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
