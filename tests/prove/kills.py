"""Proof (a): kills under load. Nothing acknowledged is missing, nothing is doubled, and no process is left."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from kernel.operations.decisions import Resolution
from tests.patience import HANG_S
from tests.prove.effects import EffectServer, effect_server
from tests.prove.house import House, ProofError, proven
from tests.prove.processes import kill
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger, print_kills
from tests.prove.verdict import judge_kills
from tests.prove.victims import KINDS, Choice, Victim
from weftos import Client

LABOURERS = [f"labourer{n}" for n in range(8)]
PLANNERS = [f"planner{n}" for n in range(2)]
TOOLS = ["count_effect", "file_write", "calculator"]
DELAY_S = 0.03
RECOVERY_S = HANG_S
POLL_S = 0.02
LOAD = Path(__file__).with_name("load.py")


@dataclass(slots=True)
class Incident:
    """One kill: when, of whom, and what it took."""

    victim: Victim
    begin_us: int
    end_us: int
    recovered_s: float = 0.0
    resolved: int = 0
    in_flight: int = 0
    doubts: int = 0
    resumed: int = 0
    doubled: int = 0
    missing: int = 0


@dataclass(slots=True)
class Campaign:
    """Everything that the checks at the end look at."""

    house: House
    effects: EffectServer
    ledger: Path
    incidents: list[Incident] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    resolved: Counter[str] = field(default_factory=Counter)
    boots_s: list[float] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    def settle(self, node: Client) -> None:
        """Resolve what is in doubt, as a person would: by asking the world outside whether it was done."""
        for doubt in node.doubts.list():
            effect = doubt["arguments"].partition('"effect":"')[2].partition('"')[0]
            done = self.effects.counts([effect])[effect] > 0
            resolution: Resolution = "done" if done else "retry"
            node.doubts.resolve(doubt["id"], resolution)
            self.resolved[resolution] += 1
            if self.incidents:
                self.incidents[-1].resolved += 1


def prove_kills(console: Console, seed: str, kills: int) -> bool:
    """Kill ``kills`` times and judge. True when everything held."""
    house = House("k")

    def proof() -> bool:
        with effect_server(house.data / "effects.log", DELAY_S) as effects:
            campaign = Campaign(house, effects, house.data / "client.jsonl")
            _run(console, campaign, random.Random(seed), _plan(kills, random.Random(f"{seed} plan")), seed)
            judge_kills(campaign)
        check_ledger(house, campaign.findings)
        print_kills(console, campaign)
        return not campaign.findings.bad

    return proven(console, house, proof)


def _plan(kills: int, chance: random.Random) -> list[str]:
    """Each kind as often as the others, as far as it goes, in random order."""
    kinds = [KINDS[n % len(KINDS)] for n in range(kills)]
    chance.shuffle(kinds)
    return kinds


def spawn_load(node: Client, labourers: list[str], planners: list[str]) -> None:
    """The agents, below a supervisor that gives none of them up."""
    node.spawn("load", supervisor=True, intensity=(1000, 1.0))
    for name in labourers:
        node.spawn(name, under="/user/load", behaviour="labourer", tools=TOOLS)
    for name in planners:
        node.spawn(name, under="/user/load", tools=TOOLS)


def _run(console: Console, campaign: Campaign, chance: random.Random, plan: list[str], seed: str) -> None:
    house = campaign.house
    house.prepare()
    house.up()
    with house.client() as node:
        spawn_load(node, LABOURERS, PLANNERS)
    choice = Choice(house, LABOURERS + PLANNERS, chance)
    with (
        under_load(campaign, seed, LABOURERS, PLANNERS) as load,
        Steps(console, "kills under load", len(plan)) as bar,
    ):
        for done, kind in enumerate(plan, 1):
            time.sleep(chance.uniform(0.1, 1.2))  # the random moment
            incident = _strike(campaign, choice, kind)
            bar.reach(done, f"{incident.victim.name} killed")
            console.print(
                f"{len(campaign.incidents):3} {incident.victim.name:<11} back after {incident.recovered_s:5.2f} s, "
                f"{incident.resolved} in doubt",
                highlight=False,
            )
        bar.reach(len(plan), "draining")
        drain(campaign, load)
    house.down()
    campaign.findings.check("no process of an old run was left after a node kill", campaign.orphans)
    campaign.findings.check("no process is left at the end", house.run.left())


@contextmanager
def under_load(
    campaign: Campaign, seed: str, labourers: Sequence[str], planners: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The client process, sending until its standard input is closed."""
    agents = [f"{name}:labourer" for name in labourers] + [f"{name}:agent" for name in planners]
    where = [str(campaign.house.node), str(campaign.ledger), str(campaign.effects.port)]
    process = subprocess.Popen([sys.executable, str(LOAD), *where, seed, *agents], stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.kill()
        process.wait()


def _strike(campaign: Campaign, choice: Choice, kind: str) -> Incident:
    """Kill one, and wait until everything is back."""
    house = campaign.house
    with house.client() as node:
        victim = choice.victim(kind, node)
    old = house.run
    old.hold()
    incident = Incident(victim, time.time_ns() // 1000, 0)
    started = time.monotonic()
    kill(victim.os_pid)
    incident.end_us = time.time_ns() // 1000 + 1000  # it dies a little after the signal
    campaign.incidents.append(incident)
    if kind == "node":
        campaign.boots_s.append(house.up())
        campaign.orphans += old.left()
        old.close()
    with house.client() as node:
        recovered(campaign, node, victim, started)
    incident.recovered_s = time.monotonic() - started
    return incident


def recovered(campaign: Campaign, node: Client, victim: Victim, started: float) -> None:
    """Wait until every agent and helper runs, and nothing that was lost is still shown."""
    names = {*LABOURERS, *PLANNERS}
    while True:
        campaign.settle(node)
        helpers = [row for row in node.status()["helpers"] if not row["name"].startswith("worker-")]
        agents = [row for row in node.ps() if row["name"] in names]
        rows = [*helpers, *agents]
        if all(
            row["state"] in ("running", "suspended") and row["os_pid"] and row["os_pid"] not in victim.lost
            for row in rows
        ):
            return
        if time.monotonic() - started > RECOVERY_S:
            missing = [
                f"{row['name']} {row['state']} {row['os_pid']}" for row in rows if row["state"] != "running"
            ]
            raise ProofError(f"{RECOVERY_S:g} s after {victim.name} was killed: {', '.join(missing) or rows}")
        time.sleep(POLL_S)


def drain(campaign: Campaign, load: subprocess.Popen[bytes]) -> None:
    """Let the client end, then wait until no message is in flight; the node's own balance must be even."""
    assert load.stdin is not None
    load.stdin.close()
    deadline = time.monotonic() + RECOVERY_S
    with campaign.house.client() as node:
        while True:
            campaign.settle(node)
            messages = node.status()["messages"]
            if load.poll() is not None and messages["in_flight"] == 0:
                break
            if time.monotonic() > deadline:
                stuck = [row for row in node.ps() if row["mailbox"]]
                raise ProofError(
                    f"not drained after {RECOVERY_S:g} s: client {load.poll()}, {messages}, {stuck}"
                )
            time.sleep(POLL_S)
    campaign.findings.check(
        "the client ended well", [] if load.returncode == 0 else [f"status {load.returncode}"]
    )
    ended = messages["acknowledged"] + messages["dead"] + messages["dropped"] + messages["in_flight"]
    even = [] if messages["accepted"] == ended else [str(messages)]
    campaign.findings.check("accepted = acknowledged + dead + dropped + in flight", even)
