"""Monitors of processes of this node, set and taken back by syscalls: each ends with exactly one message, or untold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chain.ledger.ledger import Draft
from kernel.abi import Down
from kernel.bounds import Bounds
from kernel.cell.protocol import MonitorRef, MonitorTarget
from kernel.cells.cell_events import CellAsked, CellCall, CellLost
from kernel.control.erasure import check_unused
from kernel.errors import KernelError, Refused
from kernel.policy.proposal import WatchProcess
from kernel.upkeep.erasure import Plan
from tests.kernel.policy.test_every_operation import Watching
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin, kernel_twin
from tests.kernel.twins.mesh_twin import until
from weftos.node.gates import GATES

TALKS = ("send_message",)


def ask(twin: Twin, at: Delivery, args: MonitorTarget | MonitorRef, round_: int) -> None:
    op = "monitor" if isinstance(args, MonitorTarget) else "demonitor"
    twin.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, op, args)))


async def monitor(twin: Twin, at: Delivery, target: str, round_: int = 0) -> dict[str, Any]:
    ask(twin, at, MonitorTarget(target), round_)
    return await twin.result()


async def demonitor(twin: Twin, at: Delivery, ref: str, round_: int = 1, *, flush: bool = False) -> bool:
    ask(twin, at, MonitorRef(ref, flush), round_)
    return bool((await twin.result())["found"])


async def turn_of(twin: Twin, name: str, **fields: Any) -> Delivery:
    await twin.send(name, **fields)
    return await twin.delivery()


async def down(twin: Twin) -> Down:
    """The next delivery, which is a DOWN; its turn is ended."""
    at = await twin.delivery()
    assert at.message.kind == "down"
    twin.finish(at)
    return Down.of(at.message)


def kill(twin: Twin, name: str) -> None:
    twin.kernel.processes.kill(f"/user/{name}", "kill")


def on_two(tmp_path: Path, body: Callable[[Twin, int], Awaitable[None]], **options: Any) -> None:
    """``body`` with a node where ada may speak, and bob's PID."""

    async def run(twin: Twin) -> None:
        await twin.spawn("ada", tools=TALKS)
        await body(twin, await twin.spawn("bob"))

    on_twin(tmp_path, run, **options)


async def quiet(twin: Twin) -> None:
    """What would come of what has happened has come."""
    for _ in range(50):
        await asyncio.sleep(0)
    await twin.ledger.barrier()
    for _ in range(50):
        await asyncio.sleep(0)


def test_the_end_is_told_once_with_its_reason_and_for_whom_the_monitor_was_set(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada", session="other")
        ref = (await monitor(twin, at, "bob"))["ref"]
        twin.finish(at)
        kill(twin, "bob")
        told = await twin.delivery()
        message = told.message
        assert (message.kind, message.sender, message.session) == ("down", "operator", "other")
        assert not message.wants_reply
        assert Down.of(message) == Down(ref, "bob", "/user/bob", bob, "", "killed")
        twin.finish(told)
        kill(twin, "bob")
        await quiet(twin)
        assert twin.cells.deliveries.empty() and not twin.kernel.state.monitors
        kinds = ("monitor.set", "monitor.down")
        set_, ended = await twin.entries(*kinds)
        accepted = (await twin.entries("message.accepted"))[-1]
        assert (accepted.body["rights"], accepted.entry.cause) == (list(TALKS), set_.entry.seq)
        assert ended.body == {
            "ref": ref, "watcher": "/user/ada", "message": accepted.body["id"], "reason": "killed",
        }  # fmt: skip
        assert ended.entry.cause == accepted.entry.seq == ended.entry.seq - 1

    on_two(tmp_path, body)


@pytest.mark.parametrize("target", ["bob", "/user/bob", "PID", "bob@n1"])
def test_a_process_is_named_as_for_a_message(tmp_path: Path, target: str) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        await monitor(twin, at, str(bob) if target == "PID" else target)
        twin.finish(at)
        kill(twin, "bob")
        assert (await down(twin)).pid == bob

    on_two(tmp_path, body, name="n1")


@pytest.mark.parametrize(
    ("target", "reason"),
    [("nobody", "noproc"), ("/user/nobody", "noproc"), ("999999", "noproc"), ("bob@nowhere", "noconnection")],
)
def test_what_is_not_there_is_told_at_once(tmp_path: Path, target: str, reason: str) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, target))["ref"]
        twin.finish(at)
        told = await down(twin)
        assert (told.ref, told.target, told.pid, told.reason) == (ref, target, 0, reason)
        assert not twin.kernel.state.monitors

    on_two(tmp_path, body)


def test_an_incarnation_that_has_gone_is_noproc_though_its_successor_runs(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        kill(twin, "bob")
        await twin.kernel.processes.when_started("/user/bob")
        at = await turn_of(twin, "ada")
        await monitor(twin, at, str(bob))
        await monitor(twin, at, "bob", 1)
        twin.finish(at)
        assert (await down(twin)).reason == "noproc"
        await quiet(twin)
        assert len(twin.kernel.state.monitors) == 1

    on_two(tmp_path, body)


def test_each_of_several_monitors_is_told_once_whoever_set_them(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        await twin.spawn("eve", tools=TALKS)
        refs = []
        for name in ("ada", "eve"):
            at = await turn_of(twin, name)
            refs += [(await monitor(twin, at, "bob", round_))["ref"] for round_ in range(3)]
            twin.finish(at)
        kill(twin, "bob")
        told = [await down(twin) for _ in refs]
        assert sorted(each.ref for each in told) == sorted(refs)
        await quiet(twin)
        assert twin.cells.deliveries.empty()

    on_two(tmp_path, body)


def test_the_loss_of_a_cell_is_told_with_what_became_of_each_and_the_watcher_in_it_is_told_when_it_is_back(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        twin.finish(at)
        twin.say(CellLost("c1", bob, [at.pid, bob], "end of file"))
        told = await twin.delivery()
        assert told.pid != at.pid
        assert Down.of(told.message).reason == "crash"

    on_two(tmp_path, body)


def test_a_turn_that_is_resumed_has_the_same_monitor_and_one_that_asks_another_target_diverges(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        first = await monitor(twin, at, "bob")
        twin.crash(at)
        again = await twin.delivery()
        assert again.turn == at.turn
        assert await monitor(twin, again, "bob") == first
        assert len(twin.kernel.state.monitors) == 1
        twin.crash(again)
        other = await twin.delivery()
        ask(twin, other, MonitorTarget("eve"), 0)
        assert [turn.id for turn in twin.kernel.state.parked()] == [at.turn]

    on_two(tmp_path, body)


async def forget(twin: Twin, target: str) -> dict[str, Any]:
    """Ada sets two monitors of ``target``, asks something else when she is back, a person lets that stand, and she sets
    one monitor; what she got.
    """
    at = await turn_of(twin, "ada")
    for round_ in range(2):
        await monitor(twin, at, target, round_)
    twin.crash(at)
    ask(twin, await twin.delivery(), MonitorTarget("nobody"), 0)
    await twin.kernel.divergences.decide(at.turn, "accept", "operator")
    at = await twin.delivery()
    await monitor(twin, at, "nobody")
    kept = await monitor(twin, at, target, 1)
    twin.finish(at)
    await down(twin)  # of nobody
    return kept


def test_of_monitors_that_a_turn_is_made_to_forget_nobody_is_told(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        kept = await forget(twin, "bob")
        kill(twin, "bob")
        assert (await down(twin)).ref == kept["ref"]
        await quiet(twin)
        assert twin.cells.deliveries.empty() and not twin.kernel.state.monitors

    on_two(tmp_path, body)


# -- taking back -----------------------------------------------------------------------------------------------------


def test_what_is_taken_back_in_time_is_never_told(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, "bob"))["ref"]
        assert await demonitor(twin, at, ref)
        assert not await demonitor(twin, at, ref, 2)
        twin.finish(at)
        kill(twin, "bob")
        await quiet(twin)
        assert twin.cells.deliveries.empty()

    on_two(tmp_path, body)


@pytest.mark.parametrize("flush", [False, True])
def test_with_flush_no_message_comes_late(tmp_path: Path, flush: bool) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        refs = [(await monitor(twin, at, "bob", round_))["ref"] for round_ in range(2)]
        kill(twin, "bob")
        await quiet(twin)
        assert len(twin.kernel.state.mail["/user/ada"]) == 3
        assert not await demonitor(twin, at, refs[0], 2, flush=flush)
        twin.finish(at)
        left = refs[1:] if flush else refs
        assert [(await down(twin)).ref for _ in left] == left
        await quiet(twin)
        tally = twin.kernel.state.tally
        assert (tally.accepted, tally.dropped, twin.kernel.state.in_flight) == (3, int(flush), 0)
        assert not twin.kernel.state.dead

    on_two(tmp_path, body)


def test_what_is_being_handled_is_not_flushed(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, "bob"))["ref"]
        twin.finish(at)
        kill(twin, "bob")
        told = await twin.delivery()
        assert not await demonitor(twin, told, ref, 0, flush=True)
        twin.finish(told)
        await quiet(twin)
        assert twin.kernel.state.tally.acknowledged == 2

    on_two(tmp_path, body)


def test_nobody_takes_back_the_monitor_of_another(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, "bob"))["ref"]
        twin.finish(at)
        other = await turn_of(twin, "bob")
        assert not await demonitor(twin, other, ref, 0, flush=True)
        assert not await demonitor(twin, other, "r" * 5_000, 1, flush=True)
        assert list(twin.kernel.state.monitors) == [ref]

    on_two(tmp_path, body)


# -- who watches no more ---------------------------------------------------------------------------------------------


def test_a_watcher_that_is_stopped_is_told_nothing_nor_is_its_successor(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        twin.finish(at)
        twin.kernel.processes.stop("/user/ada")
        await quiet(twin)
        assert not twin.kernel.state.monitors
        kill(twin, "bob")
        twin.kernel.processes.start("/user/ada")
        await quiet(twin)
        assert twin.cells.deliveries.empty() and not twin.kernel.state.dead

    on_two(tmp_path, body)


def test_a_watcher_that_is_to_stop_sets_no_more(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        twin.kernel.processes.stop("/user/ada")
        refused = await monitor(twin, at, "nobody")
        assert refused["ref"] == "" and "is stopped" in refused["why"]
        assert len(await twin.entries("message.accepted")) == 1

    on_two(tmp_path, body)


# -- a restart, a disk that refuses ----------------------------------------------------------------------------------


def test_a_boot_tells_what_was_due_and_what_nobody_knows_the_end_of_each_once(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada", tools=TALKS)
        await twin.spawn("bob")
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        twin.finish(at)
        await quiet(twin)

    async def after(twin: Twin) -> None:
        assert (await down(twin)).reason == "noconnection"
        await quiet(twin)
        assert twin.cells.deliveries.empty() and not twin.kernel.state.monitors

    async def at_last(twin: Twin) -> None:
        await quiet(twin)
        assert twin.cells.deliveries.empty()
        assert len(await twin.entries("monitor.down")) == 1

    for body in (before, after, at_last):
        on_twin(tmp_path, body)


def test_an_exit_that_was_recorded_and_not_told_keeps_its_reason_over_a_boot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada", tools=TALKS)
        bob = await twin.spawn("bob")
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        twin.finish(at)
        process = twin.kernel.live.get(bob)
        assert process is not None
        body = {"address": "/user/bob", "pid": bob, "reason": "crash", "detail": "", "turn": ""}
        twin.kernel.recorder.commit([Draft("process.exited", body)])  # and then the node died
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        assert (await down(twin)).reason == "crash"
        await quiet(twin)
        assert twin.cells.deliveries.empty()

    for body in (before, after):
        on_twin(tmp_path, body)


def test_an_end_that_the_disk_refuses_is_told_once_when_it_takes_it(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        twin.finish(at)
        await twin.ledger.barrier()
        disk.full = True
        twin.kernel.recorder.commit([Draft("node.clock", {"ahead_us": 0})])
        await until(lambda: twin.ledger.read_only is not None, "the disk refuses")
        kill(twin, "bob")
        for _ in range(50):
            await asyncio.sleep(0)
        assert twin.cells.deliveries.empty() and not twin.kernel.state.monitors.due
        disk.full = False
        assert (await down(twin)).reason == "killed"
        await until(
            lambda: not twin.kernel.recorder.waiting and twin.ledger.read_only is None, "it is written"
        )
        await quiet(twin)
        assert len(await twin.entries("monitor.down")) == 1

    on_two(tmp_path, body, disk=disk)


# -- who may, and how many -------------------------------------------------------------------------------------------


def test_who_may_not_speak_watches_only_what_is_below_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("mute", tools=("calculator",))
        await twin.spawn("bob")
        kid = await twin.spawn("kid", parent="/user/mute", tools=())
        at = await turn_of(twin, "mute")
        for round_, target in enumerate(("bob", "/user/bob", "nobody", "bob@nowhere", "1", "mute")):
            refused = await monitor(twin, at, target, round_)
            assert refused["ref"] == "" and "capability" in refused["why"], target
        for round_, target in enumerate(("kid", str(kid), "/user/mute/none"), 6):
            assert (await monitor(twin, at, target, round_))["ref"], target
        twin.kernel.processes.kill("/user/mute/kid", "kill")
        await quiet(twin)
        assert (await monitor(twin, at, str(kid), 9))["ref"]

    on_twin(tmp_path, body)


def test_the_rights_are_those_of_the_turn(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada", sender="/user/bob", rights=frozenset())
        assert "capability" in (await monitor(twin, at, "bob"))["why"]

    on_two(tmp_path, body)


def test_a_monitor_is_judged_like_any_operation(tmp_path: Path) -> None:
    gate = Watching()
    gate.against = lambda proposal: isinstance(proposal.operation, WatchProcess)

    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        refused = await monitor(twin, at, "bob")
        assert refused == {"ref": "", "why": "the watching gate is against it"}
        asked = gate.seen[-1]
        assert asked.operation == WatchProcess("/user/bob")
        assert (asked.asker.principal, asked.asker.process) == ("operator", "/user/ada")
        twin.crash(at)
        gate.against = lambda proposal: False
        assert await monitor(twin, await twin.delivery(), "bob") == refused  # as recorded

    on_two(tmp_path, body, gates=(*GATES, gate))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("x" * 1_201, "characters"),
        ("", "name"),
        ("-x", "not allowed"),
        ("a\x00b", "not allowed"),
        ("\ud800", "not"),
    ],
)
def test_what_can_be_no_process_is_refused_with_a_reason(tmp_path: Path, target: str, why: str) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        refused = await monitor(twin, at, target)
        assert refused["ref"] == "" and why in refused["why"]

    on_two(tmp_path, body)


def test_monitors_and_what_waits_in_the_mailbox_are_bounded_together(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")  # one message
        assert (await monitor(twin, at, "nobody"))["ref"]
        assert (await monitor(twin, at, "bob", 1))["ref"]
        refused = await monitor(twin, at, "bob", 2)
        assert refused["why"].startswith("/user/ada has 3 monitors and messages")

    on_two(tmp_path, body, bounds=Bounds(process_monitors=3))


def test_monitors_of_a_node_are_bounded(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        assert (await monitor(twin, at, "bob"))["ref"]
        assert (await monitor(twin, at, "bob", 1))["why"] == "there are 1 monitors in this node, the limit"

    on_two(tmp_path, body, bounds=Bounds(monitors=1))


def test_who_only_keeps_itself_busy_is_stopped(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        for _ in range(3):
            assert (await monitor(twin, at, "nobody"))["ref"]
            twin.finish(at)
            at = await twin.delivery()
        assert "came of one message" in (await monitor(twin, at, "nobody"))["why"]

    on_two(tmp_path, body, bounds=Bounds(messages_per_trace=3))


def test_a_full_mailbox_does_not_keep_an_end_out(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        await monitor(twin, at, "bob")
        await twin.send("ada")
        with pytest.raises(KernelError, match="full"):
            await twin.send("ada")
        kill(twin, "bob")
        await quiet(twin)
        assert len(twin.kernel.state.mail["/user/ada"]) == 3

    on_two(tmp_path, body, bounds=Bounds(mailbox_messages=2))


# -- what is kept of it ----------------------------------------------------------------------------------------------


def test_a_turn_is_not_erased_while_a_monitor_of_it_stands(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, "bob"))["ref"]
        twin.finish(at)
        await quiet(twin)
        with pytest.raises(Refused, match=f"monitor {ref} of /user/ada"):
            check_unused(Plan(turns=[at.turn]), twin.kernel.state)

    on_two(tmp_path, body)


def test_a_dead_letter_that_told_an_end_is_one_still_when_it_is_sent_again(tmp_path: Path) -> None:
    async def body(twin: Twin, bob: int) -> None:
        at = await turn_of(twin, "ada")
        ref = (await monitor(twin, at, "nobody"))["ref"]
        twin.kernel.processes.stop("/user/ada")
        twin.finish(at)
        await quiet(twin)
        [letter] = twin.kernel.state.dead.values()
        assert json.loads(letter.mail.text)["ref"] == ref
        twin.kernel.processes.start("/user/ada")
        await twin.kernel.router.replay(letter.mail.id, -1)
        assert (await down(twin)).ref == ref

    on_two(tmp_path, body)


def test_a_snapshot_holds_monitors(tmp_path: Path) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path) as twin:
            await twin.spawn("ada", tools=TALKS)
            await twin.spawn("bob")
            at = await turn_of(twin, "ada")
            ref = (await monitor(twin, at, "bob"))["ref"]
            assert [row[0] for row in twin.kernel.state.monitors.rows()] == [ref]

    asyncio.run(run())
