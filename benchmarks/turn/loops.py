"""A node whose provider is the model server, and the loops by hand that ask the same server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.floors import REPOSITORY
from benchmarks.node import WAIT_S, BenchNode
from benchmarks.processes import processor_s, system_calls
from benchmarks.turn.by_hand import CLIENTS
from benchmarks.turn.server import MODEL

STEPS = {1: 200, 10: 60, 50: 16, 200: 5}
UNMEASURED = 3
KIB = 1024
CONTEXT_BYTES = KIB
COUNTED_STEPS = 100
IDLE_S = 1.0
HAND_FACTOR = 4
"""How many times the steps of an agent a loop by hand does: it is faster, and its processor time is told in ticks."""
FLOORS = {
    "gateway": "by hand, the gateway's client",
    "httpx": "by hand, httpx",
    "raw": "by hand, bare sockets",
}
Counts = dict[str, float]
PROVIDER = """
[providers.bench]
kind = "openai"
base_url = "{}"

[model]
default_provider = "bench"
"""


@contextmanager
def module(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A module of this folder as a process, which ends with the block."""
    argv = [sys.executable, "-m", f"benchmarks.turn.{name}", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def crowd(agents: int) -> str:
    return "1 agent" if agents == 1 else f"{agents} agents"


@dataclass(frozen=True)
class Steps:
    """What came of some steps: how long each took, and what each cost, in seconds."""

    took_s: list[float]
    each_s: float
    processor_s: dict[str, float]

    @property
    def p50_s(self) -> float:
        return median(self.took_s)


@dataclass
class Bench:
    """A node whose provider is the model server, and the loops by hand that ask the same server."""

    node: BenchNode
    url: str
    agents: list[str] = field(default_factory=list)
    _measured: dict[tuple[int, int], tuple[Steps, dict[str, Steps]]] = field(default_factory=dict)
    _counted: list[tuple[Counts, Counts]] = field(default_factory=list)

    def names(self, count: int) -> list[str]:
        """The first so many agents, spawned when they are needed."""
        new = [f"stepper{number}" for number in range(len(self.agents), count)]
        self.node.spawn_all(new, tools=["act"])
        self.agents += new
        return self.agents[:count]

    def processes(self) -> dict[str, list[int]]:
        """Who works for a step, by what it is."""
        rows = self.node.client.ps(all=True)
        found: dict[str, list[int]] = {"node": [self.node.client.status()["os_pid"]]}
        for what, name in (("gateway", "gateway"), ("archive", "archive"), ("worker", "timing")):
            found[what] = [row["os_pid"] for row in rows if name in (row["name"] or "") and row["os_pid"]]
        found["cell"] = sorted({row["os_pid"] for row in rows if row["cell"]})
        return found

    def order(
        self, agents: int, count: int, pause_ms: int = 0, context_bytes: int = CONTEXT_BYTES
    ) -> list[dict[str, Any]]:
        """Have each agent take so many steps, all at once."""
        names = self.names(agents)
        begin_s = time.monotonic() + (1.0 + agents / 100 if agents > 1 else 0.0)
        work = {"do": "steps", "model": MODEL.format(pause_ms), "context_bytes": context_bytes}
        return self.node.orders(names, **work, count=count, begin_s=begin_s)

    def steps(self, agents: int, count: int, **more: int) -> Steps:
        """So many of each agent. What an order costs that wants no step is none of theirs."""
        self.order(agents, UNMEASURED, **more)
        processes = self.processes()

        def spent() -> Counts:
            return {what: sum(map(processor_s, pids)) for what, pids in processes.items()}

        before = spent()
        self.order(agents, 0, **more)
        between = spent()
        answers = self.order(agents, count, **more)
        behind = spent()
        took = [ns / 1e9 for answer in answers for ns in answer["took_ns"]]
        all_s = max(a["end_s"] for a in answers) - min(a["begin_s"] for a in answers)
        each = {what: (behind[what] - 2 * between[what] + before[what]) / len(took) for what in processes}
        return Steps(took, all_s / len(took), each)

    @contextmanager
    def loop_by_hand(
        self,
        client: str,
        agents: int,
        count: int,
        pause_ms: int = 0,
        context_bytes: int = CONTEXT_BYTES,
        what: str = "fixed",
        model: str = "",
    ) -> Iterator[tuple[int, Callable[[], Steps]]]:
        """A process that is ready to do the same without a node: its pid, and what has it begin."""
        order = {
            "client": client,
            "url": self.url,
            "model": model or MODEL.format(pause_ms),
            "agents": agents,
        }
        document = json.dumps({**order, "steps": count, "context_bytes": context_bytes, "what": what})
        with module("by_hand", document) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "ready\n"

            def begin() -> Steps:
                told = json.loads(process.communicate("begin\n", timeout=2 * WAIT_S)[0])
                took = [ns / 1e9 for ns in told["took_ns"]]
                return Steps(took, told["took_s"] / len(took), {"by hand": told["processor_s"] / len(took)})

            yield process.pid, begin

    def by_hand(self, client: str, agents: int, count: int, **more: Any) -> Steps:
        """The steps of a loop by hand."""
        with self.loop_by_hand(client, agents, count, **more) as (_, begin):
            return begin()

    def system_calls(self) -> tuple[Counts, Counts]:
        """Of the node and of a loop by hand, a step."""
        if not self._counted:
            [node] = self.processes()["node"]
            self.order(1, UNMEASURED)
            idle = system_calls(node, lambda: threading.Event().wait(IDLE_S))
            empty = system_calls(node, lambda: self.order(1, 0))
            began = time.monotonic()
            busy = system_calls(node, lambda: self.order(1, COUNTED_STEPS))
            idling = (time.monotonic() - began) / IDLE_S
            ours = {what: (busy[what] - empty[what] - idle[what] * idling) / COUNTED_STEPS for what in busy}
            with self.loop_by_hand("gateway", 1, COUNTED_STEPS) as (pid, begin):
                other = system_calls(pid, begin)
            self._counted.append((ours, {what: other[what] / COUNTED_STEPS for what in busy}))
        return self._counted[0]

    def both(self, agents: int, pause_ms: int) -> tuple[Steps, dict[str, Steps]]:
        """The node's and the others', measured once."""
        if (agents, pause_ms) not in self._measured:
            count = max(STEPS[agents] // 5, 5) if pause_ms else STEPS[agents]
            ours = self.steps(agents, count, pause_ms=pause_ms)
            factor = 1 if pause_ms else HAND_FACTOR
            others = {name: self.by_hand(name, agents, factor * count, pause_ms=pause_ms) for name in CLIENTS}
            self._measured[agents, pause_ms] = ours, others
        return self._measured[agents, pause_ms]
