"""Many seeds, on both cores: each twice, in processes of two hash seeds; and what is said of them at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.places import ROOT
from tests.prove.progress import Steps
from tests.simulation.rare import RARE, unseen
from tests.simulation.run import QUIET_S, STEPS, Result, shortest, simulate

HASH_SEEDS = ("1", "2")
AT_ONCE = 10  # seeds in a process
PARALLEL = 2
ENOUGH = 500  # seeds, by which every rare state must have been reached


def nodes_of(seed: str) -> int:
    """Every third number is one of two nodes."""
    return 2 if seed.isdecimal() and int(seed) % 3 == 2 else 1


def run_here(
    seeds: Iterable[str], nodes: int, steps: int | None, only: Sequence[int] | None, *, brief: bool
) -> int:
    """In this process, one after the other, up to the first that fails. The exit status."""
    started, count = time.perf_counter(), 0
    for seed in seeds:
        count += 1
        result = simulate(seed, steps or STEPS, nodes, only)
        if result.fault and brief:
            print(f"seed {seed}: {result.fault.splitlines()[0]}")
            return 1
        if result.fault:
            print(shown(result, shorten=only is None))
            return 1
    print(f"{count} seeds held in {time.perf_counter() - started:.1f} s")
    return 0


def run_batch(seeds: Iterable[str], nodes: int | None, steps: int | None) -> int:
    """For :func:`run_all`: each seed as a line of JSON."""
    for seed in seeds:
        result = simulate(seed, steps or STEPS, nodes or nodes_of(seed))
        told = {
            "seed": seed, "nodes": result.nodes, "fault": result.fault, "digest": result.digest, "seen": result.seen,
            "checks": result.checks, "quiet_s": result.quiet_s, "entries": result.entries,
        }  # fmt: skip
        print(json.dumps(told), flush=True)
    return 0


@dataclass
class Campaign:
    """What has been found so far."""

    seeds: int = 0
    nodes: set[int] = field(default_factory=set)
    failed: list[dict[str, Any]] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)  # two processes did not come to the same
    broken: list[str] = field(
        default_factory=list
    )  # a process did not do its work, or had something to warn of
    seen: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    quiet_s: float = 0.0
    entries: int = 0

    def take(self, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
        """What two processes say of the same seeds."""
        for told, again in zip(one, other, strict=True):
            self.seeds += 1
            self.nodes.add(told["nodes"])
            if told["fault"]:
                self.failed.append(told)
            if (told["digest"], told["fault"]) != (again["digest"], again["fault"]):
                self.torn.append(told["seed"])
            self.seen += Counter(told["seen"])
            self.checks += Counter(told["checks"])
            self.quiet_s = max(self.quiet_s, told["quiet_s"])
            self.entries += told["entries"]

    def never(self) -> list[str]:
        """The rare states that were not reached."""
        return unseen(self.seen, self.nodes)

    @property
    def held(self) -> bool:
        missing = self.seeds >= ENOUGH and self.never()
        return not (self.failed or self.torn or self.broken or missing)


def run_all(console: Console, first: int, count: int, nodes: int | None, steps: int | None) -> int:
    """Say at the end how often what was reached, and of the first that failed how. The exit status."""
    started, found = time.perf_counter(), Campaign()
    firsts = range(first, first + count, AT_ONCE)
    options = [*(["--nodes", str(nodes)] if nodes else []), *(["--steps", str(steps)] if steps else [])]

    def batch(at: int) -> tuple[int, list[subprocess.CompletedProcess[str]]]:
        seeds = min(AT_ONCE, first + count - at)
        return seeds, [_process(at, seeds, hash_seed, options) for hash_seed in HASH_SEEDS]

    with ThreadPoolExecutor(PARALLEL) as pool, Steps(console, "simulation", count) as bar:
        for seeds, done in pool.map(batch, firsts):
            told = [list(_told(one)) for one in done]
            if any(one.returncode or one.stderr for one in done) or {len(each) for each in told} != {seeds}:
                found.broken += [one.stderr or f"exit status {one.returncode}" for one in done]
            else:
                found.take(*told)
            bar.reach(found.seeds)
    _report(console, found, time.perf_counter() - started)
    if found.failed:
        worst = found.failed[0]
        console.print(
            shown(simulate(worst["seed"], steps or STEPS, worst["nodes"])), highlight=False, markup=False
        )
    return 0 if found.held else 1


def _process(at: int, seeds: int, hash_seed: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", "--batch", "--first", str(at), "--seeds", str(seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def _told(done: subprocess.CompletedProcess[str]) -> Iterator[dict[str, Any]]:
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told: dict[str, Any] = json.loads(line)
            yield told


def shown(failed: Result, *, shorten: bool = True) -> str:
    """How a run failed, with the fewest decisions, and how to see it again."""
    least = shortest(failed) if shorten else failed
    if not least.fault:
        return f"seed {failed.seed} does not fail in this process"
    numbers = ",".join(map(str, least.decisions))
    again = f"python -m tests.simulation --seed {failed.seed} --nodes {failed.nodes} --only {numbers}"
    lines = [
        f"seed {failed.seed}, {failed.nodes} nodes, failed: {failed.fault}",
        f"{len(least.decisions)} of {len(failed.decisions)} decisions still fail:",
        *least.steps,
        least.fault,
        f"once more: {again}",
    ]
    return "\n".join(lines)


def _report(console: Console, found: Campaign, took_s: float) -> None:
    states = Table("rare state", "nodes", "reached", box=box.SIMPLE_HEAD)
    for name, rare in RARE.items():
        if rare.nodes <= max(found.nodes, default=0):
            count = found.seen[name]
            states.add_row(rare.what, str(rare.nodes), f"{count:,}" if count else "[red]never[/]")
    checks = Table("invariants", "looked at", box=box.SIMPLE_HEAD)
    for what, count in sorted(found.checks.items()):
        checks.add_row(what, f"{count:,}")
    console.print(states)
    console.print(checks)
    missing = found.never()
    for line in (
        *(f"seed {told['seed']}: {told['fault'].splitlines()[0]}" for told in found.failed[:20]),
        *(f"seed {seed} does not come to the same under another PYTHONHASHSEED" for seed in found.torn[:20]),
        *found.broken[:5],
        *([f"never reached: {', '.join(missing)}"] if missing else []),
    ):  # fmt: skip
        console.print(line, style="red", highlight=False, markup=False)
    console.print(
        f"{' ok ' if found.held else 'FAIL'} {found.seeds:,} seeds, each twice, {len(found.failed)} failed, "
        f"{len(found.torn)} differed; {found.entries:,} entries; quiet after at most {found.quiet_s:g} s of "
        f"{QUIET_S:g} s; {found.seeds / took_s:.1f} seeds/s, {took_s:.0f} s",
        style="green" if found.held else "red", highlight=False, markup=False,
    )  # fmt: skip
