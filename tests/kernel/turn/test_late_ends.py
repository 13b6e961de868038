"""A turn that has ended while the disk refuses: the end stands, whatever becomes of its process meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.model.states import KILLED
from kernel.slices.mailboxes import Mail
from tests.kernel.syscall.test_open_calls import cut, until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin

SECRET = [{"role": "user", "content": "a secret"}]


def _deadline(twin: Twin, at: Delivery) -> None:
    process = twin.kernel.live.get(at.pid)
    assert process is not None
    twin.kernel.turns._overdue(process, at.turn)


def _return(twin: Twin, at: Delivery) -> None:
    twin.finish(at, "enough", SECRET)


def _kill(twin: Twin, at: Delivery) -> None:
    twin.kernel.processes.kill("/user/ada", "kill")


def _crash(twin: Twin, at: Delivery) -> None:
    twin.crash(at)


def _stop(twin: Twin, at: Delivery) -> None:
    """What a stop comes to when the turn of the process stays open."""
    twin.kernel.processes.stop("/user/ada")
    twin.kernel.processes.exit(at.pid, KILLED, "did not stop within 5 s")


ENDS = [(_deadline, "error"), (cut, "cancelled"), (_return, "ok")]


async def refused_turn(
    twin: Twin, disk: FullDisk, **fields: Any
) -> tuple[Delivery, Mail, asyncio.Task[Mail]]:
    """The turn of a message to ada, which is delivered just before the disk refuses."""
    await twin.spawn("ada", **fields)
    mail = await twin.send("ada")
    at = await twin.delivery()
    await twin.ledger.barrier()
    disk.full = True
    refused = asyncio.create_task(twin.send("ada", "behind"))
    await until(lambda: twin.ledger.read_only is not None)
    return at, mail, refused


@pytest.mark.parametrize("what", [_kill, _crash, _stop])
@pytest.mark.parametrize(("how", "status"), ENDS)
def test_an_end_that_the_disk_takes_late_stands_whatever_becomes_of_the_process(
    tmp_path: Path,
    how: Callable[[Twin, Delivery], None],
    status: str,
    what: Callable[[Twin, Delivery], None],
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at, mail, refused = await refused_turn(twin, disk)
        end = twin.kernel.watchers.wait(mail.id)
        how(twin, at)
        what(twin, at)
        for _ in range(100):  # rounds of the loop: a successor has started by then
            await asyncio.sleep(0)
        assert not end.done()
        disk.full = False
        assert (await asyncio.wait_for(end, LIMIT_S))["status"] == status
        [ended] = await twin.entries("turn.ended")
        assert (ended.body["turn"], ended.body["status"]) == (at.turn, status)
        assert (at.turn in twin.kernel.state.turns, mail.id in twin.kernel.state.dead) == (False, False)
        if what is not _stop:
            after = await twin.delivery()
            assert after.message.text == "behind"
            assert after.history == (SECRET if how is _return else [])
        assert twin.cells.deliveries.empty()
        await asyncio.gather(refused, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk, bounds=Bounds(turn_attempts=1))


def test_the_first_end_stands(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at, mail, refused = await refused_turn(twin, disk)
        end = twin.kernel.watchers.wait(mail.id)
        _return(twin, at)
        _deadline(twin, at)
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        assert not twin.kernel.turns.cut_short(process, "cancelled", "too late")
        disk.full = False
        assert (await asyncio.wait_for(end, LIMIT_S))["reply"] == "enough"
        await asyncio.gather(refused, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_what_a_removed_process_came_to_is_not_remembered_for_the_next_of_its_name(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at, mail, refused = await refused_turn(twin, disk, restart="temporary")
        end = twin.kernel.watchers.wait(mail.id)
        _return(twin, at)
        _kill(twin, at)
        disk.full = False
        assert (await asyncio.wait_for(end, LIMIT_S))["status"] == "ok"
        await until(lambda: "/user/ada" not in twin.kernel.state.slots)
        assert not twin.kernel.state.sessions.get(("/user/ada", "main"))
        await asyncio.gather(refused, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_the_mail_of_what_was_stopped_while_the_disk_refuses_is_dead_when_it_does_not(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at, mail, refused = await refused_turn(twin, disk)
        end = twin.kernel.watchers.wait(mail.id)
        _stop(twin, at)
        disk.full = False
        assert (await asyncio.wait_for(end, LIMIT_S))["reply"] == "/user/ada is stopped"
        await asyncio.gather(refused, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_that_a_message_is_dead_is_told_when_the_disk_has_it(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        end = twin.kernel.watchers.wait(mail.id)
        await twin.ledger.barrier()
        disk.ready.clear()
        ticket = twin.kernel.messaging.dead_letter(mail.id, "the test said so")
        assert ticket is not None
        for _ in range(100):
            await asyncio.sleep(0)
        early = ticket.group, end.done()
        disk.ready.set()
        assert early == (None, False)
        assert (await asyncio.wait_for(end, LIMIT_S))["status"] == "dead"
        assert ticket.group is not None

    on_twin(tmp_path, body, disk=disk)
