"""Links with processes of another node: they bind who asks, and nobody of the other node."""

from __future__ import annotations

from pathlib import Path

from kernel.abi import Exit
from tests.kernel.syscall.test_links import exits, link, linked, pid_of, told, trap
from tests.kernel.syscall.test_links import unlink as take_back
from tests.kernel.syscall.test_monitor_calls import TALKS, kill, quiet, turn_of
from tests.kernel.twins.mesh_twin import NodeTwin, on_pair, unlink, until


async def both(a: NodeTwin, b: NodeTwin, *, traps: bool = False) -> str:
    """Ada of a is linked with bob of b; the reference."""
    await a.twin.spawn("ada", tools=TALKS)
    await b.twin.spawn("bob", tools=TALKS)
    ref = await linked(a.twin, "ada", "bob@b", traps=traps)
    await until(lambda: b.twin.kernel.remote.monitors.watched == 1, "bob is watched")
    return ref


def test_the_end_on_another_node_takes_along(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await both(a, b)
        ada = pid_of(a.twin, "ada")
        kill(b.twin, "bob")
        await until(lambda: pid_of(a.twin, "ada") not in (0, ada), "ada has ended with bob")
        assert await exits(a.twin) == [("/user/ada", "killed")]

    on_pair(tmp_path, body)


def test_a_lost_node_is_noconnection_told_or_carried_out(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        ref = await both(a, b, traps=True)
        await a.twin.spawn("eve", tools=TALKS)
        await linked(a.twin, "eve", "bob@b")
        eve = pid_of(a.twin, "eve")
        unlink(a.mesh, b.mesh)
        assert await told(a.twin) == Exit(ref, "bob", 0, b.origin, "noconnection")
        await until(lambda: pid_of(a.twin, "eve") not in (0, eve), "eve has ended with the link")
        assert await exits(a.twin) == [("/user/eve", "noconnection")]

    on_pair(tmp_path, body)


def test_a_peer_ends_nobody_of_this_node_by_a_link(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await both(a, b)
        bob = pid_of(b.twin, "bob")
        kill(a.twin, "ada")
        await quiet(a.twin)
        unlink(a.mesh, b.mesh)
        await quiet(b.twin)
        assert pid_of(b.twin, "bob") == bob
        assert await exits(b.twin) == []

    on_pair(tmp_path, body)


def test_what_is_not_there_ends_who_asks_or_is_told(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.twin.spawn("ada", tools=TALKS)
        at = await turn_of(a.twin, "ada")
        await trap(a.twin, at)
        assert (await link(a.twin, at, "nobody@b", 10))["ref"]
        a.twin.finish(at)
        assert (await told(a.twin)).reason == "noproc"
        at = await turn_of(a.twin, "ada")
        await trap(a.twin, at, on=False)
        await link(a.twin, at, "nobody@b", 10)
        again = await a.twin.delivery()
        assert (again.turn, again.pid != at.pid) == (at.turn, True)
        assert await exits(a.twin) == [("/user/ada", "noproc")]

    on_pair(tmp_path, body)


def test_a_second_call_gives_the_same_link_and_one_that_is_ended_is_taken_back_there(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        ref = await both(a, b)
        assert await linked(a.twin, "ada", "bob@b") == ref
        at = await turn_of(a.twin, "ada")
        assert await take_back(a.twin, at, ref)
        a.twin.finish(at)
        await until(lambda: b.twin.kernel.remote.monitors.watched == 0, "bob is watched no more")
        ada = pid_of(a.twin, "ada")
        kill(b.twin, "bob")
        await quiet(a.twin)
        assert pid_of(a.twin, "ada") == ada

    on_pair(tmp_path, body)


def test_a_peer_that_does_not_let_its_process_be_watched_gives_who_asks_no_logical_end(
    tmp_path: Path,
) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.twin.spawn("ada", tools=TALKS, on_logical="end")
        await b.twin.spawn("bob")
        at = await turn_of(a.twin, "ada")
        await link(a.twin, at, "bob@b", 10)
        again = await a.twin.delivery()
        assert (again.turn, again.pid != at.pid) == (at.turn, True)
        assert await exits(a.twin) == [("/user/ada", "noconnection")]

    on_pair(tmp_path, body, may=frozenset({"send"}))
