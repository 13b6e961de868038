"""Proof: calls interrupted in every way there is. What happened outside and what the ledger says of it agree.

Agents call a tool that leaves an effect outside, some of it past the tool's deadline, some past that of the turn; they
do so of themselves, on the word of a model, and by asking another agent. Meanwhile turns are cancelled, agents stopped,
killed and started again, workers, cells and the node killed with SIGKILL. The effect server, outside,
counts what was really done: nothing twice, nothing that the ledger calls not done, and whatever may have happened
without an outcome was put before a person.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from chain.disk import Disk
from chain.entry.reader import EntryRecord, read_records
from tests.patience import HANG_S
from tests.prove.effects import EffectServer, effect_server
from tests.prove.house import House, ProofError, proven
from tests.prove.processes import kill
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger
from weftos import Client, WeftosError

LABOURERS = [f"labourer{n}" for n in range(5)]
PLANNERS = ["planner0", "planner1"]
ASKED = "asked"
AGENTS = [*LABOURERS, *PLANNERS, ASKED]
TOOLS = ["count_effect", "hasty_effect", "file_write", "calculator", "ask"]
ROUNDS = ["h", "e", "hh", "eh", "ehw", "c", "a", "ae"]
TURN_S = 2
MAX_WAIT_MS = 900
MAX_IN_FLIGHT = 24
DELAY_S = 0.05
DRAIN_S = HANG_S
SHOWN_LINES = 3

Call = tuple[str, str]  # turn, ordinal


@dataclass(slots=True)
class Campaign:
    """One node, the world outside, and what was promised. ``sent``: message -> the effects it asks for."""

    house: House
    effects: EffectServer
    chance: random.Random
    sent: dict[str, list[str]] = field(default_factory=dict)
    blows: Counter[str] = field(default_factory=Counter)
    resolved: Counter[str] = field(default_factory=Counter)

    def settle(self, node: Client) -> int:
        """Say of each doubt what a person would find out: asks the world outside. How many there were."""
        doubts = node.doubts.list()
        for doubt in doubts:
            effect = json.loads(doubt["arguments"]).get("effect", "")
            word = "done" if self.effects.counts([effect])[effect] else "lost"
            with suppress(WeftosError):  # settled meanwhile by its turn's end
                node.doubts.resolve(doubt["id"], word)  # type: ignore[arg-type]  # one of the literals
                self.resolved[word] += 1
        return len(doubts)


def prove_interruptions(console: Console, seed: str, blows: int) -> bool:
    """Interrupt ``blows`` times and judge. True when everything held."""
    house = House("i")
    findings = Findings()

    def proof() -> bool:
        with effect_server(house.data / "effects.log", DELAY_S) as effects:
            campaign = Campaign(house, effects, random.Random(seed))
            _run(console, campaign, blows, findings)
            _judge(campaign, findings)
        check_ledger(house, findings)
        findings.print(console)
        return not findings.bad

    return proven(console, house, proof)


def _run(console: Console, campaign: Campaign, blows: int, findings: Findings) -> None:
    house = campaign.house
    house.prepare()
    with (house.node / "weftos.toml").open("a") as file:
        file.write(f"\n[limits]\nturn_timeout_s = {TURN_S}\n")
    house.up("--engine", "local")
    with house.client() as node:
        node.spawn("load", supervisor=True, intensity=(1000, 1.0))
        for name in AGENTS:
            behaviour = "agent" if name in PLANNERS else "labourer"
            node.spawn(name, under="/user/load", behaviour=behaviour, tools=TOOLS)
    with _traffic(campaign), Steps(console, "interruptions", blows) as bar:
        for number in range(blows):
            time.sleep(campaign.chance.uniform(0.05, 0.6))  # the random moment
            what = campaign.chance.choices(
                [name for name, _ in _BLOWS], [weight for _, (weight, _) in _BLOWS]
            )[0]
            with suppress(WeftosError):  # nothing to cancel, stopped already: as good
                dict(_BLOWS)[what][1](campaign)
                campaign.blows[what] += 1
            bar.reach(number + 1, what)
    _drain(campaign)
    old = house.run
    house.down()
    findings.check("no process is left at the end", old.left())


@contextmanager
def _traffic(campaign: Campaign) -> Iterator[None]:
    """Messages to every agent, without pause, until the block ends."""
    stopping = threading.Event()
    senders = [threading.Thread(target=_send, args=(campaign, name, stopping)) for name in AGENTS[:-1]]
    for sender in senders:
        sender.start()
    try:
        yield
    finally:
        stopping.set()
        for sender in senders:
            sender.join()


def _send(campaign: Campaign, agent: str, stopping: threading.Event) -> None:
    chance, number = random.Random(f"{campaign.chance.random()} {agent}"), 0
    while not stopping.wait(0.05):
        with suppress(WeftosError), Client(campaign.house.node) as node:
            while not stopping.wait(0.02):
                if node.status()["messages"]["in_flight"] > MAX_IN_FLIGHT:
                    continue
                number += 1
                ident = f"{agent}-{number}"
                work = _planned if agent in PLANNERS else _plan
                text, effects = work(campaign, chance, ident)
                campaign.sent[node.send(agent, text)["message"]] = effects


def _plan(campaign: Campaign, chance: random.Random, ident: str) -> tuple[str, list[str]]:
    """Work for a labourer, and the effects it asks for itself."""
    rounds = chance.choices(ROUNDS, k=chance.randint(1, 3))
    work = {"id": ident, "port": campaign.effects.port, "rounds": rounds, "ask": ASKED}
    work["wait_ms"] = chance.randint(0, MAX_WAIT_MS)
    places = [(n, i, letter) for n, letters in enumerate(rounds) for i, letter in enumerate(letters)]
    return json.dumps(work), [f"{ident}.{n}.{i}" for n, i, letter in places if letter in "eh"]


def _planned(campaign: Campaign, chance: random.Random, ident: str) -> tuple[str, list[str]]:
    """The same in words, for the offline planner: its agent asks a model before each call and behind it."""
    tool, wait_ms = chance.choice(TOOLS[:2]), chance.randint(0, MAX_WAIT_MS)
    arguments = {"port": campaign.effects.port, "effect": ident, "wait_ms": wait_ms}
    return f"use {tool} with {json.dumps(arguments)}", [ident]


# -- the blows -------------------------------------------------------------------------------------------------------


def _cancel(campaign: Campaign) -> None:
    with campaign.house.client() as node:
        node.cancel(campaign.chance.choice(AGENTS))


def _stop(campaign: Campaign) -> None:
    agent = campaign.chance.choice(AGENTS)
    with campaign.house.client() as node:
        node.stop(agent)
        time.sleep(campaign.chance.uniform(0.0, 0.3))
        node.start(f"/user/load/{agent}")


def _exit_signal(campaign: Campaign) -> None:
    with campaign.house.client() as node:
        node.kill(campaign.chance.choice(AGENTS), signal=campaign.chance.choice(("term", "kill")))


def _worker(campaign: Campaign) -> None:
    with campaign.house.client() as node:
        helpers = node.status()["helpers"]
    workers = [row["os_pid"] for row in helpers if row["name"].startswith("worker-") and row["os_pid"]]
    if workers:
        kill(campaign.chance.choice(workers))


def _cell(campaign: Campaign) -> None:
    with campaign.house.client() as node:
        cells = sorted({row["os_pid"] for row in node.ps() if row["name"] in AGENTS and row["os_pid"]})
    if cells:
        kill(campaign.chance.choice(cells))


def _node(campaign: Campaign) -> None:
    old = campaign.house.run
    old.hold()
    kill(old.leader)
    campaign.house.up("--engine", "local")
    old.close()


def _decide(campaign: Campaign) -> None:
    with campaign.house.client() as node:
        campaign.settle(node)


Blow = Callable[[Campaign], None]
_BLOWS: list[tuple[str, tuple[int, Blow]]] = [
    ("cancel", (6, _cancel)),
    ("stop and start", (4, _stop)),
    ("exit signal", (4, _exit_signal)),
    ("worker killed", (3, _worker)),
    ("cell killed", (2, _cell)),
    ("node killed", (1, _node)),
    ("doubts decided", (4, _decide)),
]


def _drain(campaign: Campaign) -> None:
    """Have every agent run and every doubt decided, until nothing is in flight."""
    deadline = time.monotonic() + DRAIN_S
    with campaign.house.client() as node:
        for agent in AGENTS:
            with suppress(WeftosError):
                node.start(f"/user/load/{agent}")
        while campaign.settle(node) or node.status()["messages"]["in_flight"]:
            if time.monotonic() > deadline:
                stuck = [row for row in node.ps(all=True) if row["mailbox"]]
                raise ProofError(f"not drained after {DRAIN_S:g} s: {node.status()['messages']}, {stuck}")
            time.sleep(0.05)


# -- the verdict -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Told:
    """What the ledger says: of each call its effect and its outcomes, of each message how often it ended."""

    effect_of: dict[Call, str] = field(default_factory=dict)
    intended: set[Call] = field(default_factory=set)
    outcomes: dict[Call, list[str]] = field(default_factory=dict)
    resolved: dict[Call, str] = field(default_factory=dict)
    message_of: dict[str, str] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    walked: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, body: dict[str, str]) -> None:
        call = (body.get("turn", ""), body.get("ordinal", ""))
        self._walk(kind, body)
        match kind:
            case "tool.proposed" if body["tool"] in ("count_effect", "hasty_effect"):
                self.effect_of[call] = json.loads(body["arguments"])["effect"]
            case "tool.intent":
                self.intended.add(call)
            case "tool.outcome":
                self.outcomes.setdefault(call, []).append(body["status"])
            case "tool.resolved":
                self.resolved[call] = body["resolution"]
            case "turn.started":
                self.message_of[body["turn"]] = body["message"]
            case "turn.ended" if body["status"] in ("ok", "error", "cancelled"):
                self.endings[self.message_of[body["turn"]]] += 1
            case "message.dead":
                self.endings[body["id"]] += 1

    def _walk(self, kind: str, body: dict[str, str]) -> None:
        """Whether the walk met what it is to meet."""
        match kind:
            case "tool.proposed":
                self.walked[f"calls of {body['tool']}"] += 1
            case "model.asked":
                self.walked["questions to a model"] += 1
            case "turn.ended" if body["reply"].startswith("the turn did not end"):
                self.walked["turns past their time"] += 1


def _told(data: Path) -> Told:
    told = Told()
    for record in read_records(data / "journal", Disk()):
        if isinstance(record, EntryRecord):
            told.add(record.entry.kind, record.body)
    return told


def _judge(campaign: Campaign, findings: Findings) -> None:
    told = _told(campaign.house.node)
    counts = Counter(campaign.effects.log.read_text().split())
    last = {call: statuses[-1] for call, statuses in told.outcomes.items()}
    calls = {effect: call for call, effect in told.effect_of.items()}
    findings.figure("interruptions", ", ".join(f"{count} {what}" for what, count in campaign.blows.items()))
    findings.figure("met", ", ".join(f"{count} {what}" for what, count in told.walked.most_common()))
    findings.figure("messages acknowledged", len(campaign.sent))
    findings.figure("effects counted outside", sum(counts.values()))
    findings.figure(
        "outcomes of calls with effects", _tally(last[call] for call in told.effect_of if call in last)
    )
    findings.figure(
        "doubts decided", ", ".join(f"{count} {word}" for word, count in campaign.resolved.items())
    )
    findings.check(
        "asks, questions, writes and turns past their time were met",
        (
            what
            for what in (
                "calls of ask",
                "calls of file_write",
                "questions to a model",
                "turns past their time",
            )
            if not told.walked[what]
        ),
    )
    findings.check("0 effects doubled", (f"{effect}: {n} times" for effect, n in counts.items() if n > 1))
    findings.check(
        "0 messages lost, 0 ended twice",
        (
            f"{message} ended {told.endings[message]} times"
            for message in campaign.sent
            if told.endings[message] != 1
        ),
    )
    findings.check(
        "no effect without an intent", (effect for effect in counts if calls.get(effect) not in told.intended)
    )
    findings.check(
        "what the ledger calls done was done",
        (
            f"{effect}: ok, but {counts[effect]} times"
            for effect, call in calls.items()
            if last.get(call) == "ok" and counts[effect] != 1 and told.resolved.get(call) != "done"
        ),
    )
    findings.check(
        "what the ledger calls not done was not done",
        (
            f"{effect}: {last[call]}, but {counts[effect]} times"
            for effect, call in calls.items()
            if last.get(call) in ("killed", "denied", "timeout", "lost") and counts[effect]
        ),
    )
    findings.check(
        "what may have happened without an outcome was in doubt",
        (
            f"{effect}: happened, and its outcomes are {told.outcomes.get(calls[effect])}"
            for effect in counts
            if effect in calls
            and last.get(calls[effect]) != "ok"
            and "in_doubt" not in told.outcomes.get(calls[effect], ())
        ),
    )
    findings.check(
        "no intent is left without an outcome",
        (f"{told.effect_of.get(call)}" for call in told.intended if call not in told.outcomes),
    )
    findings.check("nothing broke off in the node", _tracebacks(campaign.house.node))  # fmt: skip


def _tally(statuses: Iterator[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(statuses).most_common())


def _tracebacks(data: Path) -> list[str]:
    found = []
    for log in (data / "logs").glob("node*"):
        lines = log.read_text(errors="replace").splitlines()
        found += [line for line in lines if "Traceback" in line or '"exception"' in line]
    return found[:SHOWN_LINES]
