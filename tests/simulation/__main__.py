"""Run seeds: ``python -m tests.simulation [--seeds N] [--seed S] [--nodes N] [--steps N] [--mutant NAME]``. The first
that fails is shown, as short as it comes. Exit status 1 when one did.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.mutants import MUTANTS, put_back


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", help="this one alone")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1, help="one, or two with a link")
    parser.add_argument("--steps", type=int, help="how many each")
    parser.add_argument(
        "--brief", action="store_true", help="say what failed in one line, and do not shorten it"
    )
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--mutant", choices=names, help="with this defect of the past put back")
    options = parser.parse_args()
    if options.mutant:
        put_back(options.mutant)
    from tests.simulation.run import STEPS, shortest, simulate

    numbers = range(options.first, options.first + options.seeds)
    seeds = [options.seed] if options.seed is not None else [str(number) for number in numbers]
    started = time.perf_counter()
    for seed in seeds:
        failed = simulate(seed, options.steps or STEPS, options.nodes)
        if failed.fault and options.brief:
            print(f"seed {seed}: {failed.fault.splitlines()[0]}")
            return 1
        if failed.fault:
            print("\n".join([f"seed {seed} failed: {failed.fault}", "the fewest steps that do:"]))
            failed = shortest(failed)
            print("\n".join([*failed.steps, failed.fault]))
            return 1
    print(f"{len(seeds)} seeds held in {time.perf_counter() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
