"""Seeds of the simulation, of one node and of two, and what they see of past defects that are put back one at a time.

``make simulate SEEDS=1000`` runs more of them; ``python -m tests.simulation --seed S --nodes N`` shows one again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rich import box
from rich.console import Console
from rich.table import Table

from tests.places import ROOT
from tests.prove.progress import follow
from tests.prove.walks import PARALLEL
from tests.simulation.campaign import run_all
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS, QUICK_SEEDS = 600, 30
SEEDS_OF_A_DEFECT = 600


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _put_back(mutant: Mutant) -> subprocess.CompletedProcess[str]:
    nodes, seeds = str(mutant.nodes), str(SEEDS_OF_A_DEFECT)
    return _run(["--mutant", mutant.name, "--nodes", nodes, "--seeds", seeds, "--brief"])


def prove_simulation(console: Console, seed: str, quick: bool) -> bool:
    """Every seed holds, and nothing is warned of; with each defect put back one does not. ``seed`` says where a quick
    run begins.
    """
    first = sum(seed.encode()) * 1_000 if quick else 0
    failed = run_all(console, first, QUICK_SEEDS if quick else SEEDS, None, None)
    mutants = MUTANTS[:2] if quick else MUTANTS
    with ThreadPoolExecutor(PARALLEL) as pool:
        seen = [*follow(console, "defects put back", len(mutants), pool.map(_put_back, mutants))]
    table = Table("put back", "mended in", "seen by", box=box.SIMPLE_HEAD)
    caught = 0
    for mutant, done in zip(mutants, seen, strict=True):
        is_seen = done.returncode == 1 and done.stdout.startswith("seed ")
        caught += is_seen
        table.add_row(
            mutant.what,
            mutant.commit,
            done.stdout.strip()[:120]
            if is_seen
            else f"NOT SEEN: {done.stdout.strip()[-120:]} {done.stderr[-300:]}",
        )
    console.print(table)
    held = not failed and caught == len(mutants)
    console.print(f"{' ok ' if held else 'FAIL'} {caught} of {len(mutants)} defects seen",
                  style="green" if held else "red", highlight=False)  # fmt: skip
    return held
