"""A person has a process begin no turn, go on, or run anew, on a node with twins around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.cells.cell_events import CellLeft
from kernel.errors import Refused, SupervisionError
from kernel.operations.processes import Processes
from tests.kernel.control.test_control import on_control
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin


def test_a_suspended_process_ends_its_turn_and_begins_none_also_after_a_crash_and_a_boot(
    tmp_path: Path,
) -> None:
    async def before(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        first = await twin.send("ada", "one")
        at = await twin.delivery()
        assert await control(Processes.suspend, "ada") == {"address": "/user/ada", "suspended": True}
        await twin.send("ada", "two")
        twin.finish(at)
        await twin.end_of(first)
        with pytest.raises(Refused, match="is suspended already, by operator:1000"):
            await control(Processes.suspend, "ada")
        twin.kernel.processes.exit(at.pid, "crash")
        await until(lambda: (live := twin.kernel.live.at("/user/ada")) and live.pid > at.pid and live.since_s)
        row = next(row for row in await control(Processes.ps) if row["name"] == "ada")
        assert (row["state"], row["mailbox"]) == ("suspended", 1)
        assert row["waiting"] is not None
        assert (row["waiting"]["kind"], row["waiting"]["of"]) == ("person", "weftos resume /user/ada")
        assert twin.cells.deliveries.empty()

    async def after(twin: Twin, control: Doors) -> None:
        await until(lambda: (live := twin.kernel.live.at("/user/ada")) is not None and live.since_s)
        assert twin.cells.deliveries.empty()
        assert await control(Processes.resume, "ada") == {"address": "/user/ada", "suspended": False}
        assert (await twin.delivery()).message.text == "two"
        with pytest.raises(Refused, match="is not suspended by a person"):
            await control(Processes.resume, "ada")
        [entry] = await twin.entries("process.suspended")
        assert entry.body == {"address": "/user/ada", "by": "operator:1000"}
        assert len(await twin.entries("process.resumed")) == 1

    on_control(tmp_path, before)
    on_control(tmp_path, after)


def test_a_supervisor_is_not_suspended(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("team", type="supervisor", tools=())
        with pytest.raises(Refused, match="takes no turns"):
            await control(Processes.suspend, "team")

    on_control(tmp_path, body)


def test_a_restart_keeps_the_mail_and_hands_the_open_turn_out_again_and_is_charged_to_nobody(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada", shutdown_s=0)
        await twin.send("ada", "one")
        await twin.send("ada", "two")
        at = await twin.delivery()
        for _ in range(7):  # more than its supervisor allows
            answer = await control(Processes.restart, "ada")
            assert answer["pid"] > pid and answer["state"] == "running"
            pid = answer["pid"]
            assert (await twin.delivery()).turn == at.turn
        assert len(twin.kernel.state.mail["/user/ada"]) == 2
        child = twin.kernel.processes.supervisors.child("/user/ada")
        assert child is not None and child.charges == ()
        assert [entry.body["reason"] for entry in await twin.entries("process.exited")] == ["killed"] * 7

    on_control(tmp_path, body)


def test_a_node_that_dies_in_a_restart_starts_it_at_its_next_boot(tmp_path: Path) -> None:
    async def before(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await twin.send("ada", "one")
        await twin.delivery()
        twin.kernel.processes.restart("/user/ada")  # its turn goes on, and so it does not end
        assert twin.kernel.state.slots["/user/ada"].state == "restarting"

    async def after(twin: Twin, control: Doors) -> None:
        assert (await twin.delivery()).message.text == "one"

    on_control(tmp_path, before)
    on_control(tmp_path, after)


def test_only_what_is_parked_is_unparked_and_a_temporary_process_is_not_restarted(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada", on_logical="park")
        with pytest.raises(Refused, match="is running, not parked"):
            await control(Processes.unpark, "ada")
        twin.say(CellLeft(pid, "refused", ""))
        assert (await control(Processes.unpark, "ada"))["state"] == "running"
        await twin.spawn("bob", restart="temporary")
        with pytest.raises(SupervisionError, match="is temporary"):
            await control(Processes.restart, "bob")

    on_control(tmp_path, body)
