"""``python benchmarks/run.py [-k EXPRESSION] [--short] [--markdown]``: measure, and print each figure beside its floor.

Nothing here passes or fails by a time: the aims are shown, not asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.conftest import Unit

HERE = Path(__file__).parent
COLUMNS = ("what", "p50", "p99", "aim", "floor", "floor p50", "ratio", "loop lag p99")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="only these, as pytest -k")
    parser.add_argument("--short", action="store_true", help="leave out what takes long")
    parser.add_argument("--markdown", action="store_true", help="print the table for a document")
    options = parser.parse_args()
    load = os.getloadavg()[1]
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.json"
        words = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly"]
        words += ["--benchmark-quiet", f"--benchmark-json={results}", "-k", options.k]
        words += ["-m", "not long"] if options.short else []
        status = int(pytest.main([*words, *map(str, sorted(HERE.rglob("bench_*.py")))]))
        rows = [row for result in _results(results) for row in _rows(result)]
    if options.markdown:
        print("\n".join("| " + " | ".join(row) + " |" for row in [COLUMNS, ("---",) * len(COLUMNS), *rows]))
    else:
        _print(rows)
    print(
        f"load average of five minutes: {load:.1f} before, {os.getloadavg()[1]:.1f} behind; {os.cpu_count()} cores"
    )
    return status


def _results(path: Path) -> list[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    results: list[dict[str, Any]] = json.loads(text)["benchmarks"] if text else []
    return results


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """One line for each floor; what was measured stands in the first."""
    info = result["extra_info"]
    samples = sorted(result["stats"]["data"])
    p50 = samples[len(samples) // 2]
    p99 = samples[int(len(samples) * 0.99)]
    unit = info["unit"]
    lag = "" if info["loop_lag_p99_ms"] is None else f"{info['loop_lag_p99_ms']:.1f} ms"
    tail = _amount(p99, unit) if len(samples) > 99 else ""
    rows = []
    for number, (name, floor) in enumerate(info["floors"]):
        first = (info["label"], _amount(p50, unit), tail, info["aim"]) if number == 0 else ("", "", "", "")
        ratio = f"{p50 / floor:.1f}" if floor else ""
        rows.append((*first, name, _amount(floor, unit), ratio, lag if number == 0 else ""))
    return rows


def _amount(seconds: float, unit: Unit) -> str:
    if unit == "rate":
        return f"{1 / seconds:,.0f}/s"
    if unit == "count":
        return f"{seconds:.1f}"
    if unit == "bytes":
        return f"{seconds / 1024:.1f} KiB"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _print(rows: list[tuple[str, ...]]) -> None:
    table = Table(*COLUMNS, title="each beside its floor of the same run")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    sys.exit(main())
