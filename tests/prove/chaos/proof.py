"""Proof: chaos on Ray. Three hundred agents send each other messages and leave effects outside, while cells, workers,
Ray's own processes, the placer and the node are killed at random, turns cancelled, agents stopped and started.

What clients asked and what they were told is a history, in Jepsen's sense; what happened lies in a file outside; and
:mod:`tests.prove.chaos.checker`, which knows nothing of weftos, holds them together.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from kernel.operations.spawning import Isolation, SpawnRequest
from tests.patience import HANG_S
from tests.prove.chaos import checker
from tests.prove.chaos.clients import CLIENTS, Sender, clients
from tests.prove.chaos.history import History, Unknown
from tests.prove.chaos.mischief import LONGEST_S, SHORTEST_S, Blows, People
from tests.prove.chaos.timings import Stopwatch, Timing, measured
from tests.prove.house import PLUGINS, House, ProofError, proven
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger
from weftos import Client, WeftosError

CHAOS_S, QUICK_CHAOS_S = 120.0, 20.0
TIMED, TIMED_BESIDE, QUICK_TIMED = 30, 15, 3
HELD, QUICK_HELD = 2, 1
GROUPS = {
    f"g{number}": tool
    for number, tool in enumerate(("calculator", "file_read", "file_list", "publish", "cancel_turn"))
}
"""Agents of one group have the same tools, and share cells with none but each other."""
CALM, LONGEST_CALM_S = 0.6, 15.0
"""How often a blow is let heal, and for how long at most."""
SHARED, DEDICATED = 59, 5
SOFT = 10
"""Of each group: those whom people interfere with."""
TOOLS = ("append", "append_probed", "send_message", "ask")
MEMBERS = {group: [f"{group}-{n}" for n in range(1, SHARED + 1)] for group in GROUPS}
ALONE = [f"d-{n}" for n in range(1, DEDICATED + 1)]
AGENTS = [name for members in MEMBERS.values() for name in members] + ALONE
SOFT_AGENTS = [name for members in MEMBERS.values() for name in members[:SOFT]]


def prove_chaos(console: Console, seed: str, quick: bool) -> bool:
    """Chaos, and then the verdict. True when everything held."""
    house = House("c")

    def proof() -> bool:
        campaign, findings = Campaign(console, house, seed), Findings()
        campaign.begin()
        held = QUICK_HELD if quick else HELD
        timings = campaign.measure("no load", QUICK_TIMED if quick else TIMED, held)
        with clients(house, campaign.history, AGENTS, seed) as senders:
            timings += campaign.measure(f"{CLIENTS} clients", QUICK_TIMED if quick else TIMED_BESIDE, held)
            campaign.chaos(QUICK_CHAOS_S if quick else CHAOS_S)
        campaign.end(senders, findings)
        campaign.judge(findings)
        check_ledger(house, findings)
        _print(console, campaign, timings, findings)
        return not findings.bad

    return proven(console, house, proof)


class Campaign:
    """A node with its agents, what is done to it, and what is known of it."""

    def __init__(self, console: Console, house: House, seed: str) -> None:
        self.house = house
        self._console = console
        self._code = house.data / "code"
        self.history = History(house.data / "history.jsonl")
        self.effects = self._code / "effects.jsonl"
        self.blows = Blows(house, self.history, AGENTS, random.Random(f"{seed} blows"))
        self.people = People(house, self.history, SOFT_AGENTS, self.effects, random.Random(f"{seed} people"))
        self._chance = random.Random(seed)

    def begin(self) -> None:
        """A node with all agents."""
        self._code.mkdir(mode=0o700)
        for name in ("outside.py", "trading.py"):
            shutil.copy(PLUGINS / name, self._code)
        self.house.prepare()
        with (self.house.node / "weftos.toml").open("a") as file:
            for tool in ("append", "append_probed"):
                file.write(f'\n[tools.{tool}]\nimport = "outside:{tool}"\npython_path = ["{self._code}"]\n')
            trader = 'import = "trading:Trader"\nisolation = "shared"'
            file.write(f'\n[behaviours.trader]\n{trader}\npython_path = ["{self._code}"]\n')
        self.house.up()
        with self.house.client() as node:
            node.spawn("load", supervisor=True, intensity=(1000, 1.0))
            for group, tool in GROUPS.items():
                node.spawn_all([_trader(group, [*TOOLS, tool])], count=SHARED)
            node.spawn_all([_trader("d", TOOLS, alone=True)], count=DEDICATED)

    def measure(self, load: str, timed: int, held: int) -> list[Timing]:
        """Kill cells one after the other, and have some held, each when all is well again."""
        stopwatch, again, alone, found = Stopwatch(self.house), list[float](), list[float](), list[float]()
        groups = list(MEMBERS.values())
        with (
            self._deciding(),
            Steps(self._console, f"kill to running again, {load}", 2 * timed + held) as bar,
        ):
            for number in range(timed):
                again.append(stopwatch.killed(groups[number % len(groups)]))
                bar.reach(2 * number + 1)
                alone.append(stopwatch.killed([ALONE[number % DEDICATED]]))
                bar.reach(2 * number + 2)
            for number in range(held):
                found.append(stopwatch.held(groups[number % len(groups)]))
                bar.reach(2 * timed + number + 1, f"held cells found, {load}")
        return [
            measured(f"shared cell (of up to {SHARED}) killed to all running", load, again),
            measured("dedicated cell killed to running", load, alone),
            measured("cell held to found", load, found),
        ]

    def chaos(self, seconds: float) -> None:
        """Blows at random moments, and people who interfere, for so long."""
        stopping = threading.Event()
        troubling = threading.Thread(target=self.people.trouble, args=(stopping,))
        troubling.start()
        try:
            with self._deciding(), Steps(self._console, "seconds of chaos", int(seconds)) as bar:
                begun = time.monotonic()
                while (past_s := time.monotonic() - begun) < seconds:
                    bar.reach(int(past_s), f"chaos, {self.blows.dealt.total()} killed")
                    time.sleep(self._chance.uniform(SHORTEST_S, LONGEST_S))
                    self.blows.deal()
                    if self._chance.random() < CALM:
                        self._calm()
        finally:
            stopping.set()
            troubling.join()

    def _calm(self) -> None:
        """Wait until nearly all run again, so that the next blow meets work, and not the mending of the last."""
        deadline = time.monotonic() + LONGEST_CALM_S
        while time.monotonic() < deadline:
            with suppress(WeftosError), self.house.client() as node:
                if sum(row["state"] == "running" for row in node.ps()) > len(AGENTS) - len(SOFT_AGENTS):
                    return
            time.sleep(0.2)

    def end(self, senders: Sequence[Sender], findings: Findings) -> None:
        """Make good what people did, find out about everything, ask all once more; then the dumps, and the end."""
        deadline = time.monotonic() + 3 * HANG_S
        with self._deciding():
            self._make_good(deadline)
            self._settle(senders, deadline, "finding out what became of everything")
            for number, sender in enumerate(senders):
                own = AGENTS[number :: len(senders)]
                sender.finally_ask(
                    [
                        sorted([name, other], key=AGENTS.index)
                        for name in own
                        if (other := self._chance.choice(AGENTS)) != name
                    ]
                )
            self._settle(senders, deadline, "the last round")
        with self.house.client() as node:
            messages = self._drained(node, deadline)
            _dump(self.house.data / "doubts.jsonl", node.doubts.list())
            _dump(self.house.data / "deadletters.jsonl", node.deadletters(replayed=True))
        shutil.copy(self.effects, self.house.data)
        ended = messages["acknowledged"] + messages["dead"] + messages["dropped"] + messages["in_flight"]
        even = [] if messages["accepted"] == ended else [str(messages)]
        findings.figure("messages accepted", messages["accepted"])
        findings.check("accepted = acknowledged + dead + dropped + in flight", even)
        self.house.down()
        findings.check("no process of an old run was left after a node kill", self.blows.left)
        findings.check("no process is left at the end", self.house.run.left())

    def judge(self, findings: Findings) -> None:
        """The checker's word, in a process of its own without any package."""
        argv = [sys.executable, "-I", "-S", str(Path(checker.__file__)), str(self.house.data)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S)
        said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        findings.check("the history holds: nothing missing, nothing doubled, nothing unknown", said)
        if done.returncode and not said:
            findings.check("the checker ended well", [f"status {done.returncode}"])

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        """Somebody decides what is in doubt."""
        stopping = threading.Event()
        deciding = threading.Thread(target=self.people.decide, args=(stopping,))
        deciding.start()
        try:
            yield
        finally:
            stopping.set()
            deciding.join()

    def _make_good(self, deadline: float) -> None:
        while True:
            try:
                with self.house.client() as node:
                    return self.people.make_good(node)
            except (Unknown, WeftosError) as error:
                if time.monotonic() > deadline:
                    raise ProofError(f"what people did cannot be made good: {error}") from error

    def _settle(self, senders: Sequence[Sender], deadline: float, what: str) -> None:
        faults = list[Exception]()

        def settle(sender: Sender) -> None:
            try:
                sender.settle(deadline)
            except ProofError as error:
                faults.append(error)

        threads = [threading.Thread(target=settle, args=(sender,)) for sender in senders]
        for thread in threads:
            thread.start()
        with Steps(self._console, what, None) as bar:
            while any(thread.is_alive() for thread in threads):
                bar.reach(sum(len(sender.open) for sender in senders))
                time.sleep(0.2)
        for fault in faults:
            raise fault

    def _drained(self, node: Client, deadline: float) -> dict[str, int]:
        while (messages := node.status()["messages"])["in_flight"]:
            self.people.decide_all(node)
            if time.monotonic() > deadline:
                stuck = [row for row in node.ps() if row["mailbox"]]
                raise ProofError(f"not drained: {messages}, {stuck[:5]}")
            time.sleep(0.05)
        return dict(messages)  # type: ignore[arg-type]  # a TypedDict of numbers


def _trader(name: str, tools: Sequence[str], alone: bool = False) -> SpawnRequest:
    isolation: Isolation = "dedicated" if alone else "shared"
    return SpawnRequest(name, behaviour="trader", under="/user/load", tools=tools, isolation=isolation)


def _dump(path: Path, rows: Sequence[object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _print(console: Console, campaign: Campaign, timings: Sequence[Timing], findings: Findings) -> None:
    table = Table(title="times, by the ledger", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in ("what", "beside"):
        table.add_column(column)
    for column in ("n", "p50 s", "p99 s", "max s"):
        table.add_column(column, justify="right")
    for timing in timings:
        figures = (f"{value:.2f}" for value in (timing.p50_s, timing.p99_s, timing.max_s))
        table.add_row(timing.what, timing.load, str(timing.count), *figures)
    console.print(table)
    console.print(
        f"  load of the machine: {', '.join(f'{each:.1f}' for each in os.getloadavg())}", highlight=False
    )
    seen = Table(title="the history", box=box.SIMPLE, padding=(0, 1, 0, 0))
    seen.add_column("what was asked")
    kinds = ("invoke", "ok", "fail", "info")
    for kind in kinds:
        seen.add_column(kind, justify="right")
    tally = campaign.history.tally()
    for f in dict.fromkeys(f for f, _ in tally):
        seen.add_row(f, *(str(tally.get((f, kind), 0)) for kind in kinds))
    console.print(seen)
    dealt, decided = campaign.blows.dealt, campaign.people.decided
    findings.figure("killed", ", ".join(f"{count} {name}" for name, count in dealt.most_common()))
    boots_s = sorted(campaign.blows.boots_s)
    spread = f"{boots_s[0]:.1f} to {boots_s[-1]:.1f} s" if boots_s else "none"
    findings.figure("weftos up after a kill of the node", spread)
    findings.figure(
        "decided of what was in doubt", ", ".join(f"{n} {word}" for word, n in decided.items()) or "nothing"
    )
    findings.figure("effects outside", len(campaign.effects.read_text().splitlines()))
    letters = [json.loads(line) for line in (campaign.house.data / "deadletters.jsonl").open()]
    reasons = Counter(letter["reason"] for letter in letters)
    findings.figure("dead letters", ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or "none")
    findings.print(console)
