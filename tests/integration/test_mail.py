"""What becomes of messages on a real node, and what is said of it."""

from __future__ import annotations

from typing import Any

from tests.integration.live_node import WAIT_S, LiveNode, until


def busy(node: LiveNode, name: str, **options: Any) -> str:
    """A process in a turn that does not end; the message of it."""
    node.api.spawn(name, behaviour="holds", **options)
    message = str(node.api.send(name, "held")["message"])
    until(lambda: any(one["message"] == message for one in node.entries("turn.started")), "its turn is open")
    return message


def test_what_expires_behind_an_open_turn_is_told_to_who_waits_for_it(node: LiveNode) -> None:
    busy(node, "engrossed")
    late = node.api.send("engrossed", "late", expires_s=0.05, wait_s=WAIT_S)
    assert (late["status"], late["reply"]) == ("dead", "expired before it was delivered")
    assert node.row("engrossed")["mailbox"] == 1  # what it is at
    [letter] = node.api.deadletters(to="/user/engrossed")
    assert (letter["id"], letter["reason"]) == (late["message"], "expired")
