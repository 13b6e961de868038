"""Spawn and kill on another node, monitors, and what ps and nodes show of the cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from chain.merkle.head import parse_head
from chain.merkle.proof import verify_consistency
from chain.notes.note import parse
from kernel.errors import Conflict, Invalid, Refused, TimedOut, Unavailable
from kernel.operations.nodes.cluster import Cluster
from kernel.operations.nodes.peers import Peers
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning
from mesh.gossip.heads import HeadConflict
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import LIMIT_S
from tests.kernel.twins.mesh_twin import NodeTwin, befriend, link, node_twin, on_pair, unlink, until
from tests.mesh.gossip.test_heads import of_tree

ALL = frozenset({"send", "ps", "spawn", "kill"})


def test_a_granted_spawn_makes_a_slot_there_with_the_peer_as_its_principal(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        made = await a.control(Spawning.spawn, "minion", on="b", tools=("calculator",))
        assert made["address"] == "/user/minion@b"
        assert made["node"] == "b"
        assert "/user/minion" not in a.twin.kernel.state.slots
        process = b.twin.kernel.live.get(made["pid"])
        assert process is not None
        assert process.address == "/user/minion"
        command = (await b.twin.entries("peer.command"))[0]
        assert command.body["principal"] == f"peer:{a.origin}"
        spawned = next(r for r in await b.twin.entries("process.spawned") if "minion" in r.body["address"])
        assert spawned.entry.cause == command.entry.seq
        asked = (await a.twin.entries("operator.command"))[0]
        assert json.loads(asked.body["arguments"])["on"] == b.origin

    on_pair(tmp_path, body, may=ALL)


def test_a_spawn_that_is_not_granted_says_so(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        with pytest.raises(Refused, match="b says: your node may not spawn here"):
            await a.control(Spawning.spawn, "minion", on="b")
        with pytest.raises(Refused, match="workspace"):
            await a.control(Spawning.spawn, "minion", on="b", workspace="/tmp")

    on_pair(tmp_path, body)


def test_a_kill_there_is_answered_and_its_supervisor_decides(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        pid = await b.twin.spawn("bob")
        answer = await a.control(Processes.kill, "bob@b", signal="kill", why="it is lost")
        assert (answer["pid"], answer["node"]) == (pid, "b")
        [command] = await b.twin.entries("peer.command")
        [exited] = await b.twin.entries("process.exited")
        assert exited.entry.cause == command.entry.seq
        assert exited.body["detail"] == f"killed by {command.body['principal']}: it is lost"
        assert b.twin.kernel.live.get(pid) is None
        successor = (await b.twin.cells.placements.get(), await b.twin.cells.placements.get())[1]
        assert (successor.address, successor.pid > pid) == ("/user/bob", True)

    on_pair(tmp_path, body, may=ALL)


def test_a_node_lost_during_a_call_is_said_so(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        a.mesh.lose = lambda op: op["op"] == "spawn"
        call = asyncio.ensure_future(a.control(Spawning.spawn, "minion", on="b"))
        await until(lambda: any(op["op"] == "spawn" for op in a.mesh.said))
        unlink(a.mesh, b.mesh)
        with pytest.raises(Unavailable, match="noconnection: b was lost"):
            await call
        with pytest.raises(Unavailable, match="noconnection: b: there is no link"):
            await a.control(Spawning.spawn, "minion", on="b")

    on_pair(tmp_path, body, may=ALL)


def test_a_monitor_tells_the_end_once_and_why(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        watching = asyncio.ensure_future(a.control(Cluster.monitor, "bob@b", wait_s=LIMIT_S))
        local = asyncio.ensure_future(b.control(Cluster.monitor, "bob", wait_s=LIMIT_S))
        await until(lambda: any(op["op"] == "monitor" for op in a.mesh.said))
        await until(lambda: b.twin.kernel.remote.monitors.watched == 2)
        await b.control(Processes.kill, "bob", signal="kill")
        assert (await watching)["reason"] == "killed"
        assert (await local)["reason"] == "killed"

    on_pair(tmp_path, body)


def test_who_waits_no_longer_for_an_end_leaves_nothing_behind(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.twin.spawn("bob")
        with pytest.raises(TimedOut):
            await a.control(Cluster.monitor, "bob", wait_s=0.01)
        assert a.twin.kernel.remote.monitors.watched == 0

    on_pair(tmp_path, body)


def test_a_monitor_of_nothing_is_noproc_and_of_a_lost_node_noconnection(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        assert (await a.control(Cluster.monitor, "nobody@b", wait_s=LIMIT_S))["reason"] == "noproc"
        assert (await a.control(Cluster.monitor, "nobody", wait_s=LIMIT_S))["reason"] == "noproc"
        await b.twin.spawn("bob")
        watching = asyncio.ensure_future(a.control(Cluster.monitor, "bob@b", wait_s=LIMIT_S))
        await until(lambda: any(op.get("target") == "bob" for op in a.mesh.said))
        unlink(a.mesh, b.mesh)
        assert (await watching)["reason"] == "noconnection"
        assert (await a.control(Cluster.monitor, "bob@b", wait_s=LIMIT_S))["reason"] == "noconnection"
        link(a.mesh, b.mesh)
        with pytest.raises(TimedOut):
            await a.control(Cluster.monitor, "bob@b", wait_s=0.01)
        assert a.mesh.said[-1]["op"] == "demonitor"

    on_pair(tmp_path, body)


def test_what_was_asked_over_a_link_that_another_replaced_is_told_so(tmp_path: Path) -> None:
    """There is no other end of it: the link comes up again without having gone down."""

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        a.mesh.lose = lambda op: op["op"] == "spawn"
        call = asyncio.ensure_future(a.control(Spawning.spawn, "minion", on="b"))
        watching = asyncio.ensure_future(a.control(Cluster.monitor, "bob@b", wait_s=LIMIT_S))
        await until(lambda: b.twin.kernel.remote.monitors.watched == 1)
        await until(lambda: any(op["op"] == "spawn" for op in a.mesh.said))
        link(a.mesh, b.mesh)
        with pytest.raises(Unavailable, match="noconnection"):
            await call
        assert (await watching)["reason"] == "noconnection"
        assert b.twin.kernel.remote.monitors.watched == 0

    on_pair(tmp_path, body, may=ALL)


def test_a_peer_that_may_not_see_processes_monitors_none(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        assert (await a.control(Cluster.monitor, "bob@b", wait_s=LIMIT_S))["reason"] == "refused"
        assert {row["node"] for row in await a.control(Cluster.ps)} == {"a"}

    on_pair(tmp_path, body, may=frozenset({"send"}))


def test_a_listing_of_all_nodes_goes_on_behind_any_of_its_rows(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            node_twin(tmp_path / "a", "a", 1) as a,
            node_twin(tmp_path / "b", "b", 2) as b,
            node_twin(tmp_path / "c", "c", 3) as c,
        ):
            for other in (b, c):
                befriend(a, other)
                for name in ("zoe", "bob"):
                    await other.twin.spawn(name)
                await until(lambda: {"zoe", "bob"} <= running_of(a, other.origin))  # noqa: B023
            rows = await a.control(Cluster.ps)
            assert len(rows) > 6 and rows[0]["origin"] == a.origin
            others = [(row["origin"], row["address"]) for row in rows if row["origin"] != a.origin]
            assert others == sorted(others)
            after = ""
            for each in rows:
                assert await a.control(Cluster.ps, limit=1, after=after) == [each]
                after = f"{each['address']}@{each['origin']}"
            assert await a.control(Cluster.ps, limit=1, after=after) == []
            assert await a.control(Cluster.ps, limit=4) == rows[:4]

    asyncio.run(run())


def running_of(node: NodeTwin, origin: str) -> set[str]:
    """The names of the processes that run on another one, as far as ``node`` knows."""
    advert = node.mesh.adverts.of(origin)
    return (
        set()
        if advert is None
        else {process.name for process in advert.processes if process.state == "running"}
    )


def test_ps_shows_the_processes_of_all_nodes_and_marks_those_of_a_lost_one(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await b.twin.ledger.barrier()

        def rows_of_b() -> list[dict[str, object]]:
            advert = a.mesh.adverts.of(b.origin)
            return [] if advert is None else [{"state": p.state} for p in advert.processes if p.name == "bob"]

        await until(lambda: rows_of_b() == [{"state": "running"}])
        row = next(row for row in await a.control(Cluster.ps) if row["address"] == "/user/bob")
        assert (row["node"], row["origin"], row["stale"]) == ("b", b.origin, False)
        unlink(a.mesh, b.mesh, "it died")
        row = next(row for row in await a.control(Cluster.ps) if row["address"] == "/user/bob")
        assert row["stale"]
        own, other = await a.control(Cluster.nodes)
        assert (own["name"], own["self"], own["state"]) == ("a", True, "up")
        assert (other["name"], other["state"], other["why"]) == ("b", "lost", "it died")

    on_pair(tmp_path, body)


def test_the_newest_full_head_is_published(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.twin.spawn("ada")
        await until(lambda: bool(a.mesh.heads))
        assert a.mesh.heads[-1].startswith(b"weftos-")

    on_pair(tmp_path, body)


def test_peers_come_and_go_in_the_ledger(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        unlink(a.mesh, b.mesh, "gone")
        await a.control(Peers.remove, "b")
        await a.control(Peers.add, "bee", b.origin, may=["send"], tools=["calculator"])
        rows = await a.control(Peers.list)
        assert rows == [
            {"name": "bee", "origin": b.origin, "address": "", "may": ["send"], "tools": ["calculator"]}
        ]
        kinds = [
            record.entry.kind for record in await a.twin.entries() if record.entry.kind.startswith("peer.")
        ]
        assert kinds == ["peer.up", "peer.down", "peer.removed", "peer.added"]
        added = (await a.twin.entries("peer.added"))[0].body
        assert (added["how"], added["may"], added["tools"]) == ("operator:1000", ["send"], ["calculator"])

    on_pair(tmp_path, body)


def test_two_heads_of_a_peer_stand_in_the_ledger_and_so_does_what_a_person_decides(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        peer = a.mesh.peer("b")
        assert peer is not None
        conflict = HeadConflict(of_tree(9).decode(), of_tree(8).decode(), "smaller", 7)
        with pytest.raises(Conflict, match="nothing to decide"):
            await a.control(Peers.decide, "b", "kept", "why not")
        a.mesh.conflicts[b.origin] = conflict
        a.twin.kernel.remote.on_conflict(peer, conflict)
        entry = (await a.twin.entries("peer.conflict"))[0].body
        assert (entry["kept"], entry["shown"]) == (conflict.kept, conflict.shown)
        assert (entry["kept_size"], entry["shown_size"], entry["why"]) == (9, 8, "smaller")
        (row,) = await a.control(Peers.heads)
        assert row["conflict"] is not None
        assert (row["conflict"]["size"], row["conflict"]["shown"]) == (8, conflict.shown)
        assert "weftos peer heads" in (await a.control(Cluster.nodes))[1]["why"]
        for counts, reason in (("newer", "x"), ("kept", " "), ("kept", "x" * 501)):
            with pytest.raises(Invalid):
                await a.control(Peers.decide, "b", counts, reason)
        assert a.mesh.conflicts
        answer = await a.control(Peers.decide, "b", "shown", "it was restored")
        assert (answer["size"], a.mesh.conflicts) == (8, {})
        decided = (await a.twin.entries("peer.decided"))[0]
        command = (await a.twin.entries("operator.command"))[-1]
        assert decided.entry.cause == command.entry.seq
        assert decided.body == {
            "origin": b.origin,
            "name": "b",
            "counts": "shown",
            "size": 8,
            "root": conflict.shown_head.root.hex(),
            "reason": "it was restored",
            "by": "operator:1000",
        }

    on_pair(tmp_path, body)


def test_what_a_person_decides_of_two_heads_counts_when_the_disk_takes_it_late(tmp_path: Path) -> None:
    """It stands in the ledger; that its command was told of the disk does not undo it."""
    disk = FullDisk()

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        a.mesh.conflicts[b.origin] = HeadConflict(of_tree(9).decode(), of_tree(8).decode(), "smaller", 7)
        await a.twin.ledger.barrier()
        disk.full = True
        with pytest.raises(Unavailable):
            await a.control(Peers.decide, "b", "shown", "it was restored")
        with pytest.raises((Conflict, Unavailable)):
            await a.control(Peers.decide, "b", "kept", "or not")
        assert a.mesh.conflicts
        disk.full = False
        await until(lambda: not a.mesh.conflicts)
        assert [entry.body["counts"] for entry in await a.twin.entries("peer.decided")] == ["shown"]

    on_pair(tmp_path, body, disk=disk)


def test_the_node_proves_each_of_its_heads_from_the_one_before(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        ledger = a.twin.kernel.recorder.ledger
        heads = []
        for number in range(3):
            await a.twin.spawn(f"ada{number}")
            await ledger.publish()
            heads.append(parse_head(parse(ledger.full_note).text))
        for older, newer in ((heads[0], heads[1]), (heads[0], heads[2]), (heads[2], heads[2])):
            path = await a.twin.kernel.remote.prove(older.size, newer.size)
            verify_consistency(
                size1=older.size, size2=newer.size, root1=older.root, root2=newer.root, proof=path
            )
        for sizes in ((heads[0].size, ledger.full_size + 1), (2, 1), (-1, 1)):
            with pytest.raises(ValueError, match="no proof from"):
                await a.twin.kernel.remote.prove(*sizes)

    on_pair(tmp_path, body)
