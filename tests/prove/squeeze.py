"""A real node at work is squeezed, again and again: for some seconds it, or one of its processes, has no descriptor to
spare, or no memory for another thread (as another user than root: no process or thread more). Then it has them again.

Meanwhile the load of :mod:`tests.prove.kills` goes on, and a person remembers something, asks the archive, changes the
keys, has something erased. What is refused is refused in words, and asked again afterwards; then it must be answered
without a restart. At the end the client's ledger, the world outside and the journal are held together.
"""

from __future__ import annotations

import os
import random
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from tests.patience import HANG_S
from tests.prove.effects import effect_server
from tests.prove.house import House, ProofError, proven
from tests.prove.kills import (
    DELAY_S,
    Campaign,
    Incident,
    drain,
    recovered,
    spawn_load,
    under_load,
)
from tests.prove.processes import OsProcess, below, living
from tests.prove.progress import Steps
from tests.prove.report import check_ledger
from tests.prove.verdict import judge_promises
from tests.prove.victims import Victim
from weftos import Client, WeftosError

ROUNDS, QUICK_ROUNDS = 8, 3
LABOURERS, PLANNERS = ["labourer0", "labourer1"], ["planner0"]  # few: the archive is built anew beside them
SHORTEST_S, LONGEST_S = 0.5, 3.0
A_LITTLE = 2**20  # of memory: no stack of another thread
REMEMBERED = "the heron number {} nests at noon"
WHAT = ("descriptors", "threads")
_MOST = {
    "descriptors": resource.RLIMIT_NOFILE,
    "threads": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
}


class Squeeze:
    """Of one process, of one kind: from :meth:`begin` to :meth:`end`."""

    def __init__(self, what: str, victim: OsProcess, leader: int, spare: int) -> None:
        self._what = what
        self._victim = victim
        self._leader = leader
        self._spare = spare
        self._least, self._usual = -1, (-1, -1)

    def begin(self) -> None:
        """Raises OSError when the process is gone."""
        pid, most = self._victim.pid, _MOST[self._what]
        self._usual = resource.prlimit(pid, most)
        match self._what:
            case "descriptors":
                least = len(os.listdir(f"/proc/{pid}/fd")) + self._spare
            case "threads":
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
                least = pages * os.sysconf("SC_PAGE_SIZE") + A_LITTLE
            case _:
                least = 1
        resource.prlimit(pid, most, (least, self._usual[1]))
        self._least = least

    def end(self) -> None:
        """Also for those that it has begun meanwhile, which have what it had."""
        while short := [pid for pid in self._processes() if self._is_short(pid)]:
            for pid in short:
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, _MOST[self._what], self._usual)

    def _processes(self) -> set[int]:
        processes = living()
        return {p.pid for p in processes.values() if p.session == self._leader} | {
            p.pid for p in below(self._leader, processes)
        }

    def _is_short(self, pid: int) -> bool:
        with suppress(ProcessLookupError):
            return resource.prlimit(pid, _MOST[self._what])[0] == self._least
        return False


def squeeze(console: Console, seed: str, quick: bool) -> bool:
    """Squeeze a node so often and judge. True when everything held."""
    house = House("q")

    def proof() -> bool:
        with effect_server(house.data / "effects.log", DELAY_S) as effects:
            campaign = Campaign(house, effects, house.data / "client.jsonl")
            _run(console, campaign, random.Random(seed), seed, QUICK_ROUNDS if quick else ROUNDS)
            judge_promises(campaign)
        check_ledger(house, campaign.findings)
        campaign.findings.print(console)
        return not campaign.findings.bad

    return proven(console, house, proof)


def _run(console: Console, campaign: Campaign, chance: random.Random, seed: str, rounds: int) -> None:
    house = campaign.house
    house.prepare()
    house.up("--engine", "local")
    with house.client() as node:
        spawn_load(node, LABOURERS, PLANNERS)
        node.spawn("told")
    done: Counter[str] = Counter()
    with (
        under_load(campaign, seed, LABOURERS, PLANNERS) as load,
        Steps(console, "a node squeezed", rounds) as bar,
    ):
        for number in range(rounds):
            time.sleep(chance.uniform(0.1, 1.0))  # the random moment
            what = _once(campaign, chance, number)
            done[what] += 1
            bar.reach(number + 1, f"{what}, back after {campaign.incidents[-1].recovered_s:.1f} s")
        bar.reach(rounds, "draining")
        drain(campaign, load)
    house.run.hold()
    house.down()
    campaign.findings.figure("squeezed", ", ".join(f"{count} {what}" for what, count in done.items()))
    campaign.findings.check("no process is left at the end", house.run.left())


def _once(campaign: Campaign, chance: random.Random, number: int) -> str:
    """Squeeze one process, give back what it lacked, and wait until all is well."""
    house = campaign.house
    processes = living()
    leader = processes[house.run.leader]
    others = [process for process in below(leader.pid, processes) if _lives(process)]
    victim = leader if chance.random() < 0.6 or not others else chance.choice(others)
    what = chance.choice(WHAT if os.geteuid() == 0 else (*WHAT, "processes"))
    name = f"{what} of {'the node' if victim is leader else 'a child'}"
    person = Person(house, number)
    asking = threading.Thread(target=person.ask)
    now = Squeeze(what, victim, leader.pid, chance.choice((0, 0, 1, 2, 5)))
    begin_us = time.time_ns() // 1000
    with suppress(OSError):  # it has ended by itself
        now.begin()
    try:
        asking.start()
        time.sleep(chance.uniform(SHORTEST_S, LONGEST_S))
    finally:
        now.end()
    incident = Incident(Victim("node", name, 0, frozenset()), begin_us, time.time_ns() // 1000)
    campaign.incidents.append(incident)
    started = time.monotonic()
    asking.join(HANG_S)
    if asking.is_alive():
        raise ProofError(f"{name}: what was asked meanwhile is not answered: {person.step}")
    with house.client() as node:
        recovered(campaign, node, incident.victim, started)
    person.insist()
    incident.recovered_s = time.monotonic() - started
    return name


def _lives(process: OsProcess) -> bool:
    """Whether it stays: helpers, workers, cells; not what the upkeep has begun for a moment."""
    return any(f" {module}" in process.command for module in ("weftos.archive", "weftos.node", "kernel."))


class Person:
    """Asks for what is rare: each thing once while the node is squeezed, and until it is done when it is not."""

    def __init__(self, house: House, number: int) -> None:
        self._house = house
        self._number = number
        self._left: list[Callable[[Client], object]] = [self._status, self._remember, self._archive]
        self._left += [self._rotate] if number % 3 == 0 else [self._erase] if number % 3 == 1 else []
        self.step = ""
        self._why = ""

    def ask(self) -> None:
        """Each thing once; what was done is not to be done again."""
        for step in tuple(self._left):
            self.step = step.__name__
            try:
                with self._house.client() as node:
                    step(node)
            except WeftosError as error:
                self._why = str(error)
            else:
                self._left.remove(step)

    def insist(self) -> None:
        """Raises ProofError when the node is not well again in time."""
        deadline = time.monotonic() + HANG_S
        self._left += [self._well]
        while self._left:
            self.ask()
            if self._left and time.monotonic() > deadline:
                raise ProofError(
                    f"round {self._number}: {self.step} is not done in {HANG_S:g} s: {self._why}"
                )
            time.sleep(0.05)

    def _status(self, node: Client) -> None:
        node.status()

    def _remember(self, node: Client) -> None:
        node.memory.add(REMEMBERED.format(self._number))

    def _archive(self, node: Client) -> None:
        node.archive.sql("SELECT count(*) FROM entries")

    def _rotate(self, node: Client) -> None:
        node.keys.rotate("to see it")

    def _erase(self, node: Client) -> None:
        sent = node.send(
            "told", f"to be forgotten, {self._number}", session=f"s{time.monotonic_ns()}", wait_s=HANG_S
        )
        node.erasure.erase("to see it", seqs=[sent["seq"]])

    def _well(self, node: Client) -> None:
        """Nothing is at fault, nothing is still to be erased, and what was remembered is found."""
        status, erasing = node.status(), node.erasure.status()
        if status["faults"] or erasing["erasing"]:
            raise WeftosError(f"{status['faults']}, {erasing}", "unavailable")
        wanted = REMEMBERED.format(self._number)
        if wanted not in [found["text"] for found in node.memory.search(wanted)["results"]]:
            raise WeftosError(f"{wanted!r} is not found", "unavailable")
