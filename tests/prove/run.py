"""The long proofs: ``python tests/prove/run.py [--quick] [--part PART ...] [--seed SEED]``; ``make prove [PART=...]``.

Each part by its name, none longer than ten minutes on two quiet cores. Says at the start what it will take, prints a
line for each part while it runs, and at the end a table and PASS or FAIL; exit status 1 on any failure. A failed proof
keeps its directory and says where it is.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich import box
from rich.console import Console
from rich.table import Table

from tests.prove.agents import prove_agents
from tests.prove.chaos.proof import prove_chaos
from tests.prove.cluster import LONG_S, QUICK_S, prove_mesh
from tests.prove.commit_replay import prove_commit_replay
from tests.prove.crash_walk import prove_crashes
from tests.prove.deeds import prove_deeds
from tests.prove.fault_walk import prove_faults
from tests.prove.forged import prove_forged
from tests.prove.frames import prove_frames
from tests.prove.interruptions import prove_interruptions
from tests.prove.kills import prove_kills
from tests.prove.mutants import prove_mutants
from tests.prove.mutation import prove_mutation
from tests.prove.power_cut import prove_power_cuts
from tests.prove.recall import prove_recall
from tests.prove.scale import prove_scale
from tests.prove.simulation import prove_simulation
from tests.prove.stages.chats import prove_chats
from tests.prove.stages.proof import prove_stages
from tests.prove.tamper import prove_tampering
from tests.prove.tamper_db import prove_tampering_db
from tests.prove.turn_walk import prove_turns

ROOT = Path(__file__).resolve().parents[2]
KILLS, QUICK_KILLS = 40, 8
BLOWS, QUICK_BLOWS = 250, 40
Prove = Callable[[Console, str, bool], bool]


@dataclass(frozen=True, slots=True)
class Part:
    """One proof. ``minutes``: what it took on two quiet cores, or half of its processor time for one that keeps both
    busy.
    """

    name: str
    what: str
    minutes: float
    prove: Prove


def command(*words: str) -> Prove:
    """A proof that is a program of its own: it holds when that ends with status 0."""

    def prove(console: Console, seed: str, quick: bool) -> bool:
        return subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode == 0

    return prove


PARTS = (
    Part("slow", "tests that take long, on several raylets too", 7, command("-m", "pytest", "-m", "slow")),
    Part("vectors", "each published answer, each byte of a key changed", 1, command("-m", "tests.chain.vectors")),
    Part("hostile", "a hostile peer against a guarded node", 1, command("-m", "tests.mesh.hostile_peer")),
    Part("frames", "a hundred thousand hostile frames each from a cell and a peer", 4, prove_frames),
    Part("forged", "state forged without a key, in every kind of record and in the snapshot", 1, prove_forged),
    Part("tamper", "every byte and field of a ledger changed", 7, prove_tampering),
    Part("database", "bytes of the audit database changed", 3, prove_tampering_db),
    Part("crash", "killed at each call that writes", 3, prove_crashes),
    Part("power", "disks that a power cut could leave", 1, prove_power_cuts),
    Part("replay", "whatever commit takes, replay and snapshot take: 90,000 units of records", 3, prove_commit_replay),
    Part("turns", "one turn that does everything, killed or refused at each call that writes", 3, prove_turns),
    Part("faults", "reads, threads and awaits fail in a life that does everything; a node squeezed", 8, prove_faults),
    Part("mutants", "each sync left out once", 2, prove_mutants),
    Part("mutation", "mutants of restarts, mail and replay: killed by a test, or with a reason", 2, prove_mutation),
    Part("simulation", "one kernel and two under a virtual clock; past defects put back", 8, prove_simulation),
    Part("kills", "kills of every part of a node under load", 3,
         lambda console, seed, quick: prove_kills(console, seed, QUICK_KILLS if quick else KILLS)),
    Part("stages", "a turn of ten calls: killed at each stage, in each question, in each call", 7, prove_stages),
    Part("chats", "messages of chats while node and cells are killed: each answered once", 6, prove_chats),
    Part("interruptions", "cancel, stop, kill and timeouts in the middle of calls", 4,
         lambda console, seed, quick: prove_interruptions(console, seed, QUICK_BLOWS if quick else BLOWS)),
    Part("chaos", "300 agents on Ray: cells, workers, Ray, placer, node killed; cancels, stops", 6, prove_chaos),
    Part("agents", "two hundred agents at once", 2,
         lambda console, seed, quick: prove_agents(console, quick)),
    Part("deeds", "300 turns with compactions: what was done is known and done once; 2,000 turns cost the same", 4,
         prove_deeds),
    Part("scale", "1,000, 10,000 and 50,000 idle agents on one node, in a table", 3,
         lambda console, seed, quick: prove_scale(console, quick)),
    Part("recall", "what the memory finds, in a table", 1,
         lambda console, seed, quick: prove_recall(console)),
    Part("mesh", "traffic between nodes while nodes and links are killed", 4,
         lambda console, seed, quick: prove_mesh(console, seed, QUICK_S if quick else LONG_S)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """How a part went."""

    part: Part
    held: bool
    took_s: float


def run_part(console: Console, part: Part, seed: str, quick: bool) -> Done:
    console.rule(f"{part.name}: {part.what}, about {part.minutes:g} min", align="left")
    started = time.monotonic()
    try:
        held = part.prove(console, seed, quick)
    except Exception:  # a proof that breaks off has failed, and the others go on
        console.print_exception()
        held = False
    return Done(part, held, time.monotonic() - started)


def print_done(console: Console, rows: list[Done]) -> None:
    table = Table("part", "what", "took", "", box=box.SIMPLE_HEAD)
    for row in rows:
        took = f"{row.took_s / 60:.1f} min"
        verdict = "[green]PASS[/]" if row.held else "[red]FAIL[/]"
        table.add_row(row.part.name, row.part.what, took, verdict)
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer kills, bytes and states, chosen by the seed"
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--part", action="append", choices=names, help="this one alone; again for more")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeat the random choices of a run")
    options = parser.parse_args()
    chosen = [part for part in PARTS if options.part is None or part.name in options.part]
    console = Console()
    total = sum(part.minutes for part in chosen)
    console.print(
        f"{len(chosen)} parts, about {total:g} minutes on two quiet cores; seed {options.seed}",
        highlight=False,
    )
    rows = [run_part(console, part, options.seed, options.quick) for part in chosen]
    print_done(console, rows)
    passed = all(row.held for row in rows)
    console.print("PASS" if passed else "FAIL", style="bold green" if passed else "bold red")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
