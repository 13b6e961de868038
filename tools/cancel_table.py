"""Writes docs/cancel.md: ``python -m tools.cancel_table``; a test tells when it is stale.

The states are the tests of tests/integration/test_cancel.py, which names the surfaces; what follows is said here.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "cancel.md"
TESTS = Path("tests/integration/test_cancel.py")

_INTRODUCTION = """\
# What cancelling does, wherever a message stands

Made by `python -m tools.cancel_table`; do not edit by hand, a test says when it is stale.

`weftos cancel PROCESS [--message ID] [--why TEXT]`, `POST /v1/cancel`, and, for what is below an agent or what it has
sent itself, its tool `cancel_turn`. Each row is a test on real nodes, from each of the three, part of `make test`. Who
did it and why stands in the entry that ends the message.
"""

STATES = {
    "queued": ("queued behind another message", "`message.cancelled`; the turn before it goes on"),
    "before_start": ("its process is still starting", "`message.cancelled`; nobody is ever handed it"),
    "model_streaming": (
        "a model answers",
        "`turn.ended`, cancelled; the gateway closes the connection to the provider",
    ),
    "tool_running": (
        "a tool works",
        "`turn.ended`, cancelled; the worker is killed with all that it has started, and the call is in doubt unless "
        "it is known to be without effects. While calls of others run in that worker it takes no more, and is killed "
        "when they are over; where too many workers wait so already, it goes on taking calls until it has only "
        "cancelled ones",
    ),
    "waiting_for_a_person": (
        "a call is in doubt",
        "`turn.ended`, cancelled; the doubt stays until it is resolved",
    ),
    "backing_off": (
        "its process has died and waits to start again",
        "`turn.ended`, cancelled; the next one does not take it up",
    ),
    "child_running": (
        "it has asked another process",
        "`turn.ended`, cancelled, of both, in one unit of the ledger",
    ),
    "on_another_node": (
        "it has asked a process of another node",
        "`turn.ended`, cancelled, here; that node is told and ends its turn too, as long as the link is up. "
        "`cancel PROCESS@NODE` needs the right `kill` there",
    ),
}


def states_tested() -> list[str]:
    """The states that there are tests of."""
    found = ast.parse((ROOT / TESTS).read_text()).body
    return [
        each.name.removeprefix("test_")
        for each in found
        if isinstance(each, ast.FunctionDef) and each.name[:5] == "test_"
    ]


def render() -> str:
    """The whole page."""
    rows = [
        f"| {state} | {follows} | CLI, API, process above | `{TESTS.name}::test_{name}` |"
        for name, (state, follows) in STATES.items()
    ]
    head = ("| the message | what follows | from | test |", "|---|---|---|---|")
    return "\n".join([_INTRODUCTION, *head, *rows, ""])


if __name__ == "__main__":
    TARGET.write_text(render())
