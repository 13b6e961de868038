"""A step of an agent with its whole pipeline, policy and ledger on; what each stage takes; how soon a first word comes.

The model wants a call of ``act`` in each answer until it has wanted enough of them. Steps are timed by the entries of
the ledger, from one question to the next; stages by what the turn says of them. Beside it: the same steps by syscalls
alone (``bench_step.py``), and the loops by hand, whose conversations grow as the agent's does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor
from benchmarks.processes import processor_s
from benchmarks.turn.agents import TEXT, Agents, medians, rate_of
from benchmarks.turn.loops import FLOORS, Bench, crowd
from benchmarks.turn.server import AGENT_MODEL
from cognition.turn.order import ORDER

ROUNDS = {1: 40, 50: 16, 200: 8}
TURNS = {1: 4, 50: 1, 200: 1}
CLIENTS = ("gateway", "httpx")
CROWDS = [1, pytest.param(50, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.long)]
STAGE_TURNS = 40
PAIRS = 15
FIRST_WORDS = 40
SKIPPED = [stage.name for stage in ORDER if stage.skippable]
WHOLE = "the whole turn"


@pytest.mark.parametrize("pause_ms", [0, 50])
@pytest.mark.parametrize("agents", CROWDS)
def test_step_of_agents(bench: Bench, report: Report, agents: int, pause_ms: int) -> None:
    rounds = ROUNDS[agents]
    at_work = Agents.spawn(bench, agents, rounds, pause_ms)
    at_work.work()
    turns = [turn for _ in range(TURNS[agents]) for turn in at_work.work()]
    alone = agents == 1
    syscalls = bench.steps(agents, rounds, pause_ms=pause_ms)
    floors = [Floor("by syscalls alone", syscalls.p50_s if alone else syscalls.each_s)]
    for client in CLIENTS:
        by_hand = bench.by_hand(client, agents, rounds, pause_ms=pause_ms, what="growing")
        floors.append(Floor(FLOORS[client], by_hand.p50_s if alone else by_hand.each_s))
    report(
        f"a step, whole pipeline, {crowd(agents)}, model at {pause_ms} ms",
        [took for turn in turns for took in turn.steps_s] if alone else [rate_of(turns)],
        floors,
        aim="" if pause_ms else "1.25 x bench_step before the pipeline",
        lag_ms=bench.node.loop_lag_p99_ms,
        unit="duration" if alone else "rate",
    )


@pytest.mark.parametrize("what", ["node", "cell"])
def test_processor_time_of_an_agent(bench: Bench, report: Report, what: str) -> None:
    rounds = ROUNDS[1]
    worker, talker = Agents.spawn(bench, 1, rounds), Agents.spawn(bench, 1, 0)
    worker.work(), talker.work()
    pids = bench.processes()[what]
    before = sum(map(processor_s, pids))
    talker.work()
    between = sum(map(processor_s, pids))
    worker.work()
    spent = sum(map(processor_s, pids)) - 2 * between + before
    syscalls = bench.steps(1, rounds)
    report(
        f"processor time of a step, whole pipeline, {what}",
        [spent / rounds],
        [Floor("by syscalls alone", syscalls.processor_s[what])],
    )


@pytest.fixture(scope="module")
def told(bench: Bench) -> Iterator[list[dict[str, float]]]:
    """What turns of one question say of their stages, in seconds, and what each took as a whole."""
    talker = Agents.spawn(bench, 1, 0)
    talker.work()
    turns = [turn for _ in range(STAGE_TURNS) for turn in talker.work()]
    yield [{**turn.stages, WHOLE: turn.took_s} for turn in turns]


@pytest.mark.parametrize("stage", [stage.name for stage in ORDER])
def test_stage(report: Report, told: list[dict[str, float]], stage: str) -> None:
    report(
        f"stage {stage}, of a turn of one question",
        [row[stage] for row in told],
        [Floor(WHOLE, medians(told)[WHOLE])],
        aim="p99 under 1 ms" if stage in ("classify", "route") else "",
    )


@pytest.mark.parametrize("left_out", [*SKIPPED, "all of these"])
def test_turn_without(bench: Bench, report: Report, left_out: str) -> None:
    """By turns, one with and one without."""
    names = SKIPPED if left_out == "all of these" else [left_out]
    whole, part = Agents.spawn(bench, 1, 0), Agents.spawn(bench, 1, 0, without=names)
    took: tuple[list[float], list[float]] = [], []
    for number in range(PAIRS + 1):
        for agents, found in zip((whole, part), took, strict=True):
            [turn] = agents.work()
            if number:
                found.append(turn.took_s)
    report(f"a turn without {left_out}", took[1], [Floor("with all stages", median(took[0]))])


def test_first_word(bench: Bench, report: Report) -> None:
    """From the client's request until it sees the first word, all through the node."""
    [name] = Agents.spawn(bench, 1, 0).names
    took = []
    for number in range(FIRST_WORDS + 1):
        began = time.perf_counter()
        for event in bench.node.client.watch(name, TEXT, session=f"first-{number}"):
            if event["event"] == "delta":
                took.append(time.perf_counter() - began)
                break
        bench.node.wait("the answer", lambda: not bench.node.client.inspect(name)["turn"])
    model = AGENT_MODEL.format(0, 0)
    floors = [
        Floor(f"{FLOORS[client]}", bench.by_hand(client, 1, FIRST_WORDS, model=model, what="first").p50_s)
        for client in CLIENTS
    ]
    report("the first word of an answer, seen by a client", took[1:], floors)
