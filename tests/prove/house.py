"""A weftos node on a data directory of its own, driven as a person drives it: through the CLI and the client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.own_code import own_code
from tests.patience import HANG_S
from tests.prove.processes import Run, living
from weftos import Client, WeftosError

PLUGINS = own_code(Path(__file__).with_name("plugins"))
COMMAND_S = 2 * HANG_S
_CONFIGURATION = f"""
[tools.count_effect]
import = "counting:count_effect"
python_path = ["{PLUGINS}"]

[tools.hasty_effect]
import = "counting:hasty_effect"
python_path = ["{PLUGINS}"]

[tools.tick]
import = "counting:tick"
python_path = ["{PLUGINS}"]

[behaviours.labourer]
import = "labour:Labourer"
python_path = ["{PLUGINS}"]
isolation = "shared"
"""


class ProofError(Exception):
    """The proof cannot go on; the message says where it stopped."""


class House:
    """One node. ``run`` are the processes of its present run, ``data`` its directory."""

    def __init__(self, purpose: str) -> None:
        self.data = Path(tempfile.mkdtemp(prefix=f"wp-{purpose}-", dir="/tmp"))
        self.node = self.data / "node"
        self.run = Run(-1)

    def prepare(self) -> None:
        """Make the data directory, with the tool and the behaviour of the proofs configured."""
        self.cli("init", str(self.node))
        with (self.node / "weftos.toml").open("a") as file:
            file.write(_CONFIGURATION)

    def cli(self, *words: str) -> dict[str, Any]:
        """One command of the CLI with --json. Raises ProofError unless its exit status is 0."""
        argv = [sys.executable, "-P", "-m", "weftos", *words, "--json"]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.data / "config")}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_S, env=environment)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            raise ProofError(f"weftos {' '.join(words)} ended with status {done.returncode}: {said}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def up(self, *words: str) -> float:
        """Start the node; how long that took, until it listened."""
        started = time.monotonic()
        answer = self.cli("up", "--detach", "--data", str(self.node), *words)
        self.run = Run(answer["os_pid"])
        return time.monotonic() - started

    def starting(self) -> subprocess.Popen[bytes]:
        """A start of the node that nobody has waited for yet."""
        argv = [sys.executable, "-P", "-m", "weftos", "up", "--detach", "--data", str(self.node)]
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def down(self) -> None:
        self.run.hold()
        self.cli("down", "--data", str(self.node))

    def client(self) -> Client:
        return Client(self.node, timeout_s=HANG_S)

    def explain(self, console: Console) -> None:
        """What a person needs to find out why a proof failed."""
        console.rule("[red]what the node says")
        try:
            with self.client() as node:
                for row in node.ps(all=True):
                    console.print_json(data=row, indent=None)
                console.print_json(data=node.status())
        except WeftosError as error:
            console.print(f"ps: {error}", markup=False)
        for name in ("node.jsonl", "node.out", "placer.log"):
            log = self.node / "logs" / name
            if log.exists():
                console.rule(name)
                with log.open(errors="replace") as file:
                    console.print("".join(deque(file, maxlen=25)), markup=False, highlight=False)
        console.rule("processes of the run")
        for process in living().values():
            if process.session == self.run.leader:
                console.print(f"{process.pid} {process.parent} {process.command[:150]}", markup=False)
        console.print(f"the data directory is kept: {self.data}", style="bold")


def proven(console: Console, house: House, proof: Callable[[], bool]) -> bool:
    """Run a proof. Whatever comes of it, its node is stopped; the directory goes only when everything held."""
    held = False
    try:
        held = proof()
        if not held:
            house.explain(console)
    except (ProofError, WeftosError, OSError, subprocess.SubprocessError) as error:
        console.print(f"the proof broke off: {type(error).__name__}: {error}", style="red", markup=False)
        house.explain(console)
    finally:
        argv = [sys.executable, "-P", "-m", "weftos", "down", "--data", str(house.node)]
        subprocess.run(argv, capture_output=True, timeout=COMMAND_S)
    if held:
        shutil.rmtree(house.data)
    return held
