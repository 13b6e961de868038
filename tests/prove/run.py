"""The long proofs: ``python tests/prove/run.py [--quick] [--only kills|agents|recall|mesh] [--seed SEED]``.

(a) kills under load, (b) two hundred agents, (c) recall of the memory, (d) three nodes whose
wires and processes are killed. Prints tables and PASS or FAIL; exit status 1 on
any failure. A failed proof keeps its directory and says where it is.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console

from tests.prove.agents import prove_agents
from tests.prove.cluster import LONG_S, QUICK_S, prove_mesh
from tests.prove.kills import prove_kills
from tests.prove.recall import prove_recall

KILLS, QUICK_KILLS = 40, 8


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KILLS} kills instead of {KILLS}")
    parser.add_argument("--only", choices=("kills", "agents", "recall", "mesh"))
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeat the random choices of a run")
    options = parser.parse_args()
    console = Console()
    console.print(f"seed {options.seed}", highlight=False)
    passed = True
    if options.only in (None, "kills"):
        passed &= prove_kills(console, options.seed, QUICK_KILLS if options.quick else KILLS)
    if options.only in (None, "agents"):
        passed &= prove_agents(console, options.quick)
    if options.only in (None, "recall"):
        passed &= prove_recall(console)
    if options.only in (None, "mesh"):
        passed &= prove_mesh(console, options.seed, QUICK_S if options.quick else LONG_S)
    console.print("PASS" if passed else "FAIL", style="bold green" if passed else "bold red")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
