"""What befalls a node from outside: kills of every part of it, and people who cancel, stop, start and decide."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernel.operations.decisions import Doubt, Resolution
from tests.patience import HANG_S
from tests.prove.chaos.history import History, Unknown
from tests.prove.house import House, ProofError
from tests.prove.processes import Run, below, kill, living
from tests.prove.victims import Choice
from weftos import Client, WeftosError

KILLS = {"cell": 10, "worker": 5, "ray": 1, "ray's helper": 1, "placer": 1, "node": 2, "booting node": 1}
"""Whom, and how often beside the others; ``ray``: its raylet and its GCS in turn; its helpers are all else of it."""
RAY_ITSELF = ("gcs_server", "raylet")
SHORTEST_S, LONGEST_S = 0.05, 2.5
LONGEST_BOOT_S = 4.0
TROUBLE_S = 0.4
DECIDE_S = 0.2


class Blows:
    """Kills, and the nodes that followed them. ``left``: processes of a run that outlived the start of the next."""

    def __init__(self, house: House, history: History, agents: Sequence[str], chance: random.Random) -> None:
        self.dealt: Counter[str] = Counter()
        self.left: list[str] = []
        self.boots_s: list[float] = []
        self._house = house
        self._history = history
        self._chance = chance
        self._choice = Choice(house, agents, chance)

    def deal(self) -> None:
        """Kill one that is chosen by chance, whatever state all are in; nobody where that one is not there just now."""
        kind = self._chance.choices(list(KILLS), list(KILLS.values()))[0]
        if kind in ("node", "booting node"):
            self._node(kind)
            return
        with suppress(WeftosError, ProofError, LookupError):
            with self._house.client() as node:
                name, os_pid = self._victim(kind, node)
            self._kill(name, os_pid)

    def _kill(self, name: str, os_pid: int) -> None:
        op = f"k{self.dealt.total()}-{name}"
        self._history.write("kill", op, "invoke", os_pid=os_pid)
        try:
            kill(os_pid)
        except ProcessLookupError:
            self._history.write("kill", op, "fail")
        else:
            self._history.write("kill", op, "ok")
            self.dealt[name] += 1

    def _victim(self, kind: str, node: Client) -> tuple[str, int]:
        """Raises LookupError when there is none just now."""
        helpers = {row["name"]: row["os_pid"] for row in node.status()["helpers"]}
        match kind:
            case "worker":
                found = [os_pid for name, os_pid in helpers.items() if name.startswith("worker-") and os_pid]
            case "ray's helper":
                found = self._helpers_of_ray(helpers["placer"], {row["os_pid"] for row in node.ps()})
            case _:
                victim = self._choice.victim(kind, node)
                kind, found = victim.name, [victim.os_pid] if victim.os_pid else []
        return kind, self._chance.choice(found)

    def _helpers_of_ray(self, placer: int, cells: set[int]) -> list[int]:
        """What runs below the placer (0: none) and is neither cell nor Ray itself; some takes the raylet along."""
        return [
            process.pid
            for process in (below(placer, living()) if placer else ())
            if process.session == self._house.run.leader
            and "/ray/" in process.command
            and process.pid not in cells
            and Path(process.command.split(" ")[0]).name not in RAY_ITSELF
        ]

    def _node(self, kind: str) -> None:
        """Kill the node, and start it again; ``booting node``: kill that too, up or not."""
        old = [self._house.run]
        self._end(old[0])
        if kind == "booting node":
            old += self._booting()
        self.boots_s.append(self._house.up())
        for run in old:
            self.left += run.left()
            run.close()

    def _end(self, run: Run, name: str = "node") -> None:
        run.hold()
        self._kill(name, run.leader)

    def _booting(self) -> list[Run]:
        """Start it, and kill it some moment later."""
        start = self._house.starting()
        while not self._nodes() and start.poll() is None:
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0.0, LONGEST_BOOT_S))
        runs: list[Run] = []
        deadline = time.monotonic() + HANG_S
        while (found := self._nodes()) or start.poll() is None:
            if time.monotonic() > deadline:
                raise ProofError(f"a start whose node was killed goes on for {HANG_S:g} s")
            for run in (Run(os_pid) for os_pid in found):
                self._end(run, "booting node")
                runs.append(run)
            time.sleep(0.05)
        return runs

    def _nodes(self) -> list[int]:
        wanted = f"-m weftos.node --data {self._house.node} "
        found = (process for process in living().values() if wanted in process.command)
        return [process.pid for process in found if process.session == process.pid]


class People:
    """Those who interfere: two threads, one makes trouble for ``soft`` agents, one decides what is in doubt."""

    def __init__(
        self, house: House, history: History, soft: Sequence[str], effects: Path, chance: random.Random
    ) -> None:
        self._house = house
        self._history = history
        self._soft = soft
        self._effects = effects
        self._chance = chance
        self._number = 0
        self._again: list[tuple[str, str, str]] = []
        """Stops and starts of which nobody knows whether they were done, with op and agent."""
        self._unknown: set[str] = set()
        self.decided: Counter[str] = Counter()
        self._undecided: dict[str, dict[str, Any]] = {}

    def trouble(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._chance.uniform(0, TROUBLE_S)):
            with suppress(Unknown, WeftosError), self._house.client() as node:
                node.status()  # where no node answers nobody asks it for more
                agent = self._chance.choice(self._soft)
                if self._chance.random() < 0.7:
                    self._cancel(node, agent)
                else:
                    self._do(node, "stop", agent)
                    stopping.wait(self._chance.uniform(0, 1.0))
                    self._do(node, "start", agent)

    def _cancel(self, node: Client, agent: str) -> None:
        op = self._name("cancel")
        try:
            self._history.attempt(
                "cancel",
                op,
                lambda: node.cancel(agent, why=op),
                lambda done: {"message": done["message"], "others": done["others"]},
                agent=agent,
            )
        except Unknown:
            self._unknown.add(op)
            raise

    def _do(self, node: Client, f: str, agent: str, op: str = "") -> None:
        op = op or self._name(f)
        act: Callable[[str], Any] = node.stop if f == "stop" else node.start
        try:
            self._history.attempt(
                f, op, lambda: act(agent), lambda done: {"state": done["state"]}, agent=agent
            )
        except Unknown:
            self._again.append((f, op, agent))
            raise

    def _name(self, f: str) -> str:
        self._number += 1
        return f"{f}{self._number}"

    # -- what is in doubt --------------------------------------------------------------------------------------------

    def decide(self, stopping: threading.Event) -> None:
        while not stopping.wait(DECIDE_S):
            with suppress(WeftosError), self._house.client() as node:
                self.decide_all(node)

    def decide_all(self, node: Client) -> int:
        """Look at each call in doubt as a person would, outside, and say what became of it. How many there were."""
        doubts = node.doubts.list()
        there = {doubt["id"] for doubt in doubts}
        for ident in [ident for ident in self._undecided if ident not in there]:
            self._history.write("decide", ident, "invoke", **self._undecided.pop(ident))
            self._history.write("decide", ident, "ok", gone=True)
        for doubt in doubts:
            with suppress(Unknown):
                self._decide(node, doubt)
        return len(doubts)

    def _decide(self, node: Client, doubt: Doubt) -> None:
        effect, ident = json.loads(doubt["arguments"])["effect"], doubt["id"]
        word: Resolution = "done" if self._happened(doubt["effect_id"]) else "lost"
        if word == "lost" and doubt["turn_open"] and self._chance.random() < 0.5:
            word = "retry"
        self._undecided[ident] = {"effect": effect, "word": word}
        done = self._history.attempt(
            "decide",
            ident,
            lambda: node.doubts.resolve(ident, word),
            lambda answer: {},
            **self._undecided[ident],
        )
        del self._undecided[ident]
        if done is not None:
            self.decided[word] += 1

    def _happened(self, effect_id: str) -> bool:
        return self._effects.exists() and effect_id in self._effects.read_text()

    # -- afterwards --------------------------------------------------------------------------------------------------

    def make_good(self, node: Client) -> None:
        """Start all that was stopped, and find out about what nobody knew. Raises Unknown, WeftosError."""
        while self._again:
            f, op, agent = self._again.pop()
            self._do(node, f, agent, op)
        while stopped := [row["name"] for row in node.ps() if row["slot"] == "stopped"]:
            for agent in stopped:  # whose messages may yet be on their way to the dead letters
                self._do(node, "start", agent)
        if self._unknown:
            rows = node.log(kind="operator.command", limit=10_000)["rows"]
            done = json.dumps(rows)
            for op in self._unknown:
                self._history.write("cancel", op, "invoke")
                self._history.write("cancel", op, "ok" if f'"{op}' in done.replace("\\", "") else "fail")
            self._unknown.clear()
