"""Links between processes, set and taken back by syscalls: whichever ends takes the other along, or it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chain.ledger.ledger import Draft
from kernel.abi import Exit
from kernel.bounds import Bounds
from kernel.cell.protocol import LinkRef, LinkTarget, Trapping
from kernel.cells.cell_events import CellAsked, CellCall, CellLeft
from kernel.control.erasure import check_unused
from kernel.errors import Refused
from kernel.upkeep.erasure import Plan
from tests.kernel.syscall.test_monitor_calls import TALKS, kill, quiet, turn_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin
from tests.kernel.twins.mesh_twin import until


def ask(twin: Twin, at: Delivery, args: LinkTarget | LinkRef | Trapping, round_: int) -> None:
    op = {LinkTarget: "link", LinkRef: "unlink", Trapping: "trap_exits"}[type(args)]
    twin.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, op, args)))


async def link(twin: Twin, at: Delivery, target: str, round_: int = 0) -> dict[str, Any]:
    ask(twin, at, LinkTarget(target), round_)
    return await twin.result()


async def unlink(twin: Twin, at: Delivery, ref: str, round_: int = 1) -> bool:
    ask(twin, at, LinkRef(ref), round_)
    return bool((await twin.result())["found"])


async def trap(twin: Twin, at: Delivery, round_: int = 9, *, on: bool = True) -> bool:
    ask(twin, at, Trapping(on), round_)
    return bool((await twin.result())["before"])


async def linked(twin: Twin, one: str, other: str, *, traps: bool = False) -> str:
    """``one`` links itself with ``other`` in a turn of its own; the reference."""
    at = await turn_of(twin, one)
    if traps:
        await trap(twin, at)
    found = await link(twin, at, other, 10)
    assert not found["why"]
    twin.finish(at)
    return str(found["ref"])


async def told(twin: Twin) -> Exit:
    """The next delivery, which is an exit; its turn is ended."""
    at = await twin.delivery()
    assert at.message.kind == "exit"
    twin.finish(at)
    return Exit.of(at.message)


def pid_of(twin: Twin, address: str) -> int:
    process = twin.kernel.live.at("/user/ada/kid" if address == "kid" else f"/user/{address}")
    return process.pid if process is not None else 0


async def exits(twin: Twin) -> list[tuple[str, str]]:
    return [
        (record.body["address"], record.body["reason"]) for record in await twin.entries("process.exited")
    ]


def on_two(tmp_path: Path, body: Callable[[Twin], Awaitable[None]], **options: Any) -> None:
    """``body`` with a node where ada and bob, who is not below her, may speak."""

    async def run(twin: Twin) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TALKS)
        await body(twin)

    on_twin(tmp_path, run, **options)


def on_family(tmp_path: Path, body: Callable[[Twin], Awaitable[None]], **options: Any) -> None:
    """``body`` with a node where ada has a child, kid."""

    async def run(twin: Twin) -> None:
        await twin.spawn("ada", tools=TALKS)
        await twin.spawn("kid", parent="/user/ada", tools=TALKS)
        await body(twin)

    on_twin(tmp_path, run, **options)


def test_who_links_itself_ends_with_the_other_for_the_same_reason_and_comes_back(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ref, ada, bob = await linked(twin, "ada", "bob"), pid_of(twin, "ada"), pid_of(twin, "bob")
        kill(twin, "bob")
        await until(lambda: pid_of(twin, "ada") not in (0, ada))
        assert await exits(twin) == [("/user/bob", "killed"), ("/user/ada", "killed")]
        [taken] = [record for record in await twin.entries("process.exited") if record.body["pid"] == ada]
        assert taken.body["detail"] == f"PID {bob}, /user/bob, ended, and is linked with it"
        [ended] = await twin.entries("monitor.down")
        assert ended.body == {"ref": ref, "watcher": "/user/ada", "message": "", "reason": "killed"}
        assert not twin.kernel.state.monitors
        kill(twin, "bob")
        await quiet(twin)
        assert len(await exits(twin)) == 3

    on_two(tmp_path, body)


def test_a_link_kills_nobody_who_is_neither_below_nor_has_linked_itself(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        bob = pid_of(twin, "bob")
        kill(twin, "ada")
        await quiet(twin)
        assert pid_of(twin, "bob") == bob
        assert await exits(twin) == [("/user/ada", "killed")]

    on_two(tmp_path, body)


def test_who_links_back_joins_the_one_link_that_there_is_and_it_has_one_end(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ref, ada, bob = await linked(twin, "ada", "bob"), pid_of(twin, "ada"), pid_of(twin, "bob")
        assert await linked(twin, "bob", "ada") == ref
        assert await linked(twin, "ada", "bob") == ref
        kill(twin, "ada")
        await until(lambda: pid_of(twin, "bob") not in (0, bob) and pid_of(twin, "ada") not in (0, ada))
        await quiet(twin)
        assert await exits(twin) == [("/user/ada", "killed"), ("/user/bob", "killed")]
        assert not twin.kernel.state.monitors
        assert [record.body["ref"] for record in await twin.entries("monitor.down")] == [ref]

    on_two(tmp_path, body)


@pytest.mark.parametrize("ends", ["ada", "kid"])
def test_a_child_is_bound_as_who_has_linked_itself_with_it(tmp_path: Path, ends: str) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "kid")
        before = {name: pid_of(twin, name) for name in ("ada", "kid")}
        twin.kernel.processes.exit(before[ends], "crash", "the test said so")
        await until(lambda: all(pid_of(twin, name) not in (0, pid) for name, pid in before.items()))
        await quiet(twin)
        assert sorted(await exits(twin)) == [("/user/ada", "crash"), ("/user/ada/kid", "crash")]

    on_family(tmp_path, body)


@pytest.mark.parametrize("reason", ["normal", "shutdown", "shutdown:done"])
def test_an_end_in_order_takes_nobody_along_and_ends_the_link(tmp_path: Path, reason: str) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        ada = pid_of(twin, "ada")
        twin.say(CellLeft(pid_of(twin, "bob"), reason))
        await quiet(twin)
        assert pid_of(twin, "ada") == ada
        assert not twin.kernel.state.monitors

    on_two(tmp_path, body)


@pytest.mark.parametrize("reason", ["normal", "shutdown", "crash", "killed", "no_progress"])
def test_one_that_traps_exits_is_told_each_of_them_once_and_lives(tmp_path: Path, reason: str) -> None:
    async def body(twin: Twin) -> None:
        ref, ada, bob = await linked(twin, "ada", "bob", traps=True), pid_of(twin, "ada"), pid_of(twin, "bob")
        twin.kernel.processes.exit(bob, reason, "the test said so")
        assert await told(twin) == Exit(ref, "/user/bob", bob, "", reason)
        await quiet(twin)
        assert twin.cells.deliveries.empty() and pid_of(twin, "ada") == ada
        at = await turn_of(twin, "ada")
        assert await trap(twin, at, 1, on=False)
        assert not await trap(twin, at, 2)
        twin.finish(at)

    on_two(tmp_path, body)


def test_an_exit_is_handled_for_whom_the_turn_was_that_trapped_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "ada", session="other")
        await trap(twin, at)
        twin.finish(at)
        await linked(twin, "ada", "bob")
        kill(twin, "bob")
        at = await twin.delivery()
        assert (at.message.kind, at.message.sender, at.message.session) == ("exit", "operator", "other")
        accepted = (await twin.entries("message.accepted"))[-1]
        assert accepted.body["rights"] == list(TALKS)

    on_two(tmp_path, body)


def test_a_child_that_traps_is_told_of_the_end_above_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "kid")
        await trap(twin, at)
        twin.finish(at)
        ref, ada, kid = await linked(twin, "ada", "kid"), pid_of(twin, "ada"), pid_of(twin, "kid")
        twin.kernel.processes.exit(ada, "crash", "the test said so")
        assert await told(twin) == Exit(ref, "/user/ada", ada, "", "crash")
        assert pid_of(twin, "kid") == kid

    on_family(tmp_path, body)


def test_what_is_not_there_is_refused_or_told_at_once_to_one_that_traps(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "ada")
        for round_, (target, said) in enumerate(
            [("nobody", "noproc"), ("bob@nowhere", "noconnection"), ("ada", "linked with itself")]
        ):
            refused = await link(twin, at, target, round_)
            assert not refused["ref"] and said in refused["why"]
        await trap(twin, at, 3)
        assert (await link(twin, at, "nobody", 4))["ref"]
        twin.finish(at)
        assert (await told(twin)).reason == "noproc"
        assert not twin.kernel.state.monitors

    on_two(tmp_path, body)


def test_after_an_unlink_nothing_comes_also_when_it_was_there_already(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ref, bob = await linked(twin, "ada", "bob", traps=True), pid_of(twin, "bob")
        at = await turn_of(twin, "ada")
        kill(twin, "bob")
        await until(lambda: pid_of(twin, "bob") not in (0, bob))
        await until(lambda: len(twin.kernel.state.mail["/user/ada"]) == 2)
        assert not await unlink(twin, at, ref)
        again = (await link(twin, at, "bob", 2))["ref"]
        assert await unlink(twin, at, again, 3)
        twin.finish(at)
        kill(twin, "bob")
        await quiet(twin)
        assert twin.cells.deliveries.empty()
        assert not await unlink(twin, await turn_of(twin, "bob"), ref, 0)

    on_two(tmp_path, body)


def test_either_of_the_two_that_a_link_binds_may_end_it_and_nobody_else(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("eve", tools=TALKS)
        ref = await linked(twin, "ada", "bob")
        for name in ("eve", "bob"):
            at = await turn_of(twin, name)
            assert not await unlink(twin, at, ref)
            twin.finish(at)
        assert await linked(twin, "bob", "ada") == ref
        at = await turn_of(twin, "bob")
        assert await unlink(twin, at, ref)
        assert not twin.kernel.state.monitors

    on_two(tmp_path, body)


def test_the_turn_of_one_that_is_taken_along_is_resumed_and_not_blamed(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        at = await turn_of(twin, "ada")
        kill(twin, "bob")
        again = await twin.delivery()
        assert (again.turn, again.pid != at.pid) == (at.turn, True)
        assert twin.kernel.state.turns[at.turn].crashes == 0

    on_two(tmp_path, body)


def test_a_turn_that_is_resumed_has_the_same_link_and_is_bound_still(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "ada")
        first = await link(twin, at, "bob")
        twin.crash(at)
        again = await twin.delivery()
        assert await link(twin, again, "bob") == first
        kill(twin, "bob")
        last = await twin.delivery()
        assert last.turn == at.turn and last.pid != again.pid

    on_two(tmp_path, body)


def test_a_ring_of_links_ends_once_around(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        names = ["ada", "bob", "c", "d", "e"]
        for name in names[2:]:
            await twin.spawn(name, tools=TALKS)
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            await linked(twin, name, other)
        before = {name: pid_of(twin, name) for name in names}
        kill(twin, "c")
        await until(lambda: all(pid_of(twin, name) not in (0, pid) for name, pid in before.items()))
        await quiet(twin)
        ends = [address for address, _ in await exits(twin)]
        assert ends[:5] == ["/user/c", "/user/bob", "/user/ada", "/user/e", "/user/d"]

    on_two(tmp_path, body)


def test_two_that_take_each_other_along_again_and_again_are_ended_by_the_intensity(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor", tools=(), intensity=(3, 60.0), restart="temporary")
        for name in ("c", "d"):
            await twin.spawn(name, parent="/user/team", tools=TALKS)
        for _ in range(2):
            await twin.kernel.processes.when_started("/user/team/c")
            await twin.kernel.processes.when_started("/user/team/d")
            await linked(twin, "c", "d")
            process = twin.kernel.live.at("/user/team/d")
            assert process is not None
            twin.kernel.processes.exit(process.pid, "crash", "the test said so")
            await quiet(twin)
        await until(lambda: "/user/team" not in twin.kernel.state.slots)
        crashed = [address for address, reason in await exits(twin) if reason == "crash"]
        assert sorted(crashed) == ["/user/team/c"] * 2 + ["/user/team/d"] * 2

    on_two(tmp_path, body)


def test_a_link_ends_with_its_node_and_whoever_traps_is_told(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await linked(twin, "ada", "bob", traps=True)
        await linked(twin, "bob", "ada")
        await twin.spawn("eve", tools=TALKS)
        await linked(twin, "eve", "bob")

    async def after(twin: Twin) -> None:
        exit_ = await told(twin)
        assert (exit_.address, exit_.reason) == ("/user/bob", "noconnection")
        await quiet(twin)
        assert not twin.kernel.state.monitors
        assert await exits(twin) == []
        assert twin.cells.deliveries.empty()

    on_two(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize(("binds", "taken"), [("both", 0), ("ada", 1)])
def test_where_both_have_ended_what_comes_after_ends_only_by_a_link_of_its_address(
    tmp_path: Path, binds: str, taken: int
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        if binds == "both":
            await linked(twin, "bob", "ada")
        before = {name: pid_of(twin, name) for name in ("ada", "bob")}
        await twin.ledger.barrier()
        disk.full = True
        twin.kernel.recorder.commit([Draft("node.clock", {"ahead_us": 0})])
        await until(lambda: twin.ledger.read_only is not None, "the disk refuses")
        for name in ("bob", "ada"):
            kill(twin, name)
        await until(lambda: all(pid_of(twin, name) not in (0, pid) for name, pid in before.items()))
        await until(lambda: all(process.state == "running" for process in twin.kernel.live.all()))
        disk.full = False
        await until(lambda: not twin.kernel.recorder.waiting and twin.ledger.read_only is None)
        await quiet(twin)
        assert not twin.kernel.state.monitors
        assert len(await exits(twin)) == 2 + taken

    on_two(tmp_path, body, disk=disk)


def test_an_end_that_was_recorded_and_not_carried_out_takes_nobody_of_the_next_boot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        body = {
            "address": "/user/bob",
            "pid": pid_of(twin, "bob"),
            "reason": "crash",
            "detail": "",
            "turn": "",
        }
        twin.kernel.recorder.commit([Draft("process.exited", body, 0)])
        assert twin.kernel.state.monitors.due

    async def after(twin: Twin) -> None:
        await quiet(twin)
        assert not twin.kernel.state.monitors
        assert [address for address, _ in await exits(twin)] == ["/user/bob"]

    on_two(tmp_path, before)
    on_twin(tmp_path, after)


def test_who_is_stopped_traps_no_more_and_is_linked_with_nobody(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob", traps=True)
        bob = pid_of(twin, "bob")
        twin.kernel.processes.stop("/user/ada")
        await until(lambda: not pid_of(twin, "ada"))
        await quiet(twin)
        state = twin.kernel.state
        assert (dict(state.monitors), dict(state.traps), pid_of(twin, "bob")) == ({}, {}, bob)

    on_two(tmp_path, body)


def test_what_is_forgotten_with_a_divergence_is_neither_linked_nor_trapped(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "ada")
        await link(twin, at, "bob")
        await trap(twin, at, 1)
        twin.crash(at)
        ask(twin, await twin.delivery(), LinkTarget("eve"), 0)
        assert twin.kernel.state.monitors and twin.kernel.state.traps
        await twin.kernel.divergences.decide(at.turn, "accept", "operator")
        assert (dict(twin.kernel.state.monitors), dict(twin.kernel.state.traps)) == ({}, {})

    on_two(tmp_path, body)


def test_links_count_with_monitors_and_messages(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await linked(twin, "ada", "bob")
        at = await turn_of(twin, "ada")
        await twin.spawn("eve")
        refused = await link(twin, at, "eve")
        assert not refused["ref"] and "the limit for a new monitor is 2" in refused["why"]

    on_two(tmp_path, body, bounds=Bounds(process_monitors=2))


def test_a_turn_whose_traps_count_is_not_erased(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "ada")
        await trap(twin, at)
        twin.finish(at)
        await quiet(twin)
        plan = Plan(turns=[at.turn])
        with pytest.raises(Refused, match="traps exits since turn"):
            check_unused(plan, twin.kernel.state)

    on_two(tmp_path, body)
