"""The plan of a cluster and the introductions: files in a directory, no process."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.helper.os_session import lock
from mesh.files import write_private
from mesh.identity.peers import ALL_TOOLS, RIGHTS, Peer, PeerStore
from tests.endless import ENDLESS, put_endless
from tests.weftos.cli.test_cli import Shell
from weftos import WeftosError
from weftos.cluster.cluster import PLAN_FILE, introduce, load_plan, make_plan, node_places, save_plan


def test_a_plan_gives_each_node_a_port_of_its_own_and_comes_back_from_its_file(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 3, "ray", None)
    assert [node.name for node in plan.nodes] == ["n1", "n2", "n3"]
    assert len({plan.ray_port, *(node.port for node in plan.nodes)}) == 4
    save_plan(plan)
    assert load_plan(tmp_path) == plan
    assert (tmp_path / PLAN_FILE).stat().st_mode & 0o777 == 0o600


def test_ports_are_kept_where_they_are_free(tmp_path: Path) -> None:
    before = make_plan(tmp_path, 3, "ray", None)
    with socket.create_server(("127.0.0.1", before.nodes[1].port)):
        after = make_plan(tmp_path, 4, "ray", before)
    assert after.ray_port == before.ray_port
    assert [after.nodes[0], after.nodes[2]] == [before.nodes[0], before.nodes[2]]
    assert after.nodes[1].port != before.nodes[1].port


def test_only_nodes_of_the_shared_ray_are_told_of_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1, "ray", None)
    assert plan.flags(plan.nodes[0])["--ray-address"] == f"127.0.0.1:{plan.ray_port}"
    local = make_plan(tmp_path, 1, "local", None)
    assert local.flags(local.nodes[0])["--ray-address"] is None


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"version": 2}', '{"version": 1, "engine": "slurm", "ray_port": 1, "nodes": []}'],
)
def test_a_damaged_plan_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / PLAN_FILE).write_text(text)
    with pytest.raises(WeftosError, match=r"cluster\.json cannot be used"):
        load_plan(tmp_path)


@ENDLESS
def test_a_plan_that_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    put_endless(tmp_path / PLAN_FILE, kind)
    with pytest.raises(WeftosError, match=r"cluster\.json cannot be read \(not a regular file\)"):
        load_plan(tmp_path)


def test_a_plan_cannot_name_a_directory_elsewhere(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1, "local", None)
    save_plan(plan)
    path = tmp_path / PLAN_FILE
    path.write_text(path.read_text().replace('"n1"', '"../n1"'))
    with pytest.raises(WeftosError, match="its nodes are not n1, n2"):
        load_plan(tmp_path)


def test_each_node_lists_every_other_with_all_rights_and_not_itself(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 3, "local", None)
    origins = introduce(plan)
    assert [place.name for place in node_places(tmp_path)] == ["n1", "n2", "n3"]
    for node in plan.nodes:
        listed = {peer.name: peer for peer in PeerStore(plan.place(node) / "mesh").load()}
        assert listed == {
            other.name: Peer(other.name, origins[other.name], other.address, RIGHTS, frozenset((ALL_TOOLS,)))
            for other in plan.nodes
            if other is not node
        }


def test_a_new_port_is_told_and_what_a_person_has_changed_stays(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 2, "local", None)
    origins = introduce(plan)
    store = PeerStore(plan.place(plan.nodes[0]) / "mesh")
    store.remove("n2")
    store.add(Peer("bob", origins["n2"], plan.nodes[1].address, frozenset(("send",))))
    with socket.create_server(("127.0.0.1", plan.nodes[1].port)):
        moved = make_plan(tmp_path, 2, "local", plan)
    assert introduce(moved) == origins
    assert list(store.load()) == [Peer("bob", origins["n2"], moved.nodes[1].address, frozenset(("send",)))]


def test_a_kill_at_any_write_of_a_new_port_leaves_the_rights_that_a_person_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(tmp_path, 2, "local", None)
    origins = introduce(plan)
    store = PeerStore(plan.place(plan.nodes[0]) / "mesh")
    store.remove("n2")
    store.add(Peer("n2", origins["n2"], plan.nodes[1].address, frozenset()))
    with socket.create_server(("127.0.0.1", plan.nodes[1].port)):
        moved = make_plan(tmp_path, 2, "local", plan)
    on_disk: list[list[Peer]] = []

    def write(path: Path, content: bytes) -> None:
        write_private(path, content)
        on_disk.append(list(PeerStore(path.parent).load()))

    monkeypatch.setattr("mesh.identity.peers.write_private", write)
    introduce(moved)
    assert on_disk == [[Peer("n2", origins["n2"], moved.nodes[1].address, frozenset())]]


def test_a_second_up_waits_for_the_one_that_starts_and_does_not_believe_the_plan_of_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(tmp_path, 2, "local", None)
    introduce(plan)
    ours = lock(tmp_path, runs=True)
    shell = Shell(tmp_path, monkeypatch, capsys)
    words = ("cluster", "up", "--data", str(tmp_path), "-n", "3")
    try:
        for launcher in (0, os.getpid() + 1):
            save_plan(replace(plan, launcher=launcher))
            status, _, err = shell.run(*words)
            assert (status, "a cluster is just starting" in err) == (1, True)
        save_plan(replace(plan, launcher=os.getpid()))
        status, _, err = shell.run(*words)
        assert (status, "a cluster of 2 nodes with engine local runs" in err) == (1, True)
    finally:
        ours.close()


def test_who_names_a_node_of_a_cluster_means_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    around = tmp_path / "both-cluster"
    around.mkdir()
    plan = make_plan(around, 2, "local", None)
    introduce(plan)
    save_plan(plan)
    shell = Shell(around / "n2", monkeypatch, capsys)
    for words in ((), ("--data", str(around)), ("--data", str(around / "n1"))):
        status, out, _ = shell.run("cluster", "status", *words)
        assert (status, str(around / "n1") in out) == (1, True), words
        status, out, _ = shell.run("cluster", "down", *words)
        assert (status, f"no cluster was running on {around}\n" in out) == (0, True), words
    monkeypatch.setenv("WEFTOS_DATA", str(tmp_path / "both"))
    assert shell.run("cluster", "down")[0] == 0


def test_where_no_cluster_is_none_is_stopped_and_that_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path / "n1", monkeypatch, capsys)
    for words, place in (((), tmp_path / "n1-cluster"), (("--data", str(tmp_path)), tmp_path)):
        status, out, err = shell.run("cluster", "down", *words)
        assert (status, out, f"no cluster is on {place}: give its directory" in err) == (1, "", True)
