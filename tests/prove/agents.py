"""Proof (b): two hundred agents in shared cells on Ray. All answer; what they cost is measured."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

from tests.patience import HANG_S
from tests.prove.accounts import Accounts, read_accounts
from tests.prove.effects import EffectServer, effect_server
from tests.prove.house import House, ProofError, proven
from tests.prove.processes import pss_bytes
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger
from weftos import Client

AGENTS = 200
SENDERS = 4
TOOLS = ["count_effect", "tick", "file_write", "file_read", "calculator"]
PHASE_S = HANG_S
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Phase:
    """What every agent is asked to do once; ``rounds`` as in ``plugins/labour.py``."""

    name: str
    title: str
    rounds: list[str]

    @property
    def calls(self) -> int:
        return sum(map(len, self.rounds))


PHASES = (
    Phase("effects", "in a worker, effects outside", ["e"] * 5),
    Phase("mixed", "mixed: write, effect, read, calculate, effect", ["w", "e", "r", "c", "e"]),
)
LONG_PHASES = (
    Phase("ticks", "in a worker, a tool that does nothing", ["t"] * 50),
    Phase("long", "mixed, ten times over", ["w", "e", "r", "c", "e"] * 10),
)


@dataclass(slots=True)
class Census:
    """What was measured."""

    spawn_s: float = 0.0
    cells: int = 0
    base_bytes: int = 0
    idle_bytes: float = 0.0
    worked_bytes: float = 0.0
    node_bytes: int = 0
    lag_ms: dict[str, float] = field(default_factory=dict)


def prove_agents(console: Console, quick: bool) -> bool:
    """Let two hundred agents work, and judge. True when everything held."""
    phases = PHASES if quick else PHASES + LONG_PHASES
    house = House("a")

    def proof() -> bool:
        findings, census = Findings(), Census()
        with effect_server(house.data / "effects.log", 0.0) as effects:
            _run(console, house, effects, phases, census)
            findings.check("no process is left at the end", house.run.left())
            counts = Counter(effects.log.read_text().split())
        accounts = read_accounts(house.node)
        _judge(accounts, counts, phases, findings)
        check_ledger(house, findings)
        _print(console, accounts, phases, census, findings)
        return not findings.bad

    return proven(console, house, proof)


def _run(
    console: Console, house: House, effects: EffectServer, phases: Sequence[Phase], census: Census
) -> None:
    house.prepare()
    house.up()
    with house.client() as node, Steps(console, "spawning", AGENTS) as bar:
        node.spawn("agent0", behaviour="labourer", tools=TOOLS)  # the first waits for a cell
        _until(lambda: node.status()["cells"] > 1, "the spare cell, with which the others share memory")
        census.base_bytes = sum(map(pss_bytes, _cells(node)))
        started = time.monotonic()
        for number in range(1, AGENTS):
            node.spawn(f"agent{number}", behaviour="labourer", tools=TOOLS)
            bar.reach(number + 1)
        census.spawn_s = time.monotonic() - started
        census.idle_bytes = _bytes_an_agent(node, census)
        for phase in phases:
            bar.reach(0, phase.title)
            _work(house, effects, phase)

            def answered() -> bool:
                left = node.status()["messages"]["in_flight"]
                bar.reach(AGENTS - left)
                return bool(left == 0)

            _until(answered, f"the answers of {phase.title}")
            census.lag_ms[phase.name] = node.status()["loop_lag_p99_ms"]
        census.worked_bytes = _bytes_an_agent(node, census)
        census.node_bytes = pss_bytes(house.run.leader)
    house.down()


def _work(house: House, effects: EffectServer, phase: Phase) -> None:
    """One message to every agent, from several clients at once."""

    def send(first: int) -> None:
        with house.client() as node:
            for number in range(first, AGENTS, SENDERS):
                ident = f"{phase.name}-{number}"
                node.send(
                    f"agent{number}", json.dumps({"id": ident, "port": effects.port, "rounds": phase.rounds})
                )

    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(send, range(SENDERS)))


def _until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is so. Raises ProofError when it takes too long."""
    deadline = time.monotonic() + PHASE_S
    while not condition():
        if time.monotonic() > deadline:
            raise ProofError(f"waited {PHASE_S:g} s for {what}")
        time.sleep(POLL_S)


def _cells(node: Client) -> set[int]:
    """The operating system's ids of the cells that agents live in."""
    return {row["os_pid"] for row in node.ps() if row["name"].startswith("agent")}


def _bytes_an_agent(node: Client, census: Census) -> float:
    """What each agent after the first adds: all their cells, less as many cells with next to nothing in them."""
    cells = _cells(node)
    census.cells = len(cells)
    return (sum(map(pss_bytes, cells)) - len(cells) * census.base_bytes) / (AGENTS - 1)


def _judge(accounts: Accounts, counts: Counter[str], phases: Sequence[Phase], findings: Findings) -> None:
    statuses = Counter(ending.status for ending in accounts.endings.values())
    wanted = AGENTS * len(phases)
    unanswered = [] if statuses == {"ok": wanted} else [f"expected {wanted} ok, found {dict(statuses)}"]
    findings.check("every agent answered every message", unanswered)
    expected = Counter(
        f"{phase.name}-{number}.{place}.0"
        for phase in phases
        for number in range(AGENTS)
        for place, letters in enumerate(phase.rounds)
        if letters == "e"
    )
    wrong = [
        f"{effect}: {counts[effect]}" for effect in expected | counts if counts[effect] != expected[effect]
    ]
    findings.check("every effect happened once", wrong)


def _print(
    console: Console, accounts: Accounts, phases: Sequence[Phase], census: Census, findings: Findings
) -> None:
    title = f"{AGENTS} agents on Ray, in shared cells: {census.cells}"
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("calls of each agent")
    for column in ("calls", "seconds", "calls/s", "lag p99 ms"):
        table.add_column(column, justify="right")
    for phase in phases:
        done = [accounts.work[m] for m, text in accounts.accepted.items() if f'"{phase.name}-' in text]
        calls = sum(work.calls for work in done)
        took_s = (max(work.end_us for work in done) - min(work.begin_us for work in done)) / 1e6
        rate, lag_ms = calls / took_s, census.lag_ms[phase.name]
        table.add_row(
            f"{phase.calls}, {phase.title}", str(calls), f"{took_s:.2f}", f"{rate:,.0f}", f"{lag_ms:.1f}"
        )
    console.print(table)
    kib = 1024
    findings.figure(f"spawning {AGENTS - 1} more agents, one after the other", f"{census.spawn_s:.2f} s")
    findings.figure("memory per agent, idle", f"{census.idle_bytes / kib:.1f} KiB")
    findings.figure("memory per agent, after its work", f"{census.worked_bytes / kib:.1f} KiB")
    findings.figure("memory of a cell with one agent", f"{census.base_bytes / kib / kib:.1f} MiB")
    findings.figure("memory of the node", f"{census.node_bytes / kib / kib:.1f} MiB")
    findings.print(console)
