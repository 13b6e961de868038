"""The simulation itself: it holds, it is the same each time, and the defects it looks for can still be put back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT
from tests.simulation.mutants import MUTANTS, edited
from tests.simulation.run import simulate

SEEDS = {1: 20, 2: 15}
NODES = pytest.mark.parametrize("nodes", SEEDS)


@NODES
def test_nodes_keep_their_word_whatever_befalls_them(nodes: int) -> None:
    failed = {
        seed: fault for seed in range(SEEDS[nodes]) if (fault := simulate(str(seed), nodes=nodes).fault)
    }
    assert not failed, (
        f"python -m tests.simulation --nodes {nodes} --seed SEED shows one with its fewest steps"
    )


@NODES
def test_a_seed_decides_every_step_and_every_byte(nodes: int) -> None:
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


def test_a_run_has_of_everything() -> None:
    kinds: set[str] = set()
    for seed in range(7):
        kinds |= set(simulate(f"kinds {seed}").kinds)
        kinds |= set(simulate(f"kinds {seed}", nodes=2).kinds)
    assert kinds >= {
        "message.accepted", "message.dead", "process.exited", "process.slot", "process.spawned", "process.started",
        "tool.intent", "tool.outcome", "tool.resolved", "tool.probed", "turn.ended", "turn.started", "model.asked",
        "sys.value",
        "monitor.set", "monitor.removed", "monitor.down",
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
