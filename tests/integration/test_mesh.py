"""Two and three real nodes (engine local) over real ZeroMQ: what crosses, what is refused, what a kill -9 leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cluster_nodes import RealNode, real_nodes, until
from tests.own_code import own_code

HERE = own_code(Path(__file__).resolve().parents[1] / "behaviours")
SOON = "\n[mesh]\ndeadline_s = 10.0\n"  # for one message to pass it, and for the others to keep it on a slow disk too
ECHO = f"""
[behaviours.echo]
import = "cell_behaviours:Echo"
python_path = ["{HERE}"]
"""


def test_two_nodes_work_together(tmp_path: Path) -> None:
    with real_nodes("one", "two") as (one, two):
        two.json("spawn", "bob")
        status, out, err = one.run("send", "bob@two", "what is 17*23", "--wait")
        assert (status, "391" in out) == (0, True), err
        _an_agent_asks_over_the_mesh(one)
        _spawn_is_refused_until_it_is_granted(one, two)
        listed = {(row["node"], row["address"]) for row in one.json("ps", "--cluster")}
        assert {("one", "/user/ada"), ("two", "/user/bob"), ("two", "/user/minion")} <= listed
        assert one.json("monitor", "nobody@two")["reason"] == "noproc"
        for node in (one, two):
            assert node.json("chain", "verify")["ok"] is True
        origin = two.json("node", "id")["origin"]
        heads = until("a head of two", lambda: one.peer("two")["head"])
        note = (one.data / "mesh" / "heads" / f"{origin}.note").read_text()
        assert (note.splitlines()[0], heads > 0) == (origin, True)


def _an_agent_asks_over_the_mesh(one: RealNode) -> None:
    """The offline planner uses the tool it is told to; bob's answer comes back into ada's."""
    one.json("spawn", "ada", "--tools", "ask,calculator")
    arguments = json.dumps({"to": "bob@two", "text": "what is 6*7"})
    status, out, err = one.run("send", "ada", f"use ask with {arguments}", "--wait")
    assert (status, "42" in out) == (0, True), out + err


def _spawn_is_refused_until_it_is_granted(one: RealNode, two: RealNode) -> None:
    status, _, err = one.run("spawn", "minion", "--on", "two")
    assert (status, "two says: your node may not spawn here" in err) == (1, True)
    origin = one.json("node", "id")["origin"]
    two.json("peer", "remove", "one")
    address = one.address.removeprefix("tcp://")
    two.json("peer", "add", "one", origin, "--address", address, "--may", "send,ps,spawn,kill")
    # two has forgotten one, and so is not deceived by the old link, whose end one may not have heard of
    until("the link is back", lambda: two.peer("one")["state"] == one.peer("two")["state"] == "up")
    made = one.json("spawn", "minion", "--on", "two")
    assert made["address"] == "/user/minion@two"
    commands = until("the command is in the archive", lambda: two.entries("peer.command"))
    assert commands[0]["principal"] == f"peer:{origin}"
    until("the advert", lambda: any(row["address"] == "/user/minion" for row in one.json("ps", "--cluster")))


def test_a_node_killed_becomes_dead_letters_that_are_replayed_when_it_is_back() -> None:
    with real_nodes("one", "two", "three", configuration=SOON) as (one, two, three):
        two.json("spawn", "bob")
        one.json("send", "bob@two", "what is 1+1", "--wait")
        until(
            "two knows that its reply has come", lambda: two.json("status")["messages"]["acknowledged"] == 2
        )
        two.json("spawn", "carol")  # is on the disk when it is answered, and so is all before it
        until("one keeps a head of two", lambda: one.peer("two")["head"])
        two.kill()
        until("one says that two is lost", lambda: one.peer("two")["state"] == "lost")
        rows = [row for row in one.json("ps", "--cluster") if row["node"] == "two"]
        assert rows
        assert all(row["stale"] for row in rows)
        assert one.json("monitor", "bob@two")["reason"] == "noconnection"
        sent = one.json("send", "bob@two", "what is 2+2")
        letter = until("a dead letter", lambda: one.json("deadletters", "list"))[0]
        assert (letter["id"], letter["why"]) == (sent["message"], "deadline passed")
        kept = one.peer("two")["head"]
        two.up()
        until("one has two again", lambda: one.peer("two")["state"] == "up")
        one.json("deadletters", "replay", letter["id"])
        until(
            "both messages and the first reply are acknowledged",
            lambda: two.json("status")["messages"]["acknowledged"] == 3,
        )
        assert one.json("deadletters", "list") == []
        until("a newer head", lambda: one.peer("two")["head"] > kept)
        until(
            "the loss is in the archive",
            lambda: any(body["name"] == "two" for body in one.entries("peer.down")),
        )
        for node in (one, two, three):
            assert node.json("chain", "verify")["ok"] is True


def test_a_node_in_nobodys_list_is_refused_and_says_so(tmp_path: Path) -> None:
    with real_nodes("one") as (one,):
        stranger = RealNode(one.data.parent, "eve")
        try:
            stranger.up()
            origin = one.json("node", "id")["origin"]
            stranger.json("peer", "add", "one", origin, "--address", one.address.removeprefix("tcp://"))
            until("a refusal", lambda: stranger.entries("peer.refused"))
            assert stranger.peer("one")["state"] != "up"
            assert [row["name"] for row in one.json("nodes")] == ["one"]
        finally:
            stranger.end()


@pytest.mark.slow
def test_a_join_token_lets_one_node_in_once_and_a_wrong_start_says_what_is_wrong() -> None:
    with real_nodes("one") as (one,):
        place = one.data.parent
        token = place / "token"
        made = one.json("token", "create", "--out", str(token))
        assert "token" not in made
        one.json("token", "revoke", made["id"])
        assert one.json("token", "list")[0]["status"] == "revoked"
        late = RealNode(place, "late")
        address = one.address.removeprefix("tcp://")
        status, _, err = late.run("up", "--engine", "local", "--detach", "--join", address)
        assert (status, "give the join token" in err) == (1, True)
        status, _, err = late.run(
            "up", "--engine", "local", "--detach", "--join", address, "--token", "/nowhere"
        )
        assert (status, "the join token cannot be read" in err) == (1, True)
        try:
            late.up("--join", address, "--token", str(token))
            until("a refusal", lambda: any("revoked" in row["why"] for row in late.entries("peer.refused")))
            assert [row["name"] for row in one.json("nodes")] == ["one"]
        finally:
            late.end()
