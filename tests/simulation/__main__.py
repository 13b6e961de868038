"""Run seeds: ``python -m tests.simulation [--seeds N] [--first N] [--nodes N]``; ``make simulate SEEDS=1000``.

Each seed runs twice, in processes of two hash seeds, and must come to the same steps and bytes: what differs follows
from something that no seed decides. At the end a table says how often each rare state was reached and each invariant
looked at. The first seed that fails is shown, shrunk to the fewest decisions that still fail, and how to run just these
again. Exit status 1 when a seed failed, or when a rare state was never reached by enough seeds.

``--seed S`` runs one alone, ``--only 3,17`` these decisions of it, ``--mutant NAME`` with a past defect put back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from tests.simulation.mutants import MUTANTS, put_back


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", help="this one alone")
    parser.add_argument("--only", help="these decisions of it alone: numbers with commas between")
    parser.add_argument(
        "--nodes", type=int, choices=(1, 2), help="one, or two with a link; else every third has two"
    )
    parser.add_argument("--steps", type=int, help="how many decisions each")
    parser.add_argument(
        "--brief", action="store_true", help="say what failed in one line, and do not shrink it"
    )
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--mutant", choices=names, help="with this defect of the past put back")
    parser.add_argument(
        "--batch", action="store_true", help="for the program itself: a line of JSON for each seed"
    )
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}, must be 1 or more")
    if options.mutant:
        put_back(options.mutant)
    from tests.simulation import campaign

    seeds: Sequence[str] = [str(number) for number in range(options.first, options.first + options.seeds)]
    if options.batch:
        return campaign.run_batch(seeds, options.nodes, options.steps)
    if options.seed is not None or options.brief or options.mutant:
        seeds = seeds if options.seed is None else [options.seed]
        only = [int(number) for number in options.only.split(",")] if options.only else None
        return campaign.run_here(seeds, options.nodes or 1, options.steps, only, brief=options.brief)
    return campaign.run_all(Console(), options.first, options.seeds, options.nodes, options.steps)


if __name__ == "__main__":
    sys.exit(main())
