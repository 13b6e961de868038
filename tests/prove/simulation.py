"""Seeds of the simulation, of one node and of two, and what they see of past defects that are put back one at a time.

``python -m tests.simulation --seed S --nodes N`` shows one seed again.
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
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = {1: 1000, 2: 400}  # by nodes
QUICK_SEEDS = {1: 20, 2: 20}
AT_ONCE = 20


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _seeds(part: tuple[int, int]) -> subprocess.CompletedProcess[str]:
    nodes, first = part
    return _run(["--nodes", str(nodes), "--first", str(first), "--seeds", str(AT_ONCE)])


def _put_back(mutant: Mutant) -> subprocess.CompletedProcess[str]:
    nodes = mutant.nodes
    return _run(["--mutant", mutant.name, "--nodes", str(nodes), "--seeds", str(SEEDS[nodes]), "--brief"])


def prove_simulation(console: Console, seed: str, quick: bool) -> bool:
    """Every seed holds, and nothing is warned of; with each defect put back one does not. ``seed`` says where a quick
    run begins.
    """
    first = sum(seed.encode()) * 1_000 if quick else 0
    parts = [
        (nodes, start)
        for nodes, seeds in (QUICK_SEEDS if quick else SEEDS).items()
        for start in range(first, first + seeds, AT_ONCE)
    ]
    mutants = MUTANTS[:2] if quick else MUTANTS
    with ThreadPoolExecutor(PARALLEL) as pool:
        runs = [*follow(console, "simulation", len(parts), pool.map(_seeds, parts))]
        failed = [done.stdout + done.stderr for done in runs if done.returncode or done.stderr]
        console.print("\n".join(failed), highlight=False, markup=False)
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
    console.print(f"{' ok ' if held else 'FAIL'} {len(parts) * AT_ONCE} seeds, {len(failed)} parts of them failed; "
                  f"{caught} of {len(mutants)} defects seen",
                  style="green" if held else "red", highlight=False)  # fmt: skip
    return held
