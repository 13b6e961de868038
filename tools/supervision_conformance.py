"""Runs the tests of supervision on each substrate, records what came of them, and writes
docs/supervision-conformance.md of that: ``python -m tools.supervision_conformance``, or ``--on memory`` for what is run
anew (``--on`` alone: nothing is). ``make test`` fails when what it sees is another than what is recorded.

The behaviours stand in supervision_behaviours.py; which tests there are of each is read from their names, and from what
the table names besides.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

from tools.named_tests import ROOT, linked, named, tests_of
from tools.supervision_behaviours import BEHAVIOURS, LINKS

TARGET = ROOT / "docs" / "supervision-conformance.md"
RECORD = ROOT / "tests" / "kernel" / "supervision" / "conformance" / "results.json"
HERE = "tests/kernel/supervision"
CASES = f"{HERE}/conformance/test_cases.py"
_OF_REDUCER = ("strategies", "dynamic_children", "significant_children", "changes", "first_starts")
NUMBERED = {
    "memory": (
        CASES,
        f"{HERE}/conformance/test_in_memory.py",
        *(f"{HERE}/test_{name}.py" for name in _OF_REDUCER),
    ),
    "local": ("tests/integration/test_supervision.py",),
    "ray": ("tests/integration/test_supervision_ray.py",),
}
"""The files of each substrate where the name of a test begins with the numbers of what it is about."""
_LINKS, _LINKS_RAY = "tests/integration/test_links.py", "tests/integration/test_links_ray.py"
_NUMBERS = re.compile(r"test_((?:\d\d_)+)")

_INTRODUCTION = """\
# Supervision beside Erlang/OTP's

Made by `python -m tools.supervision_conformance`, which runs the tests; do not edit by hand. What came of each is
recorded in `tests/kernel/supervision/conformance/results.json`. `make test` fails when what it sees in memory or with
the local engine is another than what is recorded; those on Ray are not part of it, since they take minutes
(`make prove PART=slow`), and it fails when what is recorded of them are not the same bodies with the same results.

The 66 behaviours are those of OTP's own suite (`lib/stdlib/test/supervisor_SUITE.erl`), in our words. Where it runs:

- *memory*: the process tree, or its reducer, over a journal in memory, under a clock that is wound by hand; {memory}.
- *local*: a real node, whose cells are processes, through its API; {local}.
- *Ray*: a real node, whose cells are actors of a real Ray; {ray}.

A number says how many examples passed; what did not run says why. A test of `conformance/test_cases.py` is the same
body everywhere, also in `tests/integration/test_supervision.py` (local) and `test_supervision_ray.py` (Ray).
*Deviation* says where we differ from OTP, or that we have no such thing, and why.
"""


class Outcome(TypedDict):
    """Of one test function: how many examples passed, and how many did not run, by the reason."""

    passed: int
    skipped: dict[str, int]


class Recorded(TypedDict):
    """What a run on one substrate saw. ``made``: when, and with what; ``results``: by the test's file and name."""

    made: str
    results: dict[str, Outcome]


def numbered(number: int, substrate: str) -> Iterator[str]:
    """File and name of each test of a behaviour."""
    for file in NUMBERED[substrate]:
        for name in tests_of(file):
            told = _NUMBERS.match(name)
            if told and f"{number:02}" in told[1].split("_"):
                yield f"{file}::{name}"


def _besides(told: str) -> list[str]:
    """File and name of each test that begins as is told. KeyError when none does."""
    where, _, begins = told.partition("::")
    return named(where if where.endswith(".py") else f"{HERE}/{where}.py", begins)


Row = dict[str, list[str]]


def of_behaviour(number: int) -> Row:
    """Its tests on each substrate."""
    row = {substrate: list(numbered(number, substrate)) for substrate in NUMBERED}
    besides = (each for told in BEHAVIOURS[number].tests for each in _besides(told))
    row["memory"] = list(dict.fromkeys([*row["memory"], *besides]))
    return row


def of_link(number: int) -> Row:
    """The tests on each substrate of a row of links."""
    local = [each for told in LINKS[number].real for each in _besides(told)]
    names = [each.partition("::")[2] for each in local]
    return {
        "memory": [each for told in LINKS[number].tests for each in _besides(told)],
        "local": local,
        "ray": [f"{_LINKS_RAY}::{name}" for name in names if name in tests_of(_LINKS_RAY)],
    }


@cache
def wanted() -> Mapping[str, list[str]]:
    """Every test of the page, by substrate."""
    rows = [*map(of_behaviour, BEHAVIOURS), *map(of_link, range(len(LINKS)))]
    return {name: sorted({each for row in rows for each in row[name]}) for name in NUMBERED}


def record() -> dict[str, Recorded]:
    """What was recorded of each substrate."""
    found: dict[str, Recorded] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def render() -> str:
    """The whole page."""
    kept = record()
    outcomes = {name: outcome for each in kept.values() for name, outcome in each["results"].items()}
    made = {name: kept[name]["made"] if name in kept else "not run yet" for name in NUMBERED}
    behaviours = [
        f"| {number} | {each.says} | {_row(of_behaviour(number), outcomes, each.alone)} | {each.deviation} |"
        for number, each in BEHAVIOURS.items()
    ]
    links = [
        f"| {each.says} | {_row(of_link(number), outcomes, each.alone)} | {each.deviation} |"
        for number, each in enumerate(LINKS)
    ]
    head = "| behaviour | memory | local | Ray | tests | deviation |"
    line = "|---|---|---|---|---|---|"
    top = [_INTRODUCTION.format(**made), f"| {head}", f"|---{line}", *behaviours]
    return "\n".join([*top, "", "## Links and monitors", "", head, line, *links, ""])


def _row(row: Row, outcomes: Mapping[str, Outcome], alone: str) -> str:
    cells = [_cell([outcomes[each] for each in tests if each in outcomes], alone) for tests in row.values()]
    return " | ".join([*cells, _listed(row)])


def _cell(outcomes: list[Outcome], alone: str) -> str:
    skipped: dict[str, int] = {}
    for outcome in outcomes:
        for why, count in outcome["skipped"].items():
            skipped[why] = skipped.get(why, 0) + count
    passed = sum(outcome["passed"] for outcome in outcomes)
    said = [f"{passed} passed"] if passed else []
    said += [f"{count} not run: {why}" for why, count in skipped.items()]
    return "; ".join(said) or f"not run: {alone}"


def _listed(row: Row) -> str:
    """Each once, where it has its first substrate: a body has the same name on all."""
    seen: set[str] = set()
    first: list[str] = []
    for each in dict.fromkeys(test for tests in row.values() for test in tests):
        file, _, name = each.partition("::")
        if name not in seen or file not in (*NUMBERED["local"], *NUMBERED["ray"], _LINKS_RAY):
            seen.add(name)
            first.append(each)
    return linked(first)


def run(substrate: str) -> Recorded:
    """Run its tests and say what came of them. SystemExit when one of them fails."""
    with tempfile.TemporaryDirectory(prefix="weftos-conformance-") as place:
        seen = Path(place) / "seen.json"
        argv = [sys.executable, "-m", "pytest", "-q", "-n0", f"--record-supervision={seen}"]
        if subprocess.run([*argv, *wanted()[substrate]], cwd=ROOT).returncode:
            sys.exit(f"the tests of {substrate} fail: nothing is recorded of them")
        made = f"run on {time.strftime('%Y-%m-%d')} with Python {platform.python_version()}"
        return {
            "made": made + (f" and Ray {version('ray')}" if substrate == "ray" else ""),
            "results": json.loads(seen.read_text()),
        }


def main(substrates: Iterable[str]) -> None:
    kept = record()
    for substrate in substrates:
        kept[substrate] = run(substrate)
        told = {name: kept[name] for name in NUMBERED if name in kept}
        RECORD.write_text(json.dumps(told, indent=1) + "\n")
    TARGET.write_text(render())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.supervision_conformance")
    parser.add_argument("--on", nargs="*", choices=NUMBERED, default=list(NUMBERED), help="what is run anew")
    main(parser.parse_args().on)
