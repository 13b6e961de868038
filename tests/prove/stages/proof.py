"""Proof: an agent's turn of ten calls, killed at each stage boundary and inside each question and call.

A real node with the local engine, an agent with the whole pipeline and wires around its stages
(``plugins/walker.py``), a model server and an effect server as processes of their own. Who comes to a wire stands there
until the driver has killed, with SIGKILL, the cell, the gateway, the tools' worker or the node; the node is started
again. What came of it is judged by what the two servers have written down, and by the ledger.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tests.patience import HANG_S
from tests.prove.effects import EffectServer, server
from tests.prove.house import House, ProofError, proven
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger
from tests.prove.stages.doubts import settle
from tests.prove.stages.effect_server import DEAD
from tests.prove.stages.places import TOOLS, Case, plan
from tests.prove.stages.plugins.tripwires import Tripwires
from tests.prove.stages.verdict import Walked, judge, print_walks
from weftos import Client, WeftosError

AGENT, MODEL = "walker", "walk"
PLUGINS = Path(__file__).with_name("plugins")
POLL_S = 0.005
GO = "go"
_CONFIGURATION = """
[limits]
hang_s = 60

[providers.scripted]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"

[behaviours.walker]
import = "walker:Walker"
python_path = ["{plugins}"]
isolation = "shared"
"""
_TOOL = """
[tools.{name}]
import = "acting:{name}"
python_path = ["{plugins}"]
"""


def prove_stages(console: Console, seed: str, quick: bool) -> bool:
    """Walk all cases, or a sample, and judge. True when everything held."""
    house = House("s")

    def proof() -> bool:
        findings = Findings()
        with ExitStack() as stack:
            walk = Walk.begin(house, stack, findings)
            cases = plan(seed, quick)
            with Steps(console, "turns of ten calls", len(cases)) as bar:
                for done, case in enumerate(cases, 1):
                    walk.go(case)
                    bar.reach(done, case.label)
            walk.end()
        judge(house, walk.walked, walk.questions, walk.effects, findings)
        check_ledger(house, findings)
        print_walks(console, walk.walked)
        findings.print(console)
        return not findings.bad

    return proven(console, house, proof)


@dataclass(slots=True)
class Walk:
    """One node, the world outside, and what came of the walks so far. ``questions``: the model's own book."""

    house: House
    wires: Tripwires
    effects: EffectServer
    questions: Path
    findings: Findings
    node: Client
    walked: list[Walked] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, house: House, stack: ExitStack, findings: Findings) -> Walk:
        """The servers, the node, and the agent below a supervisor that does not give it up."""
        house.prepare()
        code = Path(shutil.copytree(PLUGINS, house.data / "code"))
        folder, questions, log = code / "wires", house.data / "questions.jsonl", house.data / "effects.log"
        folder.mkdir()
        model = stack.enter_context(server("tests.prove.stages.model", str(questions), str(folder)))
        port = stack.enter_context(server("tests.prove.stages.effect_server", str(log), str(folder)))
        (code / "port").write_text(str(port))
        with (house.node / "weftos.toml").open("a") as file:
            file.write(_CONFIGURATION.format(port=model, plugins=code))
            file.writelines(_TOOL.format(name=name, plugins=code) for name in TOOLS)
        house.up("--engine", "local")
        node = house.client()
        node.spawn("load", supervisor=True, intensity=(1000, 1.0))
        node.spawn(AGENT, under="/user/load", behaviour=AGENT, tools=TOOLS, provider="scripted", model=MODEL)
        return cls(house, Tripwires(folder), EffectServer(port, log), questions, findings, node)

    def go(self, case: Case) -> None:
        """One turn, with everybody killed in it who is to be."""
        self.wires.lay(case.name, [place.name for place, _ in case.kills])
        message = str(self.node.send(AGENT, f"walk {case.name}", session=case.name)["message"])
        walked = Walked(case, message)
        self.walked.append(walked)
        since = time.monotonic()
        for number, (_, victim) in enumerate(case.kills):
            self._wait(walked, number)
            if not self.wires.come_to(case.name, number):
                walked.missed = True
                break
            since = time.monotonic()
            self._kill(victim)
            self.wires.let_go(case.name, number, DEAD if victim in ("worker", "node") else GO)
        self._wait(walked)
        walked.took_s = time.monotonic() - since

    def end(self) -> None:
        """Everything is decided, and the node stops."""
        self.findings.check("no doubt is left", [doubt["id"] for doubt in self.node.doubts.list()])
        status = self.node.status()
        self.findings.check("no turn diverged", [str(status["divergences"])] if status["divergences"] else [])
        self.node.close()
        self.house.down()
        self.findings.check("no process of an old run was left after a node kill", self.orphans)
        self.findings.check("no process is left at the end", self.house.run.left())

    def _wait(self, walked: Walked, number: int | None = None) -> None:
        """Until the turn is over, or has come to its N-th wire. What is in doubt is decided meanwhile."""
        deadline = time.monotonic() + HANG_S
        while self.node.status()["messages"]["in_flight"]:
            if number is not None and self.wires.come_to(walked.case.name, number):
                return
            if time.monotonic() > deadline:
                raise ProofError(f"{walked.case.label} is not over after {HANG_S:g} s")
            walked.doubts += settle(self.node, self.effects)
            time.sleep(POLL_S)

    def _kill(self, victim: str) -> None:
        """SIGKILL, and wait until it is dead; a node is started again."""
        self.house.run.hold()
        if (pid := self._pid_of(victim)) is None:
            raise ProofError(f"there is no {victim} to kill")
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], HANG_S)
        finally:
            os.close(handle)
        if victim == "node":
            old = self.house.run
            self.node.close()
            self.house.up("--engine", "local")
            self.orphans += old.left()
            old.close()
            self.node = self.house.client()

    def _pid_of(self, victim: str) -> int | None:
        """Of who is to be killed; what is on its way to run is waited for."""
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            with suppress(WeftosError):
                if pid := self._look_for(victim):
                    return pid
            time.sleep(POLL_S)
        return None

    def _look_for(self, victim: str) -> int | None:
        match victim:
            case "node":
                return self.house.run.leader
            case "cell":
                return next((row["os_pid"] for row in self.node.ps() if row["name"] == AGENT), None)
            case "worker":
                names = [row for row in self.node.status()["helpers"] if "acting" in row["name"]]
                return next((row["os_pid"] for row in names if row["os_pid"]), None)
        helpers = self.node.status()["helpers"]
        return next((row["os_pid"] for row in helpers if row["name"] == victim), None)
