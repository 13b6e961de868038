"""``python -P -m kernel.cell``: a cell of the local engine. One JSON line on stdin: dial, token, boot."""

from __future__ import annotations

import json
import sys

from kernel.cell.lifeline import die_with_parent
from kernel.cell.shell import run_cell


def main() -> None:
    die_with_parent()
    order = json.loads(sys.stdin.readline())
    sys.stdin.close()
    run_cell(order["dial"], order["token"], order["boot"])


main()
