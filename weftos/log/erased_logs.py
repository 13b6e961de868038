"""Which files of the node's log may still say what was erased from its ledger.

The node itself writes no text of a message, a prompt or an exception of a turn into its log. What behaviours log stands
there under their PIDs; what tools, cells and helpers print is in files of its own, where nobody can tell whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

NODE_LOG = "node.jsonl"
PROCESSES_LOG = "processes.jsonl"
UNKNOWN = -1


def logged(directory: Path, pids: Collection[int]) -> list[tuple[str, int]]:
    """Each file of the log ``directory`` that may, and how many lines of ``pids``; :data:`UNKNOWN` for printed ones."""
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if not path.is_file():
            continue
        lines = _lines_of(path, pids) if path.name.startswith((NODE_LOG, PROCESSES_LOG)) else _printed(path)
        if lines:
            found.append((f"{directory.name}/{path.name}", lines))
    return found


def _printed(path: Path) -> int:
    return UNKNOWN if path.stat().st_size else 0


def _lines_of(path: Path, pids: Collection[int]) -> int:
    """Lines that a process of ``pids`` has logged itself, or that say why it did not start."""
    count = 0
    with path.open("rb") as file:
        for line in file:
            try:
                told = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(told, dict) and told.get("pid") in pids and ("text" in told or "why" in told):
                count += 1
    return count
