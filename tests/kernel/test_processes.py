"""The process tree on a real ledger: starts, exits, restarts, parked and stopped slots, across reboots too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kernel.bounds import Bounds
from kernel.errors import Busy, Conflict, Invalid, NotFound, Refused, SupervisionError
from tests.kernel.kernel_twin import Twin
from tests.kernel.test_turns import on_twin


async def placed(twin: Twin) -> int:
    """The PID of the next process that is placed in a cell, once it runs."""
    placement = await asyncio.wait_for(twin.cells.placements.get(), 10)
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
        assert slot.last_exit == f"PID {slot.pid}: crash: on purpose"
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
        twin.kernel.cell_lost("c1", pids[2], pids, "killed")
        await asyncio.sleep(0)
        reasons = {r.body["pid"]: r.body["reason"] for r in await twin.entries("process.exited")}
        assert reasons == {pid: "crash" if pid == pids[2] else "cell_lost" for pid in pids}
        team = twin.kernel.live.at("/user/team")
        assert team is not None
        assert team.pid == supervisor

    on_twin(tmp_path, body)


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
                await twin.spawn(**fields)  # type: ignore[arg-type]
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
