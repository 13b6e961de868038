"""Fifty thousand idle agents on one node: made by one apply, listed, ended, and there again after a boot.

The figures for a thousand, ten thousand and fifty thousand stand beside one another, with the load of the machine; they
are aims, and nothing fails by a time. What must hold: each agent is there once and runs, before and after the boot, the
ledger has one entry that made it and one for each of its starts, and it verifies.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from chain.disk import Disk
from chain.entry.reader import EntryRecord, JournalReader
from tests.patience import HANG_S
from tests.prove.house import House, ProofError, proven
from tests.prove.processes import below, living, pss_bytes
from tests.prove.report import Findings, check_ledger
from weftos import Client

COUNTS, QUICK_COUNTS = (1_000, 10_000, 50_000), (1_000, 3_000)
PAGE = 1_000
POLL_S = 0.05
KIB = 1024
NANO = 1e-9
AGENTS_S = 0.02
"""Patience for each agent, beside ``HANG_S`` for all of them."""
LIMITS = """
[limits]
processes = 120000
children = 110000
processes_per_cell = 4096
"""
APPLICATION = """
[app]
name = "crowd"

[[app.children]]
name = "a"
behaviour = "agent"
tools = ["calculator"]
replicas = {count}
"""


@dataclass
class Crowd:
    """What came of so many agents: seconds of the wall, seconds of processors, KiB for each agent, milliseconds."""

    count: int
    load: float = 0.0
    applied_s: float = 0.0
    node_s: float = 0.0
    cells_s: float = 0.0
    node_kib: float = 0.0
    cells_kib: float = 0.0
    page_s: float = 0.0
    lag_ms: float = 0.0
    longest_ms: float = 0.0
    down_s: float = 0.0
    up_s: float = 0.0
    running_s: float = 0.0
    boot_lag_ms: float = 0.0


def prove_scale(console: Console, quick: bool) -> bool:
    """Each count on a node of its own; then the table. True when everything held."""
    crowds: list[Crowd] = []
    held = all(_prove(console, count, crowds) for count in (QUICK_COUNTS if quick else COUNTS))
    _print(console, crowds)
    return held


def _prove(console: Console, count: int, crowds: list[Crowd]) -> bool:
    house, crowd = House("s"), Crowd(count)

    def proof() -> bool:
        findings = Findings()
        _live(house, crowd, findings)
        _check_entries(house, count, findings)
        check_ledger(house, findings)
        console.rule(f"{count:,} agents", align="left")
        findings.print(console)
        crowds.append(crowd)
        return not findings.bad

    return proven(console, house, proof)


def _live(house: House, crowd: Crowd, findings: Findings) -> None:
    house.prepare()
    with (house.node / "weftos.toml").open("a") as file:
        file.write(LIMITS)
    application = house.data / "app.toml"
    application.write_text(APPLICATION.format(count=crowd.count))
    house.up("--engine", "local")
    with house.client() as node:
        node.spawn(
            "first", tools=["calculator"]
        )  # the cells that come next are warm, and memory counts from there
        _until(lambda: node.status()["cells"] > 1, crowd.count, "a spare cell")
        before, used = _held(house), _used(house)
        crowd.load, began = os.getloadavg()[0], time.perf_counter()
        answer = house.cli("apply", str(application), "--data", str(house.node))
        crowd.applied_s = time.perf_counter() - began
        findings.check("the apply has them all run", map(str, answer["failed"]))
        behind, now_used = _held(house), _used(house)
        crowd.node_kib, crowd.cells_kib = (
            (b - a) / KIB / crowd.count for a, b in zip(before, behind, strict=True)
        )
        crowd.node_s, crowd.cells_s = (b - a for a, b in zip(used, now_used, strict=True))
        status = node.status()
        crowd.lag_ms, crowd.longest_ms = status["loop_lag_p99_ms"], status["loop_lag_longest_ms"]
        findings.check("each is listed once and runs", _against(node, crowd, "applied"))
    began = time.perf_counter()
    house.down()
    crowd.down_s = time.perf_counter() - began
    findings.check("no process is left", house.run.left())
    began = time.perf_counter()
    house.up("--engine", "local")
    crowd.up_s = time.perf_counter() - began
    with house.client() as node:
        last = f"a-{crowd.count}"
        _until(lambda: node.inspect(last)["state"] == "running", crowd.count, "the last to run")
        _until(lambda: not _against(node, crowd, "booted"), crowd.count, "all to run")
        crowd.running_s = time.perf_counter() - began
        crowd.boot_lag_ms = node.status()["loop_lag_p99_ms"]
        reply = node.send(last, "what is 17*23", wait_s=HANG_S)["reply"]
        findings.check("the last of them works", [] if "391" in reply else [reply])
    house.down()
    findings.check("no process is left after the boot", house.run.left())


def _against(node: Client, crowd: Crowd, when: str) -> list[str]:
    """Who is not as wanted, as a walk through all pages tells."""
    after, seen, pages = "", Counter[str](), []
    while True:
        began = time.perf_counter()
        page = node.ps(after=after, limit=PAGE)
        pages.append(time.perf_counter() - began)
        seen.update(row["address"] for row in page if row["state"] == "running")
        if len(page) < PAGE:
            break
        after = page[-1]["address"]
    crowd.page_s = max(crowd.page_s, *pages)
    wanted = [f"/user/crowd/a-{number}" for number in range(1, crowd.count + 1)]
    return [f"{when}: {address} {seen[address]} times" for address in wanted if seen[address] != 1]


def _check_entries(house: House, count: int, findings: Findings) -> None:
    made, started = Counter[str](), Counter[str]()
    for record in _entries(house):
        if record.entry.kind == "process.spawned":
            made[record.body["address"]] += 1
        elif record.entry.kind == "process.started":
            started[record.body["address"]] += 1
    wanted = [f"/user/crowd/a-{number}" for number in range(1, count + 1)]
    findings.check(
        "the ledger has one entry that made each, and one for each of two starts",
        [at for at in wanted if (made[at], started[at]) != (1, 2)],
    )


def _entries(house: House) -> Sequence[EntryRecord]:
    groups = JournalReader(house.node / "journal", Disk()).groups()
    return [record for group in groups for record in group.records if isinstance(record, EntryRecord)]


def _until(condition: Callable[[], bool], count: int, what: str) -> None:
    deadline = time.monotonic() + HANG_S + count * AGENTS_S
    while not condition():
        if time.monotonic() > deadline:
            raise ProofError(f"waited for {what}")
        time.sleep(POLL_S)


def _held(house: House) -> tuple[int, int]:
    """Memory of the node, and of all that it started."""
    others = [process.pid for process in below(house.run.leader, living())]
    return pss_bytes(house.run.leader), sum(map(pss_bytes, others))


def _used(house: House) -> tuple[float, float]:
    """Processor time of the node, and of all that it started."""
    others = [process.pid for process in below(house.run.leader, living())]
    return _processor_s(house.run.leader), sum(map(_processor_s, others))


def _processor_s(pid: int) -> float:
    tasks = os.listdir(f"/proc/{pid}/task")
    told = [open(f"/proc/{pid}/task/{task}/schedstat").read() for task in tasks]  # noqa: SIM115
    return sum(int(text.split()[0]) for text in told) * NANO


def _print(console: Console, crowds: Sequence[Crowd]) -> None:
    table = Table(
        title="idle agents on one node, local engine, 4,096 to a cell", box=box.SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("")
    for crowd in crowds:
        table.add_column(f"{crowd.count:,}", justify="right")
    rows: list[tuple[str, Callable[[Crowd], str]]] = [
        ("load average before", lambda one: f"{one.load:.1f}"),
        ("spawns a second, by one apply (aim: 5,000)", lambda one: f"{one.count / one.applied_s:,.0f}"),
        ("processor time a spawn: node, us", lambda one: f"{one.node_s / one.count * 1e6:.0f}"),
        ("processor time a spawn: cells, us", lambda one: f"{one.cells_s / one.count * 1e6:.0f}"),
        ("KiB an agent: node", lambda one: f"{one.node_kib:.1f}"),
        ("KiB an agent: cells (aim: 20 with the node)", lambda one: f"{one.cells_kib:.1f}"),
        ("the slowest page of ps, s (aim: 1)", lambda one: f"{one.page_s:.3f}"),
        ("loop lag p99 with the apply, ms (aim: 10)", lambda one: f"{one.lag_ms:.1f}"),
        ("longest, ms", lambda one: f"{one.longest_ms:.1f}"),
        ("down, s", lambda one: f"{one.down_s:.2f}"),
        ("boot to the return of up, s", lambda one: f"{one.up_s:.2f}"),
        ("boot to all running, s", lambda one: f"{one.running_s:.2f}"),
        ("loop lag p99 of the boot, ms", lambda one: f"{one.boot_lag_ms:.1f}"),
    ]
    for title, cell in rows:
        table.add_row(title, *map(cell, crowds))
    console.print(table)
