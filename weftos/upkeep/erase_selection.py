"""Finds what an erasure means: ``python -P -m weftos.upkeep.erase_selection --data DIR``.

A process of its own, with low priority, for it may have to read the whole ledger. The selection comes as JSON on
standard input; a line of JSON with the plan, or with ``error`` (``code`` and ``message`` of a KernelError), goes to
standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from chain.errors import ChainError
from chain.state.history import History
from kernel.errors import KernelError
from kernel.helper.helper import die_with_parent
from kernel.upkeep.erasure import Selection, as_json, plan_erasure

NICE = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process. Exit status 1 when the ledger cannot be read; standard error says why."""
    parser = argparse.ArgumentParser(prog="weftos.upkeep.erase_selection")
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args(argv).data
    die_with_parent()
    os.nice(NICE)
    selection = Selection.of(json.load(sys.stdin))
    try:
        print(json.dumps(as_json(plan_erasure(History(data), selection))))
    except KernelError as error:
        print(json.dumps({"error": {"code": error.code, "message": str(error)}}))
    except (ChainError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
