"""The process tree on a real ledger: starts, exits, restarts, parked and stopped slots, across reboots too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from chain.disk import Disk
from chain.entry.reader import StateRecord, read_records
from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.bounds import Bounds
from kernel.cells.cell_events import CellLost, CellRefused, Placement
from kernel.errors import (
    Busy,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    StateError,
    SupervisionError,
    Unavailable,
)
from kernel.message.messaging import DEAD_LETTERS_AT_ONCE, Outgoing
from kernel.model.pids import BLOCK
from kernel.model.spec import ProcessSpec
from kernel.model.states import CELL_LOST, CRASH, KILLED, TIMEOUT
from kernel.process.effects import EFFECTS_AT_ONCE
from kernel.process.live import LiveProcess, LiveTable
from kernel.process.processes import REMOVED_AT_ONCE
from kernel.process.slots.slot_writer import SlotWriter
from kernel.slices.mailboxes import Mail
from kernel.state.recorder import Recorder
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Twin, accept
from tests.kernel.twins.tree_twin import Tree
from tests.patience import HANG_S


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():
            await asyncio.sleep(0.001)


async def placed(twin: Twin) -> int:
    """The PID of the next process that is placed in a cell, once it runs."""
    placement = await asyncio.wait_for(twin.cells.placements.get(), HANG_S)
    await asyncio.sleep(0)
    return placement.pid


def test_a_permanent_process_is_restarted_whatever_the_reason_with_a_new_pid(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pids = [await twin.spawn("ada", intensity=(50, 60.0))]
        await placed(twin)
        for reason in ("normal", "shutdown", "crash", "killed"):
            twin.kernel.processes.exit(pids[-1], reason)
            pids.append(await placed(twin))
        assert pids == sorted(set(pids))

    on_twin(tmp_path, body)


def test_a_transient_process_is_not_restarted_after_shutdown(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada", restart="transient")
        twin.kernel.processes.exit(pid, "crash")
        process = twin.kernel.live.at("/user/ada")
        assert process is not None
        await asyncio.sleep(0)
        twin.kernel.processes.exit(process.pid, "shutdown")
        assert twin.kernel.live.at("/user/ada") is None
        assert twin.kernel.state.slots["/user/ada"].state == "stopped"

    on_twin(tmp_path, body)


def test_a_temporary_process_is_gone_after_its_exit_and_its_name_is_free(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada", restart="temporary")
        mail = await twin.send("ada")
        twin.kernel.processes.exit(pid, "crash")
        assert "/user/ada" not in twin.kernel.state.slots
        assert (await twin.end_of(mail))["status"] == "dead"
        assert await twin.spawn("ada") > pid

    on_twin(tmp_path, body)


def test_what_goes_while_the_disk_is_full_goes_after_its_mail_and_what_is_below(tmp_path: Path) -> None:
    """A node that is killed anywhere in between has no mail of an address that is no more."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", restart="temporary")
        await twin.spawn("bob", parent="/user/ada")
        mails = [await twin.send(name) for name in ("/user/ada", "/user/ada/bob")]
        at_of = {at.message.id: at for at in (await twin.delivery(), await twin.delivery())}
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("/user/ada"))
        await until(lambda: twin.ledger.read_only is not None)
        twin.crash(at_of[mails[0].id])
        disk.full = False
        await until(lambda: "/user/ada" not in twin.kernel.state.slots)
        ends = [
            record.body["address"] if record.entry.kind == "process.slot" else record.body["id"]
            for record in await twin.entries("message.dead", "process.slot")
            if record.body.get("state", "removed") == "removed"
        ]
        assert {mail.id for mail in mails} < set(ends[:-2])
        assert ends[-2:] == ["/user/ada/bob", "/user/ada"]
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_what_is_about_to_go_is_not_begun_again_with_its_supervisor(tmp_path: Path) -> None:
    """It never started, so nobody has it; that its slot is gone waits for the disk, or for its mail."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.spawn("team", type="supervisor", tools=())
        processes, live = twin.kernel.processes, twin.kernel.live
        draft = processes.admission.draft_spawn(ProcessSpec("kid"), "/user/team", 0, b"", -1)
        twin.kernel.recorder.commit([draft])
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("ada"))
        await until(lambda: twin.ledger.read_only is not None)
        twin.cells.refuse = lambda placement: "no module named nowhere"
        started = processes.when_started("/user/team/kid")
        processes.begin("/user/team/kid")
        with pytest.raises(Refused, match="no module named nowhere"):
            await started
        twin.cells.refuse = lambda placement: ""
        processes.kill("/user/team", "kill")
        assert live.at("/user/team") is not None
        for _ in range(100):  # rounds of the loop: what is begun has started by then
            await asyncio.sleep(0)
        assert live.at("/user/team/kid") is None
        disk.full = False
        await until(lambda: "/user/team/kid" not in twin.kernel.state.slots)
        await twin.spawn("kid", parent="/user/team")
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_a_full_mailbox_becomes_dead_letters_a_few_at_a_time_and_its_address_waits_for_that(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        processes, mail = twin.kernel.processes, twin.kernel.state.mail
        await twin.spawn("ada")
        sent = [(await twin.send("ada")).id for _ in range(2 * DEAD_LETTERS_AT_ONCE + 1)]
        at = await twin.delivery()
        processes.stop("/user/ada")
        twin.finish(at)
        assert len(mail["/user/ada"]) == DEAD_LETTERS_AT_ONCE
        for words in (processes.start, lambda address: processes.admission.removal(address, True)):
            with pytest.raises(Busy, match="dead letters"):
                words("/user/ada")
        await until(lambda: not mail)
        assert [record.body["id"] for record in await twin.entries("message.dead")] == sent[1:]
        processes.start("/user/ada")
        await processes.when_started("/user/ada")

    on_twin(tmp_path, body)


def test_a_temporary_process_goes_after_its_full_mailbox(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", restart="temporary")
        for _ in range(2 * DEAD_LETTERS_AT_ONCE + 1):
            await twin.send("ada")
        twin.crash(await twin.delivery())
        await until(lambda: "/user/ada" not in twin.kernel.state.slots)
        assert not twin.kernel.state.mail
        ends = [
            record.entry.kind
            for record in await twin.entries("message.dead", "process.slot")
            if record.body.get("address") != "/user"
        ]
        assert ends == ["message.dead"] * (2 * DEAD_LETTERS_AT_ONCE + 1) + ["process.slot"]
        await twin.spawn("ada", restart="temporary")

    on_twin(tmp_path, body)


def test_what_is_stopped_while_the_disk_is_full_has_its_mail_made_dead_letters_and_can_be_started(
    tmp_path: Path,
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        processes, mail = twin.kernel.processes, twin.kernel.state.mail
        await twin.spawn("ada")
        sent = [(await twin.send("ada")).id for _ in range(2)]
        at = await twin.delivery()
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("ada"))
        await until(lambda: twin.ledger.read_only is not None)
        processes.stop("/user/ada")
        twin.crash(at)
        disk.full = False
        await until(lambda: not mail)
        dead = await twin.entries("message.dead")
        assert [record.body["id"] for record in dead][:2] == sent
        assert {record.body["why"] for record in dead} == {"/user/ada is stopped"}
        processes.start("/user/ada")
        await processes.when_started("/user/ada")
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


@pytest.mark.parametrize("runs", [True, False])
def test_what_a_slot_is_meant_to_be_counts_for_its_parents_restart_though_the_disk_takes_it_late(
    tmp_path: Path, runs: bool
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        processes, live, slots = twin.kernel.processes, twin.kernel.live, twin.kernel.state.slots
        await twin.spawn("ada")
        await twin.spawn("bob", parent="/user/ada")
        if runs:
            processes.stop("/user/ada/bob")
            await until(lambda: live.at("/user/ada/bob") is None)
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("ada"))
        await until(lambda: twin.ledger.read_only is not None)
        (processes.start if runs else processes.stop)("/user/ada/bob")
        processes.kill("/user/ada", "kill")
        await processes.when_started("/user/ada")
        disk.full = False
        meant = "running" if runs else "stopped"
        await until(lambda: slots["/user/ada/bob"].state == meant and not twin.kernel.recorder.waiting)
        await processes.effects.settled()
        assert (live.at("/user/ada/bob") is not None) == runs
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_a_message_that_cannot_be_a_dead_letter_holds_up_no_other_mailbox(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        messaging, mail, failed = twin.kernel.messaging, twin.kernel.state.mail, []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        for name, count in (("carl", DEAD_LETTERS_AT_ONCE), ("ada", 1), ("bob", 1)):
            pid = await twin.spawn(name)
            for _ in range(count):
                await twin.send(name)
            twin.kernel.live.remove(pid)
        settle = messaging._settle

        def fails(ident: str) -> Sequence[Draft]:
            if ident in mail.get("/user/ada", {}):
                raise RuntimeError("a fault")
            return settle(ident)

        messaging._settle = fails
        for name in ("carl", "ada", "bob"):
            messaging.dead_letter_all(f"/user/{name}", "the test said so")
        await until(lambda: "/user/bob" not in mail)
        assert len(failed) == 1 and list(mail) == ["/user/ada"]

    on_twin(tmp_path, body)


def test_a_child_of_user_that_fails_too_often_is_parked_and_started_by_hand(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss", intensity=(1, 60.0))
        await twin.spawn("kid", parent="/user/boss")
        mail = await twin.send("kid")
        for _ in range(2):
            process = twin.kernel.live.at("/user/boss/kid")
            assert process is not None
            await asyncio.sleep(0)
            twin.kernel.processes.exit(process.pid, "crash", "on purpose")
        slot = twin.kernel.state.slots["/user/boss/kid"]
        assert slot.state == "parked"
        assert slot.last_exit.text == f"PID {slot.pid}: crash: on purpose"
        assert (await twin.end_of(mail))["status"] == "dead"
        with pytest.raises(Refused, match="parked"):
            await twin.send("kid")
        twin.kernel.processes.start("/user/boss/kid")
        assert slot.state == "running"
        assert twin.kernel.live.at("/user/boss") is not None

    on_twin(tmp_path, body)


def test_a_supervisor_that_exceeds_gives_up_and_comes_back_with_its_children(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        supervisor = await twin.spawn("team", type="supervisor", intensity=(0, 60.0), tools=())
        first = await twin.spawn("ada", parent="/user/team")
        other = await twin.spawn("bob", parent="/user/team")
        twin.kernel.processes.exit(first, "crash")
        await asyncio.sleep(0)
        for address, old in (
            ("/user/team", supervisor),
            ("/user/team/ada", first),
            ("/user/team/bob", other),
        ):
            process = twin.kernel.live.at(address)
            assert process is not None
            assert process.pid > old

    on_twin(tmp_path, body)


def test_one_cells_death_counts_once_for_its_supervisor(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        supervisor = await twin.spawn("team", type="supervisor", intensity=(1, 60.0), tools=())
        pids = [await twin.spawn(f"a{number}", parent="/user/team") for number in range(5)]
        twin.say(CellLost("c1", pids[2], pids, "killed"))
        await asyncio.sleep(0)
        reasons = {r.body["pid"]: r.body["reason"] for r in await twin.entries("process.exited")}
        assert reasons == {pid: "crash" if pid == pids[2] else "cell_lost" for pid in pids}
        team = twin.kernel.live.at("/user/team")
        assert team is not None
        assert team.pid == supervisor

    on_twin(tmp_path, body)


def test_who_holds_its_cell_exits_timeout_and_counts_and_its_neighbours_lose_their_cell(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        pids = [await twin.spawn(f"a{number}") for number in range(3)]
        twin.say(CellLost("c1", pids[1], pids, "it did not answer", True, TIMEOUT, ("/user/a1", pids[1])))
        await asyncio.sleep(0)
        exits = {r.body["pid"]: r.body["reason"] for r in await twin.entries("process.exited")}
        assert exits == {pids[0]: "cell_lost", pids[1]: "timeout", pids[2]: "cell_lost"}
        [felled] = await twin.entries("process.felled")
        assert felled.body == {
            "address": "/user/a1", "pid": pids[1], "cell": "c1", "reason": "timeout", "times": 1, "isolated": False,
        }  # fmt: skip

    on_twin(tmp_path, body)


def test_who_takes_its_cells_down_while_the_disk_refuses_has_one_to_itself_at_once(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.ledger.barrier()
        disk.full = True
        twin.kernel.recorder.commit([Draft("node.clock", {"ahead_us": 0})])
        await until(lambda: twin.ledger.read_only is not None)
        for number in (1, 2):
            pid = twin.cells.placed[-1].pid
            twin.say(CellLost(f"c{number}", pid, [pid], "end of file", felled_by=("/user/ada", pid)))
            await until(lambda: len(twin.cells.placed) == number + 1)  # noqa: B023
        assert [placement.isolation for placement in twin.cells.placed] == ["shared", "shared", "isolated"]
        disk.full = False
        await until(lambda: not twin.kernel.recorder.waiting)
        assert [one.body["times"] for one in await twin.entries("process.felled")] == [1, 2]

    on_twin(tmp_path, body, disk=disk)


def test_who_takes_its_cell_down_twice_has_one_to_itself_also_after_a_boot(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada")
        other = await twin.spawn("bob")
        for number in (1, 2):
            assert [placement.isolation for placement in twin.cells.placed] == ["shared"] * (number + 1)
            twin.say(CellLost(f"c{number}", pid, [pid], "end of file", felled_by=("/user/ada", pid)))
            pid = await up(twin, "/user/ada")
        assert (twin.cells.placed[-1].address, twin.cells.placed[-1].isolation) == ("/user/ada", "isolated")
        row = twin.kernel.processes.listing.row(twin.kernel.state.slots["/user/ada"])
        assert (row["isolation"], row["felled"]) == ("dedicated", 2)
        assert twin.kernel.live.get(other) is not None

    async def after(twin: Twin) -> None:
        isolation = {placement.address: placement.isolation for placement in twin.cells.placed}
        assert isolation == {"/user/ada": "isolated", "/user/bob": "shared"}

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_who_was_dead_to_the_node_before_is_on_record_and_its_neighbours_are_not_charged(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada")
        await twin.send("ada", "hi")
        at = await twin.delivery()
        gone = await twin.spawn("bob")
        twin.kernel.processes.kill("/user/bob", "kill")
        twin.say(CellLost("c1", 0, [pid], "pid 2 still ran", felled_by=("/user/bob", gone)))
        await asyncio.sleep(0)
        [felled] = await twin.entries("process.felled")
        assert (felled.body["address"], felled.body["pid"]) == ("/user/bob", gone)
        assert twin.kernel.state.turns[at.turn].losses == 0
        twin.say(CellLost("c1", 0, [], "pid 2 still ran", felled_by=("/user/nobody", gone)))  # removed since

    on_twin(tmp_path, body)


def test_who_is_spawned_under_the_name_of_one_that_is_no_more_is_not_blamed_for_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        gone = await twin.spawn("bob")
        twin.kernel.processes.stop("/user/bob")
        await twin.kernel.processes.remove("/user/bob", False)
        await twin.spawn("bob")
        twin.say(CellLost("c1", 0, [], "pid 2 still ran", felled_by=("/user/bob", gone)))
        await asyncio.sleep(0)
        assert await twin.entries("process.felled") == []

    on_twin(tmp_path, body)


def test_the_loss_of_the_engine_ends_no_supervisor_however_many_cells_went_with_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        supervisor = await twin.spawn("team", type="supervisor", restart="transient", tools=())
        pids = [await twin.spawn(f"a{number}", parent="/user/team") for number in range(7)]
        for number, pid in enumerate(pids):
            twin.say(CellLost(f"c{number}", 0, [pid], "engine lost: killed", died=False))
        for number, pid in enumerate(pids):
            assert await up(twin, f"/user/team/a{number}") > pid
        team = twin.kernel.live.at("/user/team")
        assert team is not None
        assert team.pid == supervisor

    on_twin(tmp_path, body)


def test_what_goes_when_the_disk_takes_it_is_started_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlotWriter, "going", lambda self, going: None)  # it has more to forget
    tree = Tree()
    ada = tree.spawn("ada")
    tree.processes.stop(ada)
    monkeypatch.setattr(Recorder, "waiting", 1)
    with pytest.raises(LedgerUnavailable, match="/user/ada goes as soon as the disk takes that"):
        tree.remove(ada)
        tree.remove_more()
    with pytest.raises(SupervisionError, match="there is no child 'ada'"):
        tree.processes.start(ada)
    assert ada in tree.state.slots and ada not in tree.running()


def test_that_a_slot_runs_again_is_said_by_the_start_and_by_no_entry_of_its_own(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        twin.crash(await twin.delivery())
        await twin.delivery()
        slot = twin.kernel.state.slots["/user/ada"]
        assert slot.state == "running"
        assert [record.body["state"] for record in await twin.entries("process.slot")] == ["restarting"]
        older = {
            "address": "/user/ada",
            "state": "running",
            "why": "started",
        }  # as earlier versions wrote it too
        twin.kernel.state.apply_entry("process.slot", older, 99, 0, b"")
        assert slot.state == "running"

    on_twin(tmp_path, body)


def test_what_finds_no_cell_when_it_comes_back_waits_and_is_never_parked_for_it() -> None:
    tree = Tree()
    ada = tree.spawn("ada")
    tree.crash(ada)
    for _ in range(20):
        tree.clock.wind(60.0)
        tree.processes.refused(tree.placed.pop().pid, "there are 200 cells, the limit")
    slot = tree.state.slots[ada]
    assert (slot.state, slot.last_exit.text.split(": ", 1)[1]) == (
        "restarting",
        "cell_lost: there are 200 cells, the limit",
    )
    tree.clock.wind(60.0)
    tree.up()
    assert (slot.state, ada in tree.running()) == ("running", True)


def test_who_asks_for_a_start_for_which_there_is_no_cell_is_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        processes, cells = twin.kernel.processes, twin.kernel.cells
        await twin.spawn("bob")
        processes.stop("/user/bob")
        loop = asyncio.get_running_loop()

        def place(placement: Placement) -> None:
            loop.call_soon(twin.say, CellRefused(placement.pid, "there are 200 cells, the limit"))

        cells.place = place  # type: ignore[method-assign]
        with pytest.raises(Refused, match="/user/ada did not start: there are 200 cells"):
            await asyncio.wait_for(twin.spawn("ada"), HANG_S)
        assert "/user/ada" not in twin.kernel.state.slots
        started = processes.when_started("/user/bob")
        processes.start("/user/bob")
        with pytest.raises(Refused, match="/user/bob did not start: there are 200 cells"):
            await asyncio.wait_for(started, HANG_S)
        assert twin.kernel.state.slots["/user/bob"].state == "stopped"

    on_twin(tmp_path, body)


def test_a_lost_cell_is_heard_of_a_few_at_a_time_and_nothing_comes_back_before_all_of_it_was() -> None:
    tree = Tree()
    lost = [tree.spawn(f"p{number}") for number in range(120)]
    pids = [tree.pid(address) for address in lost]
    tree.clock.wind(0.0)
    tree.processes.effects.at_once, begun = 10, len(tree.journal.drafts)
    tree.processes.cell_lost("c1", pids[7], pids, "killed")
    recorded = tree.journal.drafts[begun:]
    ended = [draft.pid for draft in recorded if draft.kind == "process.exited"]
    assert ended == [pids[7], *pids[:7], *pids[8:]], "who has taken it down comes first"
    assert not any(tree.live.get(pid) for pid in pids)
    assert (len(tree.ended), tree.placed) == (10, [])
    while len(tree.ended) < 120:
        assert tree.placed == []
        heard = len(tree.ended)
        tree.clock.fire()
        assert len(tree.ended) <= heard + 10
    others = [(at, pid, CELL_LOST) for at, pid in zip(lost, pids, strict=True) if pid != pids[7]]
    wanted = [(lost[7], pids[7], CRASH), *others]
    assert tree.ended == wanted
    details = {draft.pid: draft.body["detail"] for draft in recorded if draft.kind == "process.exited"}
    assert details == {
        pid: "killed" if pid == pids[7] else f"killed; /user/p7 (PID {pids[7]}) was running" for pid in pids
    }
    tree.finish()
    tree.up()
    assert all(tree.pid(address) > pids[-1] for address in lost)


def test_one_cell_is_one_restart_of_its_supervisor_and_who_is_not_known_is_not_named() -> None:
    tree = Tree()
    team = tree.spawn("team", type="supervisor", intensity=(5, 60.0))
    for counted in range(1, 6):
        lost = [tree.spawn(f"p{counted}-{number}", team) for number in range(40)]
        begun = len(tree.journal.drafts)
        tree.processes.cell_lost(f"c{counted}", 0, [tree.pid(address) for address in lost], "killed")
        tree.finish()
        ends = [draft.body for draft in tree.journal.drafts[begun:] if draft.kind == "process.exited"]
        assert {end["detail"] for end in ends} == {"killed; no culprit is known"} and len(ends) == 40
        assert tree.processes.supervisors[team].counted(tree.clock.now_s()) == counted
    tree.clock.wind(61.0)
    assert tree.processes.supervisors[team].counted(tree.clock.now_s()) == 0


def test_a_tree_whose_lost_cell_is_still_heard_of_can_be_stopped_removed_and_killed() -> None:
    tree = Tree()
    boss = tree.spawn("boss")
    kids = [tree.spawn(f"kid{number}", boss) for number in range(5)]
    other = tree.spawn("other")
    tree.processes.effects.at_once = 1
    tree.cell_lost([*kids, other])
    with pytest.raises(NotFound):
        tree.processes.kill(other, "kill")
    tree.processes.stop(other)
    tree.processes.kill(boss, "kill")
    tree.finish()
    tree.processes.stop(boss)
    tree.clock.wind(100.0)
    tree.finish()
    tree.up()
    tree.finish()
    assert sorted(end[0] for end in tree.ended if end[2] == CELL_LOST) == sorted([*kids, other])
    assert tree.running() == ["/", "/user"]


def test_children_stop_with_their_agent_and_return_with_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        twin.kernel.processes.stop("/user/boss")
        assert twin.kernel.live.at("/user/boss") is None
        assert twin.kernel.live.at("/user/boss/kid") is None
        with pytest.raises(Refused, match="/user/boss is stopped"):
            await twin.spawn("other", parent="/user/boss")
        twin.kernel.processes.start("/user/boss")
        await twin.kernel.processes.when_started("/user/boss/kid")

    on_twin(tmp_path, body)


def test_the_tree_is_the_same_after_a_reboot_with_new_pids(tmp_path: Path) -> None:
    before_pids: dict[str, int] = {}

    async def before(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor", tools=())
        before_pids["/user/team/ada"] = await twin.spawn("ada", parent="/user/team")
        await twin.spawn("gone", restart="temporary")
        await twin.spawn("off")
        twin.kernel.processes.stop("/user/off")
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        pid = await twin.kernel.processes.when_started("/user/team/ada")
        assert pid > before_pids["/user/team/ada"]
        assert twin.kernel.state.slots["/user/off"].state == "stopped"
        assert twin.kernel.live.at("/user/off") is None
        assert "/user/gone" not in twin.kernel.state.slots

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_spawn_whose_start_fails_says_so_and_leaves_no_slot(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        twin.cells.refuse = lambda placement: "ModuleNotFoundError: no module named nowhere"
        with pytest.raises(Refused, match="no module named nowhere"):
            await twin.spawn("ada")
        assert "/user/ada" not in twin.kernel.state.slots
        twin.cells.refuse = lambda placement: ""
        await twin.spawn("ada")

    on_twin(tmp_path, body)


def test_a_start_that_hangs_exits_with_timeout(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        twin.cells.refuse = lambda placement: "timeout: not constructed within 10 s"
        with pytest.raises(Refused, match="10 s"):
            await twin.spawn("ada")
        assert [r.body["reason"] for r in await twin.entries("process.exited")] == ["timeout"]

    on_twin(tmp_path, body)


def test_a_behaviour_that_is_configured_no_more_fails_by_name(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        with pytest.raises(Refused, match="behaviour 'other' is not configured"):
            await twin.spawn("ada", behaviour="other")

    on_twin(tmp_path, body)


def test_what_a_spawn_may_not_be(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for error, words, fields in (
            (Conflict, "exists and is running", {"name": "ada"}),
            (Invalid, "all digits", {"name": "42"}),
            (Invalid, "not allowed", {"name": "../x"}),
            (NotFound, "no process at /user/nobody", {"name": "x", "parent": "/user/nobody"}),
            (Refused, "under /user", {"name": "x", "parent": "/"}),
            (Invalid, "restart 'always'", {"name": "x", "restart": "always"}),
            (Invalid, "intensity", {"name": "x", "intensity": (1, 0.0)}),
        ):
            with pytest.raises(error, match=words):
                await twin.spawn(**fields)
        await twin.spawn("bob")
        with pytest.raises(Busy, match="3 slots"):
            await twin.spawn("carl")

    on_twin(tmp_path, body, bounds=Bounds(processes=3))


def test_stop_lets_the_open_turn_end_and_kill_does_not(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        twin.kernel.processes.kill("/user/ada", "term")
        assert twin.kernel.live.get(pid) is not None
        twin.finish(at, "finished properly")
        assert (await twin.end_of(mail))["reply"] == "finished properly"
        assert twin.kernel.live.get(pid) is None
        await twin.send("ada")
        at = await twin.delivery()
        twin.kernel.processes.kill("/user/ada", "kill")
        again = await twin.delivery()
        assert again.turn == at.turn
        reasons = [r.body["reason"] for r in await twin.entries("process.exited")]
        assert reasons == ["shutdown", "killed"]

    on_twin(tmp_path, body)


async def up(twin: Twin, address: str) -> int:
    return await asyncio.wait_for(twin.kernel.processes.when_started(address), HANG_S)


def test_a_spawn_below_a_supervisor_in_back_off_is_refused_and_nothing_runs_twice(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        processes = twin.kernel.processes
        await twin.spawn("team", type="supervisor", tools=())
        await twin.spawn("ada", parent="/user/team")
        for _ in range(2):  # the second restart waits
            processes.kill("/user/team", "kill")
        assert twin.kernel.live.at("/user/team") is None
        with pytest.raises(Busy, match="/user/team is being restarted; try again"):
            await twin.spawn("bob", parent="/user/team")
        with pytest.raises(Busy, match="/user/team is being restarted; try again"):
            processes.start("/user/team/ada")
        await up(twin, "/user/team/ada")
        await twin.spawn("bob", parent="/user/team")
        live = [process.address for process in twin.kernel.live.all()]
        assert sorted(live) == ["/", "/user", "/user/team", "/user/team/ada", "/user/team/bob"]

    on_twin(tmp_path, body)


def test_one_address_takes_one_process_and_no_second() -> None:
    live, spec = LiveTable(), ProcessSpec("ada")
    live.add(LiveProcess(7, "/user/ada", spec, 0.0))
    for pid, address in ((8, "/user/ada"), (7, "/user/bob")):
        with pytest.raises(StateError, match="where PID 7 runs: a fault in weftos"):
            live.add(LiveProcess(pid, address, spec, 0.0))
    assert [process.pid for process in live.all()] == [7]


def test_a_stop_reaches_the_grandchild_in_the_middle_of_its_turn_and_it_begins_no_other(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        last = await twin.spawn("grandkid", parent="/user/boss/kid")
        first, second = await twin.send("grandkid", "one"), await twin.send("grandkid", "two")
        at = await twin.delivery()
        twin.kernel.processes.stop("/user/boss")
        assert (twin.kernel.state.slots["/user/boss"].state, at.pid) == ("stopped", last)
        twin.finish(at)
        assert (await twin.end_of(first))["status"] == "ok"
        assert (await twin.end_of(second))["reply"] == "/user/boss is stopped"
        exits = [r.body["address"] for r in await twin.entries("process.exited")]
        assert exits == ["/user/boss/kid/grandkid", "/user/boss/kid", "/user/boss"]
        assert [process.address for process in twin.kernel.live.all()] == ["/", "/user"]
        twin.kernel.processes.start("/user/boss")
        assert await up(twin, "/user/boss/kid/grandkid") > last

    on_twin(tmp_path, body)


def test_a_kill_reaches_the_grandchild_and_all_come_back(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        last = await twin.spawn("grandkid", parent="/user/boss/kid")
        await twin.send("grandkid")
        at = await twin.delivery()
        twin.kernel.processes.kill("/user/boss", "kill")
        again = await twin.delivery()
        assert (again.turn, again.pid > last) == (at.turn, True)
        exits = [(r.body["address"], r.body["reason"]) for r in await twin.entries("process.exited")]
        assert exits == [
            ("/user/boss/kid/grandkid", "killed"),
            ("/user/boss/kid", "killed"),
            ("/user/boss", "killed"),
        ]

    on_twin(tmp_path, body)


def test_a_first_child_that_is_temporary_runs_like_any_other(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        pid = await twin.spawn("kid", parent="/user/boss", restart="temporary")
        assert twin.kernel.live.get(pid) is not None

    on_twin(tmp_path, body)


def test_a_first_child_whose_start_fails_leaves_no_slot_like_any_other(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        twin.cells.refuse = lambda placement: "no module named nowhere" if placement.name == "kid" else ""
        with pytest.raises(Refused, match="no module named nowhere"):
            await twin.spawn("kid", parent="/user/boss")
        assert "/user/boss/kid" not in twin.kernel.state.slots

    on_twin(tmp_path, body)


@pytest.mark.parametrize("restart", ["permanent", "transient"])
def test_a_child_that_spawn_agent_said_was_spawned_outlives_the_loss_of_its_cell(
    tmp_path: Path, restart: str
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("other", parent="/user/boss")
        await twin.send("boss")
        at = await twin.delivery()
        placed: list[Placement] = []
        place = twin.kernel.cells.place
        twin.kernel.cells.place = placed.append  # type: ignore[method-assign, assignment]  # it stays on its way
        said = await twin.call_tool(at, "spawn_agent", {"name": "kid", "restart": restart})
        assert said["text"] == "spawned /user/boss/kid"
        twin.kernel.cells.place = place  # type: ignore[method-assign]
        twin.say(CellLost("c1", 0, [placed[0].pid], "its machine is gone"))
        assert await up(twin, "/user/boss/kid") > placed[0].pid

    on_twin(tmp_path, body)


def test_who_waits_for_a_start_waits_on_when_the_cell_is_lost_and_is_told_when_it_does_not_come(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        twin.kernel.cells.place = lambda placement: None  # type: ignore[method-assign]
        spawning = asyncio.create_task(twin.spawn("ada"))
        await asyncio.sleep(0)
        first = twin.kernel.live.at("/user/ada")
        assert first is not None
        twin.say(CellLost("c1", 0, [first.pid], "its machine is gone"))
        second = twin.kernel.live.at("/user/ada")
        assert second is not None and second.pid > first.pid
        twin.kernel.processes.started(second.pid, "c1")
        assert await asyncio.wait_for(spawning, HANG_S) == second.pid
        lost = asyncio.create_task(twin.spawn("bob"))
        await asyncio.sleep(0)
        twin.kernel.processes.stop("/user/bob")
        with pytest.raises(Refused, match="/user/bob did not start"):
            await asyncio.wait_for(lost, HANG_S)

    on_twin(tmp_path, body)


def test_what_runs_and_is_no_process_any_more_is_stopped_where_it_is() -> None:
    tree = Tree()
    address = tree.spawn_only("ada", restart="temporary")
    pid = tree.pid(address)
    tree.processes.kill(address, "kill")
    assert tree.told == [pid]
    tree.up()  # its cell says that it runs all the same
    assert tree.told == [pid, pid]
    assert address not in tree.running()


def test_nothing_starts_and_no_timer_fires_once_the_tree_is_closed() -> None:
    async def body() -> None:
        tree = Tree()
        ada, bob = tree.spawn("ada"), tree.spawn("bob")
        tree.open_turn(bob)
        tree.processes.stop(bob)  # a timer that would kill it
        for _ in range(2):  # and one that would start it
            tree.up()
            tree.crash(ada)
        waits = tree.processes.when_started(ada)
        carl = tree.spawn("carl")
        tree.clock.wind(0.0)
        assert tree.clock.waiting == 2
        entries = len(tree.journal.drafts)
        await tree.processes.close()
        assert waits.cancelled()
        assert tree.clock.waiting == 0
        tree.clock.wind(100.0)
        assert (tree.live.at(ada), len(tree.journal.drafts)) == (None, entries)
        tree.crash(carl)
        assert (tree.live.at(carl), tree.placed, tree.clock.waiting) == (None, [], 0)
        tree.processes.cell_lost("c1", 0, [tree.pid(bob)], "the node stops")
        assert tree.clock.waiting == 0
        with pytest.raises(Unavailable, match="stopping"):
            tree.spawn("dora")

    asyncio.run(body())


def test_a_slot_is_removed_when_it_is_down_and_its_name_is_free(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        processes, state = twin.kernel.processes, twin.kernel.state
        await twin.spawn("ada")
        await twin.send("ada")
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "a secret"}])
        with pytest.raises(Refused, match="/user/ada is running; weftos stop /user/ada stops it"):
            await processes.remove("/user/ada", True)
        processes.stop("/user/ada")
        assert await processes.remove("/user/ada", False) == 1
        assert (state.slots.named("ada"), state.slots.children("/user"), state.slots.below("/user")) == (
            [],
            [],
            0,
        )
        assert (state.slots.beginning("a"), dict(state.sessions)) == ([], {})
        with pytest.raises(NotFound):
            await twin.send("ada")
        await twin.spawn("ada")
        await twin.send("ada")
        assert (await twin.delivery()).history == []

    async def after(twin: Twin) -> None:
        assert sorted(twin.kernel.state.slots) == ["/user", "/user/ada"]
        assert twin.kernel.state.slots.named("ada") == ["/user/ada"]

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_a_removal_takes_what_is_below_only_when_told_to_and_when_all_has_ended(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        processes, state = twin.kernel.processes, twin.kernel.state
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        for number in range(REMOVED_AT_ONCE + 5):
            await twin.spawn(f"k{number}", parent="/user/boss/kid")
        await twin.send("k0")
        at = await twin.delivery()
        processes.stop("/user/boss")
        with pytest.raises(Busy, match="/user/boss/kid/k0 has not ended yet"):
            await processes.remove("/user/boss", True)
        twin.finish(at)
        with pytest.raises(Refused, match="26 are below /user/boss; weftos rm -r"):
            await processes.remove("/user/boss", False)
        removing = asyncio.create_task(processes.remove("/user/boss", True))
        await asyncio.sleep(0)
        assert "/user/boss" in state.slots
        with pytest.raises(Busy, match="/user/boss is being removed"):
            processes.start("/user/boss")
        assert await removing == REMOVED_AT_ONCE + 7
        assert (sorted(state.slots), state.slots.below("/user")) == (["/user"], 0)
        gone = [r.body["address"] for r in await twin.entries("process.slot") if r.body["state"] == "removed"]
        assert (gone[-2:], len(gone)) == (["/user/boss/kid", "/user/boss"], REMOVED_AT_ONCE + 7)

    on_twin(tmp_path, body)


def test_while_something_is_removed_nothing_above_it_starts_and_nothing_else_takes_it_away() -> None:
    async def body() -> None:
        tree = Tree()
        tree.processes.removed_at_once = REMOVED_AT_ONCE
        for name, parent in (("top", "/user"), ("a", "/user/top"), ("b", "/user/top/a")):
            tree.spawn(name, parent)
        for number in range(2 * REMOVED_AT_ONCE):
            tree.spawn(f"k{number}", "/user/top/a/b")
        tree.processes.stop("/user/top")
        removing = asyncio.create_task(tree.processes.remove("/user/top/a", True))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="/user/top/a is being removed"):
            tree.processes.start("/user/top")
        for address in ("/user/top", "/user/top/a/b"):
            with pytest.raises(Busy, match="/user/top/a is being removed"):
                await tree.processes.remove(address, True)
        assert await removing == 2 * REMOVED_AT_ONCE + 2
        tree.processes.start("/user/top")
        tree.up()
        assert tree.running() == ["/", "/user", "/user/top"]
        assert sorted(tree.state.slots) == ["/user", "/user/top"]

    asyncio.run(body())


def test_a_name_is_free_again_when_its_removal_is_over() -> None:
    tree = Tree()
    ada = tree.spawn("ada")
    tree.processes.stop(ada)
    tree.remove(ada)  # the slot is gone, and its supervisor does not know yet
    assert ada not in tree.state.slots and tree.removing
    with pytest.raises(Busy, match="/user/ada is being removed"):
        tree.spawn("ada")
    tree.remove_more()
    assert not tree.removing
    tree.spawn("ada")
    assert ada in tree.running()


def test_a_slot_whose_start_waits_for_its_round_is_not_removed() -> None:
    async def body() -> None:
        tree = Tree()
        tree.spawn("busy")
        ada = tree.spawn("ada")
        tree.processes.stop(ada)
        tree.processes.effects.at_once = 1
        tree.processes.kill("/user/busy", "kill")
        tree.processes.start(ada)
        assert (tree.processes.effects.unfinished, tree.state.slots[ada].state) == (True, "stopped")
        with pytest.raises(Busy, match="/user/ada has not ended yet"):
            await tree.processes.remove(ada, False)
        tree.finish()
        tree.up()
        assert ada in tree.running()

    asyncio.run(body())


def _late_start() -> tuple[Tree, str]:
    """A process that was restarted, and waits for its PID, with a child that runs."""
    tree = Tree()
    team = tree.spawn("team", type="supervisor")
    ada = tree.spawn("ada", team)
    tree.spawn("kid", ada)
    tree.use_up_pids()
    tree.crash(ada)
    assert tree.live.at(ada) is None and not tree.placed
    return tree, ada


def test_no_pid_is_given_out_before_it_is_on_the_disk_that_it_is_reserved() -> None:
    tree, ada = _late_start()
    given = 1 + BLOCK
    assert tree.processes.pids.next() is None
    tree.journal.sync()
    assert tree.pid(ada) == given + 1
    tree.up()
    assert {ada, f"{ada}/kid"} <= set(tree.running())


def test_a_start_that_waits_for_its_pid_is_given_up_when_it_is_stopped_and_can_be_begun_again() -> None:
    tree, ada = _late_start()
    waited = tree.processes
    waited.stop(ada)
    assert tree.live.at(f"{ada}/kid") is None
    with pytest.raises(NotFound, match="has no process"):
        waited.kill(ada, "kill")
    assert waited.admission.removal(ada, True) == [f"{ada}/kid", ada]
    tree.journal.sync()
    assert tree.live.at(ada) is None and not tree.placed
    waited.start(ada)
    tree.up()
    assert ada in tree.running()


def test_a_supervisor_ends_though_a_start_below_it_waits_for_its_pid() -> None:
    tree, ada = _late_start()
    tree.processes.stop("/user/team")
    assert tree.running() == ["/", "/user"]
    tree.journal.sync()
    assert tree.running() == ["/", "/user"]
    tree.remove("/user/team")
    assert ada not in tree.state.slots


def test_who_waits_for_a_start_that_waits_for_its_pid_is_told_when_that_is_given_up() -> None:
    async def body() -> None:
        tree, ada = _late_start()
        waiting = tree.processes.when_started(ada)
        tree.processes.stop(ada)
        with pytest.raises(Refused, match="/user/team/ada"):
            await waiting

    asyncio.run(body())


def test_a_start_that_was_given_up_and_begun_anew_while_it_waits_is_one_start() -> None:
    tree, ada = _late_start()
    for _ in range(2):
        tree.processes.stop(ada)
        tree.processes.start(ada)
    tree.journal.sync()
    assert [process.address for process in tree.placed if process.address == ada] == [ada]


@pytest.mark.parametrize("kind", ["worker", "supervisor"])
def test_a_start_whose_pid_comes_before_the_round_of_its_stop_is_given_up(
    kind: Literal["worker", "supervisor"],
) -> None:
    tree = Tree()
    tree.use_up_pids()
    ada = tree.spawn("ada", type=kind)
    tree.clock.wind(0.0)
    tree.processes.effects.at_once = 1
    tree.processes.stop(ada)
    assert tree.processes.effects.unfinished and tree.state.slots[ada].state == "stopped"
    tree.sync()
    tree.finish()
    tree.up()
    assert tree.running() == ["/", "/user"]
    tree.processes.start(ada)
    tree.finish()
    tree.up()
    assert ada in tree.running()


def test_pids_beyond_the_disk_are_not_given_out_while_it_refuses(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada")
        await twin.ledger.barrier()
        disk.full = True
        pids = twin.kernel.processes.pids
        while (last := pids.next()) is not None:
            pid = last
            if pid % 64 == 0:
                await asyncio.sleep(0)
        reserved = [r for r in read_records(tmp_path / "journal", Disk()) if isinstance(r, StateRecord)]
        assert pid == int(max((r.key for r in reserved if r.table == "pids"), key=int)) - 1
        disk.full = False
        assert await pids.wait() == pid + 1

    on_twin(tmp_path, body, disk=disk)


def test_a_supervisor_that_is_ended_gives_the_turns_below_it_their_time() -> None:
    tree = Tree()
    tree.spawn("team", type="supervisor")
    ada = tree.spawn("ada", "/user/team")
    tree.open_turn(ada)
    pid = tree.pid(ada)
    tree.processes.kill("/user/team", "term")
    tree.clock.wind(4.9)
    assert tree.live.get(pid) is not None
    tree.processes.kill("/user/team", "term")  # counted from the first
    tree.clock.wind(0.2)
    assert tree.ended[0] == (ada, pid, KILLED)
    tree.up()
    assert ada in tree.running()


def test_mail_of_a_process_that_is_stopped_before_it_runs_is_dead(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        kernel = twin.kernel
        pids = [await twin.spawn("boss"), await twin.spawn("kid", parent="/user/boss")]
        for pid in reversed(pids):
            kernel.processes.exit(pid, "crash")
        mails = [
            accept(kernel, Outgoing("operator", name, "hi", "main", bytes(16), -1))[0]
            for name in ("boss", "kid")
        ]
        assert [str(process.state) for process in kernel.live.all()[-2:]] == ["starting", "starting"]
        kernel.processes.stop("/user/boss")
        assert [kernel.state.dead[mail.id].why for mail in mails] == ["/user/boss is stopped"] * 2
        assert kernel.state.in_flight == 0

    on_twin(tmp_path, body)


def test_mail_of_a_process_that_was_still_ending_when_the_node_ended_is_dead_after_the_next_start(
    tmp_path: Path,
) -> None:
    mails: list[Mail] = []

    async def before(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        for name in ("boss", "kid"):
            mails.extend([await twin.send(name, "one"), await twin.send(name, "two")])
            await twin.delivery()
        twin.kernel.processes.stop("/user/boss")
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        assert {mail.id for mail in mails} == set(twin.kernel.state.dead)
        assert (twin.kernel.state.in_flight, dict(twin.kernel.state.turns)) == (0, {})

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_what_is_below_a_stopped_process_can_be_removed_by_itself(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor")
        await twin.spawn("ada", parent="/user/team")
        await twin.spawn("bob", parent="/user/team")
        twin.kernel.processes.stop("/user/team")
        assert await twin.kernel.processes.remove("/user/team/ada", False) == 1
        twin.kernel.processes.start("/user/team")
        await up(twin, "/user/team/bob")
        assert "/user/team/ada" not in twin.kernel.state.slots
        for address in ("/user", "/user/nobody"):
            with pytest.raises(NotFound):
                await twin.kernel.processes.remove(address, True)

    on_twin(tmp_path, body)


def test_a_process_that_is_lost_on_its_way_to_a_stop_takes_its_children_along() -> None:
    tree = Tree()
    boss = tree.spawn("boss")
    kid = tree.spawn("kid", boss)
    tree.crash(boss)
    tree.processes.effects.at_once = 1
    tree.processes.stop(boss)  # its slot is stopped; what tells it so waits for the next round
    assert tree.processes.effects.unfinished
    tree.cell_lost([boss])
    tree.finish()
    assert tree.live.at(kid) is None


def test_the_mail_of_a_child_that_never_ran_is_dead_when_its_parent_is_stopped(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("kid", parent="/user/boss")
        twin.kernel.cells.place = lambda placement: None  # type: ignore[method-assign]
        twin.kernel.processes.exit(twin.kernel.state.slots["/user/boss/kid"].pid, "crash")
        mail = await twin.send("kid")
        twin.kernel.processes.stop("/user/boss")
        assert (await twin.end_of(mail))["reply"] == "/user/boss is stopped"

    on_twin(tmp_path, body)


@pytest.mark.parametrize("rounds", range(6))
def test_a_child_that_is_removed_before_its_start_comes_to_its_turn_holds_nothing_up(rounds: int) -> None:
    tree = Tree()
    team = tree.spawn("team", type="supervisor")
    kid = tree.spawn_only("kid", team, begin=False, restart="temporary")
    tree.processes.effects.at_once = 1
    tree.processes.kill(team, "kill")  # what comes back has no place for a temporary child
    for _ in range(rounds):
        if tree.processes.effects.unfinished:
            tree.clock.fire()
    tree.begin()
    tree.finish()
    assert kid not in tree.state.slots
    tree.processes.stop(team)
    tree.finish()
    assert tree.live.at(team) is None


def test_the_end_of_a_large_tree_lets_the_loop_in_between() -> None:
    tree = Tree()
    tree.spawn("team", type="supervisor")
    kids = [tree.spawn(f"a{number}", "/user/team") for number in range(2 * EFFECTS_AT_ONCE)]
    tree.clock.wind(0.0)
    tree.processes.effects.at_once = EFFECTS_AT_ONCE
    tree.processes.kill("/user/team", "kill")
    assert tree.processes.effects.unfinished
    assert 0 < len(tree.ended) <= EFFECTS_AT_ONCE
    assert tree.spawn_only("meanwhile") == "/user/meanwhile"
    tree.finish()
    tree.up()
    assert [address for address, *_ in tree.ended] == [*reversed(kids), "/user/team"]
    assert len(tree.running()) == 4 + len(kids)


def test_the_end_of_a_large_tree_that_waited_for_a_turn_lets_the_loop_in_between(tmp_path: Path) -> None:
    """Each exit that is heard there causes the next, as what follows from what a cell says does."""

    async def body(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor")
        kids = [f"a{number}" for number in range(2 * EFFECTS_AT_ONCE)]
        for kid in kids:
            await twin.spawn(kid, parent="/user/team")
        await twin.send(kids[-1])
        at = await twin.delivery()
        processes, live = twin.kernel.processes, twin.kernel.live
        processes.stop("/user/team")
        await processes.effects.settled()
        before = len(live)
        assert live.get(at.pid) is not None
        twin.finish(at)
        assert processes.effects.unfinished
        assert 0 < before - len(live) <= EFFECTS_AT_ONCE + 1
        while processes.effects.unfinished:
            await asyncio.sleep(0)
        assert before - len(live) == len(kids) + 1

    on_twin(tmp_path, body)


def test_the_administration_of_slots_refuses_in_otps_words(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        with pytest.raises(SupervisionError, match="is up"):
            twin.kernel.processes.start("/user/ada")
        twin.kernel.processes.stop("/user/ada")
        twin.kernel.processes.stop("/user/ada")
        for call in (twin.kernel.processes.stop, twin.kernel.processes.start):
            with pytest.raises(NotFound):
                call("/user")
            with pytest.raises(NotFound):
                call("/user/nobody")

    on_twin(tmp_path, body)


def test_a_stop_between_the_end_of_a_supervisor_and_what_follows_is_refused_and_not_overruled() -> None:
    tree = Tree(at_once=1)
    worker = tree.spawn("worker", restart="transient")
    tree.finish()
    tree.up()
    child = tree.spawn("child", worker)
    tree.finish()
    tree.up()
    tree.finish()
    tree.crash(worker, "normal")
    while not tree.processes.supervisors[worker].ended:
        tree.clock.fire()
    tree.processes.start(worker)
    with pytest.raises(SupervisionError, match="try again later"):
        tree.processes.stop(child)
    tree.finish()
    tree.up()
    tree.finish()
    assert tree.state.slots[child].state == "running" and child in tree.running()
