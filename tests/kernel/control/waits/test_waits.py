"""What ``ps`` and ``inspect`` say that a process waits for, on a node with twins around it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kernel.helper.helpers import HelperNotice
from kernel.operations.processes import Processes, Wait
from tests.kernel.control.test_control import on_control
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Delivery, Twin


async def wait_of(control: Doors, name: str) -> tuple[str, str]:
    rows = await control(Processes.ps)
    wait: Wait | None = next(row["waiting"] for row in rows if row["name"] == name)
    assert (await control(Processes.inspect, name))["waiting"] is not None or wait is None
    return ("", "") if wait is None else (wait["kind"], wait["of"])


async def turn_of(twin: Twin, name: str) -> Delivery:
    await twin.spawn(name)
    await twin.send(name)
    return await twin.delivery()


def test_each_wait_has_its_cause_and_in_a_turn_an_end(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        twin.gateway.answer = lambda request: asyncio.Event().wait()
        twin.workers.free.clear()
        at = await turn_of(twin, "ada")
        assert await wait_of(control, "ada") == ("", "")  # it works
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        assert await wait_of(control, "ada") == ("model", "twin/twin-1")
        slot = {"stream_id": f"{at.turn}:0.0", "waits": True}
        twin.say(HelperNotice("gateway", "slot", slot))
        assert await wait_of(control, "ada") == ("provider_slot", "twin/twin-1")
        twin.say(HelperNotice("gateway", "slot", {**slot, "stream_id": "t999:0.0"}))  # of a turn that is over
        twin.say(HelperNotice("gateway", "slot", {**slot, "waits": False}))
        assert await wait_of(control, "ada") == ("model", "twin/twin-1")

        bob = await turn_of(twin, "bob")
        twin.ask_tool(bob, "pay", {})
        await until(lambda: twin.workers.waiting)
        assert await wait_of(control, "bob") == ("worker", "pay")
        twin.workers.hold.clear()
        twin.workers.free.set()
        await until(lambda: twin.workers.calls)
        assert await wait_of(control, "bob") == ("tool", "pay")

        cleo = await turn_of(twin, "cleo")
        await twin.spawn("dan")
        twin.ask_tool(cleo, "ask", {"to": "dan", "text": "?"})
        asked = await twin.delivery()
        assert await wait_of(control, "cleo") == ("reply", "/user/dan")
        rows = await control(Processes.ps)
        waits = [row["waiting"] for row in rows if row["waiting"] is not None]
        assert len(waits) == 3
        assert all(wait["left_s"] is not None and wait["waited_s"] is not None for wait in waits)

        twin.finish(asked, "!")
        await twin.result()
        assert await wait_of(control, "cleo") == ("", "")
        assert await wait_of(control, "dan") == ("message", "")
        twin.workers.hold.set()

    on_control(tmp_path, body)


def test_a_doubt_a_parked_slot_and_a_divergence_wait_for_a_person(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        at = await turn_of(twin, "ada")
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await twin.result()
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_model(again, [{"role": "user", "content": "something else"}])
        await until(lambda: twin.kernel.state.parked())
        assert await wait_of(control, "ada") == ("person", f"weftos divergences decide {at.turn}")
        row = next(row for row in await control(Processes.ps) if row["name"] == "ada")
        assert row["waiting"] is not None and row["waiting"]["left_s"] is None

    on_control(tmp_path, body)
