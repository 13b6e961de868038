"""The narrator: chapters, commands and what they print, claims and whether they hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from weftos.client.client import Client

WIDTH, LEAST_WIDTH = 112, 60
INDENT = 4
COMMAND_TIMEOUT_S = 120.0
PATIENCE_S = 30.0


class ClaimFailed(Exception):
    """Something the story says is not so."""


class Story:
    """Tells, runs, checks. ``cluster`` holds the nodes' data directories, ``desk`` the files the agents work on."""

    def __init__(self, engine: str, nodes: tuple[str, ...]) -> None:
        self.engine = engine
        self.nodes = nodes
        self.home = Path(tempfile.mkdtemp(prefix="weftos-demo-"))
        self.cluster = self.home / "cluster"
        self.desk = self.home / "desk"
        self.width = min(WIDTH, max(LEAST_WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
        self.console = Console(width=self.width, highlight=False, soft_wrap=True)
        self.started = time.monotonic()
        self.chapters = 0

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    def data(self, node: str) -> Path:
        """The data directory of a node."""
        return self.cluster / node

    def client(self, node: str) -> Client:
        return Client(self.data(node))

    def chapter(self, title: str, *lines: str) -> None:
        """Begin a chapter."""
        self.chapters += 1
        heading = f"[bold]{self.chapters}. {title}[/bold]  [dim]{self.elapsed_s:4.1f} s[/dim]"
        self.console.print()
        self.console.print(Rule(heading, align="left", style="cyan"))
        for line in lines:
            self.console.print(Text(line), style="italic")

    def say(self, text: str) -> None:
        self.console.print(Text(text), style="italic")

    def act(self, text: str) -> None:
        """Something drastic that the story does itself."""
        self.console.print(Text(f"    {text}", style="bold red"))

    def typed(self, prompt: str, line: str) -> None:
        """Show what is typed at a prompt."""
        self.console.print(Text.assemble((f"  {prompt} ", "bold"), (line, "bold")))

    def proven(self, text: str, *, holds: bool) -> None:
        """A claim, checked."""
        if not holds:
            raise ClaimFailed(text)
        self.console.print(Text.assemble(("  ✓ ", "bold green"), text))

    def weftos(self, *words: str, on: str = "", fails: bool = False, shown: str = "") -> str:
        """Run a command on a node (``on``) and show it with what it printed."""
        line = shown or " ".join(f'"{word}"' if " " in word else word for word in words)
        self.console.print()
        self.typed("$" if not on else f"{on}$", f"weftos {line}")
        environment = {
            **os.environ,
            "COLUMNS": str(self.width - INDENT),
            "XDG_CONFIG_HOME": str(self.home / "config"),
        }
        if on:
            environment["WEFTOS_DATA"] = str(self.data(on))
        return self._run(("-P", "-m", "weftos", *words), f"weftos {line}", environment, fails=fails)

    def script(self, path: Path, *words: str, shown: str) -> str:
        """Run a Python file and show it with what it printed."""
        line = f"python {path.parent.name}/{path.name} {shown}"
        self.console.print()
        self.typed("$", line)
        return self._run(("-I", str(path), *words), line, dict(os.environ), fails=False)

    def _run(self, words: Sequence[str], line: str, environment: dict[str, str], *, fails: bool) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )
        text = (done.stdout + done.stderr).rstrip("\n")
        printed = Text(text, overflow="fold")
        self.console.print(Padding(printed, (0, 0, 0, INDENT)), soft_wrap=False)
        if (done.returncode != 0) != fails:
            wanted = "fail" if fails else "succeed"
            raise ClaimFailed(f"{line} ended with status {done.returncode}; it was to {wanted}")
        return text

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until ``holds()``, at most half a minute."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise ClaimFailed(f"waited {PATIENCE_S:.0f} s for {what}")
            time.sleep(0.05)
