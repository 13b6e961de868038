"""Cancelling wherever a message can stand, from the command line, through the API and by a process above: real nodes.

docs/cancel.md is the table of it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster_nodes import real_nodes
from tests.integration.cluster_nodes import until as until_there
from tests.integration.effects import Effects
from tests.integration.live_node import WAIT_S, LiveNode, alive, until
from tests.own_code import own_code
from tests.servers.processes import ModelServer

PLUGINS = own_code(Path(__file__).with_name("plugins"))
HELD = ["count", "breeds", "ask", "cancel_turn", "calculator"]
Cancel = Callable[[str, str], str]
"""Ends the message of that id at the child of that name; empty: what it handles. Who did so, as the record says."""


class Family:
    """A process and its child, on which a test works."""

    def __init__(self, node: LiveNode, surface: str, number: int) -> None:
        self.node, self.surface = node, surface
        self.above, self.child = f"above{number}", f"child{number}"
        node.api.spawn(self.above, behaviour="planner", tools=HELD)

    def bear(self, behaviour: str, name: str = "", under: str = "", **fields: Any) -> str:
        """Spawn the child, or another one below; its address."""
        fields.setdefault("tools", HELD)
        under = under or f"/user/{self.above}"
        made = self.node.api.spawn(name or self.child, behaviour=behaviour, under=under, **fields)
        return str(made["address"])

    def send(self, text: str = "work") -> str:
        return str(self.node.api.send(self.child, text)["message"])

    def cancel(self, message: str = "") -> str:
        """End it, from this surface."""
        return CANCELS[self.surface](self, message)

    def end(self, message: str) -> tuple[str, str]:
        """How the message has ended: status and words."""

        def ends() -> list[tuple[str, str]]:
            taken_back = [
                ("taken back", each["why"])
                for each in self.node.entries("message.cancelled")
                if each["id"] == message
            ]
            return [*taken_back, *((each["status"], each["reply"]) for each in self.node.ended(message))]

        found = until(ends, f"{message} ends")
        assert len(found) == 1, found
        return found[0]

    def begun(self, message: str, of: str = "") -> None:
        started = f"t{message[1:]}"
        until(
            lambda: [each for each in self.node.entries("turn.started") if each["turn"] == started],
            f"{message} is handled",
        )

    def answers(self) -> None:
        """The process that was interrupted takes up the next message and ends it."""
        sent = self.node.api.send(self.child, "[]", wait_s=WAIT_S)
        assert sent["status"] == "ok", sent


def by_cli(family: Family, message: str) -> str:
    status, _, err = family.node.command(
        "cancel", family.child, *(["--message", message] if message else []), "--why", "by the table"
    )
    assert status == 0, err
    return f"operator:{os.getuid()}"


def by_api(family: Family, message: str) -> str:
    family.node.api.cancel(family.child, message=message, why="by the table")
    return f"operator:{os.getuid()}"


def by_parent(family: Family, message: str) -> str:
    arguments = {"process": family.child, "why": "by the table", **({"message": message} if message else {})}
    [done] = family.node.plan(family.above, ("cancel_turn", arguments))
    assert done["status"] == "ok", done
    return f"/user/{family.above}"


CANCELS = {"cli": by_cli, "api": by_api, "parent": by_parent}
_numbers = iter(range(1, 1000))


@pytest.fixture(params=CANCELS)
def family(node: LiveNode, request: pytest.FixtureRequest) -> Iterator[Family]:
    made = Family(node, request.param, next(_numbers))
    yield made
    node.api.stop(made.above)


def words(who: str) -> str:
    return f"cancelled by {who}: by the table"


def test_queued(family: Family) -> None:
    family.bear("holds")
    first, queued = family.send(), family.send()
    family.begun(first)
    who = family.cancel(queued)
    assert family.end(queued) == ("taken back", words(who))
    assert not family.node.ended(first)


def test_before_start(family: Family, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    address = family.bear("gated", system_prompt=str(gate))
    gate.touch()
    family.node.api.kill(family.child, signal="kill")
    until(lambda: family.node.row(family.child)["state"] == "starting", "it starts and does not get on")
    message = family.send()
    who = family.cancel()
    gate.unlink()
    assert family.end(message) == ("taken back", words(who))
    until(lambda: family.node.row(family.child)["state"] == "running", "it has started")
    family.answers()
    assert message not in [each["message"] for each in family.node.entries("turn.started")]
    assert family.node.api.inspect(address)["turn"] is None


def test_model_streaming(family: Family, models: ModelServer) -> None:
    family.bear("agent", provider="scripted", model="endless")
    mark = f"go on, {family.child}"
    events = family.node.api.watch(family.child, mark)
    message = str(next(events)["message"])
    next(event for event in events if event["event"] == "delta")
    who = family.cancel()
    assert [*events][-1]["status"] == "cancelled"
    assert family.end(message) == ("cancelled", words(who))

    def left() -> list[bool]:
        return [asked["left"] for asked in models.requests() if mark in json.dumps(asked["body"])]

    until(lambda: left() == [True], "the stream is closed")


def test_tool_running(family: Family, tmp_path: Path) -> None:
    family.bear("planner")
    note = tmp_path / "pid"
    message = family.send(json.dumps([["breeds", {"note": str(note)}]]))
    child = int(until(lambda: note.exists() and note.read_text().strip(), "the tool works"))
    who = family.cancel()
    assert family.end(message) == ("cancelled", words(who))
    until(lambda: not alive(child), "what it has started is gone")
    until(
        lambda: [each for each in family.node.api.doubts.list() if each["tool"] == "breeds"], "it is in doubt"
    )
    for doubt in family.node.api.doubts.list():
        family.node.api.doubts.resolve(doubt["id"], "lost")
    family.answers()


def test_waiting_for_a_person(family: Family, effects: Effects) -> None:
    family.bear("planner")
    effect = f"cancel-{family.child}"
    effects.hold(effect)
    message = family.send(json.dumps([["count", {"port": effects.port, "effect": effect}]]))
    effects.await_count(effect)
    worker = next(row for row in family.node.api.ps(all=True) if "probe_tools" in row["name"])
    os.kill(worker["os_pid"], signal.SIGKILL)
    doubt = until(family.node.api.doubts.list, "a person is asked")[0]
    effects.release(effect)
    who = family.cancel()
    assert family.end(message) == ("cancelled", words(who))
    assert [each["id"] for each in family.node.api.doubts.list()] == [doubt["id"]]  # still to be told
    family.node.api.doubts.resolve(doubt["id"], "done")
    family.answers()
    assert effects.count(effect) == 1


def test_backing_off(family: Family) -> None:
    family.bear("holds", restart="permanent")
    message = family.send()
    family.begun(message)

    def over(pid: int) -> bool:
        row = family.node.row(family.child)
        return row["state"] != "running" or row["pid"] != pid

    for _ in range(5):
        until(lambda: family.node.row(family.child)["state"] == "running", "it runs")
        pid = family.node.row(family.child)["pid"]
        family.node.api.kill(family.child, signal="kill")
        until(partial(over, pid), "it ends")
    who = family.cancel()
    assert family.end(message) == ("cancelled", words(who))
    until(lambda: family.node.row(family.child)["state"] == "running", "it comes back")
    assert family.node.api.inspect(family.child)["turn"] is None


def test_child_running(family: Family) -> None:
    address = family.bear("planner")
    family.bear("holds", name="deep", under=address)
    message = family.send(json.dumps([["ask", {"to": f"{address}/deep", "text": "?"}]]))
    asked = until(
        lambda: [each for each in family.node.entries("message.accepted") if each["to"] == f"{address}/deep"],
        "the child is asked",
    )[0]["id"]
    family.begun(asked)
    who = family.cancel()
    assert family.end(message) == ("cancelled", words(who))
    assert family.end(asked) == ("cancelled", words(who))
    family.answers()


CONFIGURATION = f"""
[behaviours.planner]
import = "probe_behaviours:Planner"
python_path = ["{PLUGINS}"]

[behaviours.holds]
import = "probe_behaviours:Holds"
python_path = ["{PLUGINS}"]
"""


def test_on_another_node() -> None:
    """What a process here has asked a process there; that one itself only with the right to end it."""
    with (
        real_nodes("n1", "n2", configuration=CONFIGURATION) as (one, two),
        one.client() as here,
        two.client() as there,
    ):
        there.spawn("worker", behaviour="holds")
        here.spawn("above", behaviour="planner", tools=["ask", "cancel_turn"])
        here.spawn("child", behaviour="planner", tools=["ask"], under="/user/above")

        def ended(count: int) -> list[dict[str, Any]]:
            until_there(f"{count} turns have ended", lambda: len(two.entries("turn.ended")) >= count)
            return two.entries("turn.ended")

        def busy() -> None:
            until_there("it is asked", lambda: there.inspect("worker")["turn"] is not None)

        asks = json.dumps([["ask", {"to": "worker@n2", "text": "?"}]])
        here.send("child", asks)
        busy()
        status, _, err = one.run("cancel", "child", "--why", "by the table")
        assert status == 0, err
        assert ended(1)[0]["status"] == "cancelled"

        here.send("child", asks)
        busy()
        here.cancel("child")
        assert len(ended(2)) == 2

        here.send("child", asks)
        busy()
        done = here.send("above", json.dumps([["cancel_turn", {"process": "child"}]]), wait_s=WAIT_S)
        assert json.loads(done["reply"])[0]["status"] == "ok", done
        assert len(ended(3)) == 3

        here.send("worker@n2", "from afar")
        busy()
        refused = one.run("cancel", "worker@n2")
        assert refused[0] != 0 and "may not kill" in refused[2], refused
        origin, address = one.json("node", "id")["origin"], one.address.removeprefix("tcp://")
        two.json("peer", "remove", "n1")
        two.json("peer", "add", "n1", origin, "--address", address, "--may", "send,ps,kill")
        until_there("the link is back", lambda: two.peer("n1")["state"] == one.peer("n2")["state"] == "up")
        answer = one.json("cancel", "worker@n2", "--why", "enough")
        assert (answer["node"], answer["address"]) == ("n2", "/user/worker@n2")
        assert f"cancelled by peer:{origin}: enough" in [each["reply"] for each in ended(4)]

        assert there.status()["messages"]["in_flight"] == 0
