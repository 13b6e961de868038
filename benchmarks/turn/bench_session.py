"""What a session holds of memory, idle behind one exchange: awake (a process of its own), asleep, and as history alone.

The node and the cells that its agents live in are counted, each with its share of what it holds together with others,
between a first third of them and the rest: what the first of them needs, others need no more. Of each cell what one
agent alone makes it hold is left out, for a cell is there for thousands. Beside it a bare task of an event loop that
holds the same messages.
"""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import Callable

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor
from benchmarks.node import WAIT_S
from benchmarks.processes import held_bytes
from benchmarks.turn.agents import TEXT, Agents
from benchmarks.turn.loops import Bench
from benchmarks.turn.server import AGENT_MODEL
from kernel.bounds import Bounds

RUNNING = Bounds().running_sessions
SESSIONS = [600, pytest.param(1500, marks=pytest.mark.long)]
AIM = "under 30 KB"
BARE_TASKS = 1_000
ALONE = "alone"
_CHATS = itertools.count()


@pytest.fixture(scope="module")
def cell_bytes(bench: Bench) -> int:
    """What a cell holds with one agent in it that has answered once."""
    model = AGENT_MODEL.format(0, 0)
    bench.node.client.spawn(ALONE, provider="bench", model=model, isolation="dedicated")
    bench.node.client.send(ALONE, TEXT, wait_s=WAIT_S)
    return held_bytes(next(row["os_pid"] for row in bench.node.rows() if row["name"] == ALONE))


def held(bench: Bench, cell_bytes: int) -> int:
    """By the node, and by its cells beyond that."""
    processes = bench.processes()
    cells = sum(held_bytes(pid) - cell_bytes for pid in processes["cell"])
    return cells + sum(map(held_bytes, processes["node"]))


def bare_session() -> Floor:
    """A task that waits, and an exchange that it holds."""

    async def session(queue: asyncio.Queue[str]) -> None:
        exchange = [{"role": "user", "content": TEXT + "."}, {"role": "assistant", "content": TEXT + "!"}]
        exchange.append({"role": "user", "content": await queue.get()})

    async def main() -> float:
        tracemalloc.start()
        tasks = [asyncio.create_task(session(asyncio.Queue())) for _ in range(BARE_TASKS)]
        await asyncio.sleep(0)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for task in tasks:
            task.cancel()
        return taken / BARE_TASKS

    return Floor("a bare task with its messages", asyncio.run(main()))


def chats(bench: Bench, agents: Agents, count: int) -> None:
    """So many exchanges, each with a chat of its own, that take turns at the agents."""
    names = itertools.cycle(agents.names)
    said = {"text": TEXT, "channel": "bench", "wait_s": WAIT_S}
    bodies = [{"target": next(names), "chat": f"c{next(_CHATS)}", **said} for _ in range(count)]
    bench.node.post("/send", bodies, 40)


def histories(bench: Bench, agents: Agents, count: int) -> None:
    """So many sessions of the agents' own processes."""
    names = itertools.cycle(agents.names)
    said = {"text": TEXT, "wait_s": WAIT_S}
    bodies = [{"target": next(names), "session": f"h{next(_CHATS)}", **said} for _ in range(count)]
    bench.node.post("/send", bodies, 40)


def of_each(
    bench: Bench, agents: Agents, count: int, make: Callable[[Bench, Agents, int], None], cell_bytes: int
) -> float:
    """What each of ``count`` adds behind the first third of them."""
    first = count // 3
    make(bench, agents, first)
    before = held(bench, cell_bytes)
    make(bench, agents, count - first)
    return (held(bench, cell_bytes) - before) / (count - first)


@pytest.mark.parametrize("count", SESSIONS)
def test_session_awake(bench: Bench, report: Report, cell_bytes: int, count: int) -> None:
    agents = Agents.spawn(bench, -(-count // (RUNNING // 2)), 0)
    took = of_each(bench, agents, count, chats, cell_bytes)
    report(f"a session of a chat, idle, {count} at once", [took], [bare_session()], aim=AIM, unit="bytes")


@pytest.mark.parametrize("count", SESSIONS)
def test_session_asleep(bench: Bench, report: Report, cell_bytes: int, count: int) -> None:
    """An agent keeps so many of its sessions running and no more."""
    agents = Agents.spawn(bench, 2, 0)
    chats(bench, agents, 2 * RUNNING)
    took = of_each(bench, agents, count, chats, cell_bytes)
    report(f"a session of a chat, asleep, {count} at once", [took], [bare_session()], aim=AIM, unit="bytes")


@pytest.mark.parametrize("count", SESSIONS)
def test_history(bench: Bench, report: Report, cell_bytes: int, count: int) -> None:
    agents = Agents.spawn(bench, 1, 0)
    took = of_each(bench, agents, count, histories, cell_bytes)
    report(f"a session of the agent itself, {count} at once", [took], [bare_session()], aim=AIM, unit="bytes")
