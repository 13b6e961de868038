"""The long proofs: ``python tests/prove/run.py [--quick] [--only PART] [--seed SEED]``.

Of the ledger: every byte changed, killed at every call that writes, every disk that a power cut could leave, each sync
left out once. Of the node: kills under load, two hundred agents, recall of the memory, three nodes whose wires and
processes are killed. Prints tables and PASS or FAIL; exit status 1 on any failure. A failed proof keeps its directory
and says where it is.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console

from tests.prove.agents import prove_agents
from tests.prove.cluster import LONG_S, QUICK_S, prove_mesh
from tests.prove.crash_walk import prove_crashes
from tests.prove.kills import prove_kills
from tests.prove.mutants import prove_mutants
from tests.prove.power_cut import prove_power_cuts
from tests.prove.recall import prove_recall
from tests.prove.tamper import prove_tampering
from tests.prove.tamper_db import prove_tampering_db

KILLS, QUICK_KILLS = 40, 8
Prove = Callable[[Console, str, bool], bool]
PARTS: dict[str, Prove] = {
    "tamper": prove_tampering,
    "database": prove_tampering_db,
    "crash": prove_crashes,
    "power": prove_power_cuts,
    "mutants": lambda console, seed, quick: quick or prove_mutants(console, seed),
    "kills": lambda console, seed, quick: prove_kills(console, seed, QUICK_KILLS if quick else KILLS),
    "agents": lambda console, seed, quick: prove_agents(console, quick),
    "recall": lambda console, seed, quick: prove_recall(console),
    "mesh": lambda console, seed, quick: prove_mesh(console, seed, QUICK_S if quick else LONG_S),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer kills, bytes and states, chosen by the seed"
    )
    parser.add_argument("--only", choices=tuple(PARTS))
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeat the random choices of a run")
    options = parser.parse_args()
    console = Console()
    console.print(f"seed {options.seed}", highlight=False)
    passed = True
    for name, prove in PARTS.items():
        if options.only in (None, name):
            passed &= prove(console, options.seed, options.quick)
    console.print("PASS" if passed else "FAIL", style="bold green" if passed else "bold red")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
