"""A step by syscalls alone: a model answers with a tool call, a worker runs it, durably.

The model is a server on loopback that costs next to nothing; the behaviour asks and calls without a pipeline and times
itself in the cell. Beside it, in the same run, the same loop as one writes it by hand (``by_hand.py``), which records
nothing and calls a function: with the gateway's HTTP client, with httpx, and over bare sockets. What the pipeline of an
agent adds, ``bench_agent.py`` measures.
"""

from __future__ import annotations

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor
from benchmarks.processes import STRACE, voluntary_switches
from benchmarks.turn.by_hand import CLIENTS
from benchmarks.turn.loops import COUNTED_STEPS, FLOORS, KIB, UNMEASURED, Bench, crowd

CONTEXT_STEPS = 60
AIMS = {1: "1.5 x httpx, 3 x the client", 10: "1.5 x httpx, 0.4 x the client", 200: "no less than ten"}
COUNT_AIMS = {"turns of the loop": "at most 8", "futex": "at most 12", "fdatasync": "at most 2"}
CROWDS = [1, 10, pytest.param(50, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.long)]


@pytest.mark.parametrize("pause_ms", [0, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("agents", CROWDS)
def test_step(bench: Bench, report: Report, agents: int, pause_ms: int) -> None:
    ours, others = bench.both(agents, pause_ms)
    alone = agents == 1
    floors = [Floor(FLOORS[name], o.p50_s if alone else o.each_s) for name, o in others.items()]
    report(
        f"a step, {crowd(agents)}, model at {pause_ms} ms",
        ours.took_s if alone else [ours.each_s],
        floors,
        aim="" if pause_ms else AIMS.get(agents, ""),
        lag_ms=bench.node.loop_lag_p99_ms,
        unit="duration" if alone else "rate",
    )


@pytest.mark.parametrize("what", ["node", "gateway", "archive", "worker", "cell"])
@pytest.mark.parametrize("agents", CROWDS)
def test_processor_time(bench: Bench, report: Report, agents: int, what: str) -> None:
    ours, others = bench.both(agents, 0)
    beside = ("httpx", "gateway") if what == "node" else ("gateway",)
    report(
        f"processor time of a step, {what}, {crowd(agents)}",
        [ours.processor_s[what]],
        [Floor(FLOORS[name], others[name].processor_s["by hand"]) for name in beside],
        aim="the httpx loop's" if what == "node" else "",
    )


@pytest.mark.parametrize("kib", [1, 64, 512])
def test_context(bench: Bench, report: Report, kib: int) -> None:
    ours = bench.steps(1, CONTEXT_STEPS, context_bytes=kib * KIB)
    others = {name: bench.by_hand(name, 1, CONTEXT_STEPS, context_bytes=kib * KIB) for name in CLIENTS}
    report(
        f"a step, context of {kib} KiB",
        ours.took_s,
        [Floor(FLOORS[name], other.p50_s) for name, other in others.items()],
        lag_ms=bench.node.loop_lag_p99_ms,
    )


@pytest.mark.parametrize("kib", [1, pytest.param(512, marks=pytest.mark.long)])
def test_processor_time_of_the_node_with_a_context(bench: Bench, report: Report, kib: int) -> None:
    ours = bench.steps(1, CONTEXT_STEPS, context_bytes=kib * KIB)
    other = bench.by_hand("gateway", 1, CONTEXT_STEPS, context_bytes=kib * KIB)
    report(
        f"processor time of a step, node, context of {kib} KiB",
        [ours.processor_s["node"]],
        [Floor(FLOORS["gateway"], other.processor_s["by hand"])],
        aim="512 KiB: 1.5 x 1 KiB" if kib > 1 else "",
    )


@pytest.mark.parametrize("what", ["turns of the loop", "futex", "fdatasync", "pwrite", "sends", "receives"])
def test_system_calls(bench: Bench, report: Report, what: str) -> None:
    if STRACE is None:
        pytest.skip("strace is not installed")
    ours, other = bench.system_calls()
    report(
        f"{what} of the node a step",
        [ours[what]],
        [Floor(FLOORS["gateway"], round(other[what], 1))],
        aim=COUNT_AIMS.get(what, ""),
        unit="count",
    )


@pytest.mark.parametrize("agents", [1, 10])
def test_switches(bench: Bench, report: Report, agents: int) -> None:
    [node] = bench.processes()["node"]
    bench.order(agents, UNMEASURED)
    before = voluntary_switches(node)
    bench.order(agents, 0)
    between = voluntary_switches(node)
    bench.order(agents, COUNTED_STEPS // agents)
    switches = (voluntary_switches(node) - 2 * between + before) / COUNTED_STEPS
    report(
        f"times that threads of the node went to sleep a step, {crowd(agents)}",
        [switches],
        [Floor("none", 0.0)],
        unit="count",
    )
