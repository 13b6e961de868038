"""Other nodes through the doors: the control API, the client and the commands, against a twin of the kernel."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weftos.cli.test_cli import HOSTILE, SHOWN, Shell
from tests.weftos.twins.cluster_twin import ORIGIN, OTHER, SECRET
from tests.weftos.twins.control_twin import Twin, served
from weftos import Client, WeftosError
from weftos.lifecycle.initialise import initialise


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[Twin, Path]]:
    twin = Twin()
    with served(twin) as data:
        yield twin, data


@pytest.fixture
def twin(service: tuple[Twin, Path]) -> Twin:
    service[0].__init__()  # type: ignore[misc]  # as good as new, for each test
    return service[0]


@pytest.fixture
def node(twin: Twin, service: tuple[Twin, Path]) -> Iterator[Client]:
    with Client(service[1]) as client:
        yield client


@pytest.fixture
def shell(
    twin: Twin,
    service: tuple[Twin, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(service[1], monkeypatch, capsys)


def test_every_operation_arrives_as_it_was_asked(node: Client, twin: Twin) -> None:
    op = {"uid": os.getuid(), "os_pid": os.getpid()}
    assert node.cluster.identity()["origin"] == ORIGIN
    assert [row["state"] for row in node.cluster.nodes()] == ["up", "lost"]
    assert [row["stale"] for row in node.cluster.ps()] == [False, True]
    assert node.cluster.monitor("bob@n2", wait_s=5.0)["reason"] == "noconnection"
    assert node.peers.add("n2", OTHER, address="tcp://h:1", may=["send"])["may"] == ["send"]
    assert node.peers.remove("n2")["origin"] == OTHER
    assert node.peers.list()[0]["name"] == "n2"
    assert node.tokens.create(lifetime_s=60)["token"] == SECRET
    assert node.tokens.list()[0]["status"] == "used"
    assert node.tokens.revoke("0123456789abcdef")["status"] == "revoked"
    assert twin.calls == [
        ("monitor", "bob@n2", 5.0),
        ("peer_add", op, "n2", OTHER, "tcp://h:1", ["send"], None),
        ("peer_remove", op, "n2"),
        ("token_create", op, 60),
        ("token_revoke", op, "0123456789abcdef"),
    ]


def test_a_spawn_says_on_which_node(node: Client, twin: Twin) -> None:
    node.spawn("minion", on="n2")
    node.spawn("team", supervisor=True, on="n2")
    assert [call[2].on for call in twin.calls if call[0] == "spawn"] == ["n2", "n2"]


def test_refusals_keep_their_words(node: Client) -> None:
    with pytest.raises(WeftosError, match="no peer 'n9'") as error:
        node.peers.remove("n9")
    assert error.value.code == "not_found"
    with pytest.raises(WeftosError, match="lifetime_s"):
        node.tokens.create(lifetime_s=0)


def test_nodes_and_processes_are_shown_with_what_is_lost(shell: Shell) -> None:
    status, out, _ = shell.run("nodes")
    assert status == 0
    lines = out.splitlines()
    assert "n1 *" in lines[1]
    assert all(part in lines[2] for part in ("n2", OTHER, "lost", "1m01s", "17", "send", "the wire was cut"))
    status, out, _ = shell.run("ps", "--cluster")
    assert [("for 1m01s" in line) for line in out.splitlines()[1:]] == [False, True]
    assert shell.json("ps", "--cluster")[1]["stale"] is True
    assert shell.run("ps", "--cluster", "--all")[0] == 2


def test_what_a_peer_said_is_shown_and_not_obeyed(shell: Shell, twin: Twin) -> None:
    twin.cluster.why = HOSTILE
    _, out, _ = shell.run("nodes")
    assert SHOWN in out
    assert "\x1b" not in out


def test_peers_are_managed_by_name(shell: Shell, twin: Twin) -> None:
    status, out, _ = shell.run("peer", "add", "n2", OTHER, "--address", "h:1", "--may", "send,spawn")
    assert (status, "may: send, spawn" in out) == (0, True)
    assert twin.calls[0][4:] == ("tcp://h:1", ["send", "spawn"], None)
    assert shell.run("peer", "add", "n2", OTHER, "--may", "everything")[0] == 2
    assert shell.json("peer", "add", "n2", OTHER, "--may", "")["name"] == "n2"
    for words, tools in (("*", ["*"]), ("calculator, ask", ["calculator", "ask"]), ("", [])):
        assert shell.json("peer", "add", "n2", OTHER, "--tools", words)["tools"] == tools
    assert twin.calls[1][5] == []
    assert OTHER in shell.run("peer", "list")[1]
    assert "no longer a peer" in shell.run("peer", "remove", "n2")[1]
    assert shell.run("monitor", "bob@n2")[1].strip() == "bob@n2 ended: noconnection"


def test_a_token_goes_to_a_new_private_file_or_to_the_screen_once(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "token"
    status, out, _ = shell.run("token", "create", "--out", str(target), "--hours", "1")
    assert (status, SECRET in out) == (0, False)
    assert target.read_text() == SECRET + "\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    status, _, err = shell.run("token", "create", "--out", str(target))
    assert (status, "cannot be written" in err) == (1, True)
    assert shell.run("token", "create")[1].strip() == SECRET
    assert SECRET not in shell.run("token", "list")[1]
    assert "revoked" in shell.run("token", "revoke", "0123456789abcdef")[1]


def test_the_true_name_is_printed_without_a_running_node(shell: Shell, tmp_path: Path) -> None:
    keys = initialise(tmp_path / "data")
    assert shell.run("node", "id", "--data", str(tmp_path / "data"))[1].strip() == keys.origin
    status, _, err = shell.run("node", "id", "--data", str(tmp_path / "nowhere"))
    assert (status, "has no identity" in err) == (1, True)
    assert "tcp://127.0.0.1:4300" in shell.run("node", "where")[1]


def test_two_heads_that_contradict_each_other_are_shown_and_decided_about(shell: Shell, twin: Twin) -> None:
    status, out, _ = shell.run("peer", "heads")
    assert status == 0
    assert "n2 has shown a head that contradicts this one: two histories" in out
    assert "weftos peer decide n2 kept|shown" in out
    assert "n3 has shown" not in out
    assert shell.json("peer", "heads")[0]["conflict"]["kept"] == "KEPT"
    assert shell.run("peer", "decide", "n2", "newer", "--reason", "r")[0] == 2
    assert shell.run("peer", "decide", "n2", "kept")[0] == 2
    assert shell.json("peer", "decide", "n2", "shown", "--reason", "restored")["size"] == 9
    assert twin.calls[-1][0] == "head_decide"
    assert twin.calls[-1][2:] == ("n2", "shown", "restored")
