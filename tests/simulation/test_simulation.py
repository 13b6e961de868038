"""The simulation itself: it holds, it is the same each time, and the defects it looks for can still be put back."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain

import pytest

from tests.places import ROOT
from tests.simulation.mutants import MUTANTS, edited
from tests.simulation.run import TOGETHER, moments, simulate

SEEDS = {1: 12, 2: 9}
NODES = pytest.mark.parametrize("nodes", SEEDS)


@NODES
def test_nodes_keep_their_word_whatever_befalls_them(nodes: int) -> None:
    failed = {
        seed: fault for seed in range(SEEDS[nodes]) if (fault := simulate(str(seed), nodes=nodes).fault)
    }
    assert not failed, (
        f"python -m tests.simulation --nodes {nodes} --seed SEED shows one with its fewest steps"
    )


def test_a_seed_decides_every_step_and_every_byte() -> None:
    nodes = 2
    first, again, other = (simulate(seed, nodes=nodes) for seed in ("same", "same", "other"))
    assert (first.steps, first.digest) == (again.steps, again.digest)
    assert first.digest != other.digest
    program = f"from tests.simulation.run import simulate; print(simulate('same', nodes={nodes}).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {first.digest}


@NODES
def test_what_a_decision_brings_does_not_hang_on_those_before_it(nodes: int) -> None:
    whole = simulate("alone", nodes=nodes)
    without = simulate("alone", nodes=nodes, only=whole.decisions[:-1])
    assert without.decisions == whole.decisions[:-1]
    before = len(without.steps) - TOGETHER  # those of the last moment may have lost a companion
    assert without.steps[:before] == whole.steps[:before]
    some = simulate("alone", nodes=nodes, only=whole.decisions[::3])
    assert {step[:4] for step in some.steps} <= {f"{number:4}" for number in some.decisions}


def test_every_decision_befalls_a_node_once_alone_or_with_those_behind_it() -> None:
    whole, some = moments("a", range(100)), moments("a", range(0, 100, 7))
    assert [*chain.from_iterable(whole)] == list(range(100))
    assert {len(each) for each in whole} == {1, 2, 3}
    assert [*chain.from_iterable(some)] == list(range(0, 100, 7))


def test_a_run_has_of_everything() -> None:
    kinds: set[str] = set()
    for seed in range(10):
        kinds |= set(simulate(f"kinds {seed}").kinds)
        kinds |= set(simulate(f"kinds {seed}", nodes=2).kinds)
    assert kinds >= {
        "message.accepted", "message.dead", "process.exited", "process.slot", "process.spawned", "process.started",
        "tool.intent", "tool.outcome", "tool.resolved", "tool.probed", "turn.ended", "turn.started", "model.asked",
        "sys.value",
        "message.keyed", "topic.published", "topic.subscribed",
        "monitor.set", "monitor.removed", "monitor.down", "monitor.traps", "process.changed",
        "budget.reserved", "budget.warned",
        "message.sent", "message.acknowledged", "message.replied", "message.replayed", "message.refused",
        "peer.up", "peer.down",
    }  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_defect_of_the_past_can_be_put_back(mutant: object) -> None:
    [found] = [one for one in MUTANTS if one is mutant]
    for module in {edit.module for edit in found.edits}:
        edits = [edit for edit in found.edits if edit.module == module]
        compile(edited(module, edits), module, "exec")


def test_a_defect_that_is_put_back_is_seen() -> None:
    words = [
        sys.executable,
        "-m",
        "tests.simulation",
        "--mutant",
        "dead-told-early",
        "--seeds",
        "20",
        "--brief",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "was told" in done.stdout


SHRINK = """
from tests.simulation.mutants import put_back
put_back("dead-told-early")
from tests.simulation.run import shortest, simulate
failed = next(run for run in (simulate(str(seed)) for seed in range(40)) if run.fault)
least = shortest(failed, runs=40)
again = simulate(failed.seed, only=least.decisions)
assert again.fault == least.fault and again.digest == least.digest, (again, least)
assert set(least.decisions) <= set(failed.decisions)
print(len(failed.decisions), len(least.decisions))
"""


def test_a_seed_that_fails_is_shrunk_to_a_few_decisions_which_fail_again_in_the_same_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHRINK], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, after = map(int, done.stdout.split())
    assert after < before / 2
