"""What becomes of messages on a real node, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel.operations.mailboxes import Mailbox
from tests.integration.live_node import WAIT_S, LiveNode, until
from weftos import WeftosError


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


def test_what_finds_no_room_is_refused_or_dead_as_the_spec_of_its_receiver_says(node: LiveNode) -> None:
    busy(node, "strict", mailbox=Mailbox(messages=1))
    with pytest.raises(WeftosError, match=r"mailbox of /user/strict is full \(1 messages, limit 1\)"):
        node.api.send("strict", "too much")
    made = ("spawn", "lenient", "--behaviour", "holds")
    mailbox = ("--mailbox", "messages=1", "--mailbox", "overflow=dead_letter")
    status, _, err = node.command(*made, *mailbox)
    assert status == 0, err
    node.api.send("lenient", "held")
    told = node.api.send("lenient", "too much", wait_s=WAIT_S)
    assert told["status"] == "dead" and told["reply"].endswith("its spec says dead_letter")
    [letter] = node.api.deadletters(to="/user/lenient")
    assert (letter["id"], letter["reason"]) == (told["message"], "overflow")
    assert node.api.change("lenient", mailbox=Mailbox(messages=2))["changed"] == ["mailbox"]
    node.api.replay(told["message"])
    limits = node.api.inspect("lenient")["mailbox_limits"]
    assert limits is not None and (limits["messages"], limits["overflow"]) == (2, "back_pressure")
    assert node.row("lenient")["mailbox"] == 2


def test_the_history_of_a_dead_letter_has_each_receiver_that_crashed_in_it(node: LiveNode) -> None:
    node.api.spawn("faller", behaviour="raises_shared")
    told = node.api.send("faller", "raise", wait_s=WAIT_S)
    assert told["status"] == "dead"
    steps = node.api.history(told["message"])
    events = [step["event"] for step in steps]
    crashes = events.count("receiver exited")
    assert crashes == events.count("delivered") == 5
    assert (events[0], events[-1]) == ("accepted", "dead")
    assert all(step["detail"].startswith("crash: ") for step in steps if step["event"] == "receiver exited")
    node.api.drop(told["message"], "seen")
    status, out, err = node.command("deadletters", "show", told["message"], "--json")
    assert status == 0, err
    assert [step["event"] for step in json.loads(out)["history"]] == [*events, "dropped"]
