"""One node and one model server for all that is measured of turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.node import BenchNode
from benchmarks.turn.loops import PROVIDER, Bench, module


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """A node of its own, and the model server."""
    with module("server") as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        node = BenchNode("local", PROVIDER.format(url))
        with node:
            yield Bench(node, url)
        server.communicate()
