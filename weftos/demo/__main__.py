"""``python -P -m weftos.demo [--engine ray|local] [--keep]``."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from rich.rule import Rule
from rich.text import Text

import weftos.demo
from weftos.demo.chapters import tell
from weftos.demo.story import ClaimFailed, Story

NODES = ("n1", "n2", "n3")
DEADLINE_S = "4"  # of messages to a node that is away: the story does not wait a minute


def main(argv: Sequence[str] | None = None) -> int:
    """Tell the story. Exit status 1 when a claim of it does not hold."""
    parser = argparse.ArgumentParser(prog="weftos.demo", description=weftos.demo.__doc__)
    parser.add_argument("--engine", choices=("ray", "local"), default="ray")
    parser.add_argument("--keep", action="store_true", help="keep the data directories")
    args = parser.parse_args(argv)
    os.environ["WEFTOS_MESH__DEADLINE_S"] = DEADLINE_S
    story = Story(args.engine, NODES)
    failed = ""
    try:
        tell(story)
    except ClaimFailed as error:
        failed = str(error)
    finally:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            down = [sys.executable, "-P", "-m", "weftos", "cluster", "down", "--data", str(story.cluster)]
            subprocess.run(down, capture_output=True, timeout=60)
        if not args.keep and not failed:
            shutil.rmtree(story.home, ignore_errors=True)
    story.console.print()
    if failed:
        words = f"✗ does not hold: {failed}\n  the data is kept in {story.home}"
        story.console.print(Text(words, style="bold red"))
        return 1
    story.console.print(Rule(f"[bold green]everything held[/]  {story.elapsed_s:.1f} s", style="green"))
    if args.keep:
        story.console.print(f"the nodes' data is in {story.cluster}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
