"""The mutants of some modules, and the tests to kill them: ``python -m tests.prove.mutation_suite MODULE ...``.

For :mod:`tests.prove.mutation`, in a process of its own, as pytest has what is mutated imported from then on. Exit
status 1 when the tests do not hold of the originals, or when a mutant lives on without a reason.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from tests.prove.mutation import TESTS, judge, run_suite


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="+", choices=TESTS, metavar="MODULE", help=", ".join(TESTS))
    parser.add_argument("--json", action="store_true", help="what became of each mutant, for the proof")
    options = parser.parse_args()
    suite = run_suite(Console(stderr=True), options.modules)
    if suite.failed or not suite.fates:
        print(f"of the original: {suite.failed or 'no test'}", file=sys.stderr)
        return 1
    if options.json:
        rows = [
            [mutant.module, mutant.name, mutant.was, mutant.now, fate] for mutant, fate in suite.fates.items()
        ]
        print(json.dumps(rows))
        return 0
    return 0 if judge(Console(), list(suite.fates.items())) else 1


if __name__ == "__main__":
    sys.exit(main())
