"""Messages, turns and their ends, on a real ledger with twins for cells, workers and gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from kernel.abi import TurnResult, ValueName
from kernel.bounds import Bounds
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall, CellLost, TurnDone
from kernel.errors import Invalid, MailboxFull, NotFound, Refused
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin, kernel_twin


def on_twin(tmp_path: Path, body: Callable[[Twin], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path, **options) as twin:
            await body(twin)

    asyncio.run(run())


def test_a_message_is_handled_answered_and_recorded(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada", "hello")
        at = await twin.delivery()
        assert at.message.text == "hello"
        assert at.message.sender == "operator"
        twin.finish(at, "good day")
        assert await twin.end_of(mail) == {"status": "ok", "reply": "good day", "turn": at.turn}
        kinds = [
            record.entry.kind
            for record in await twin.entries("message.accepted", "turn.started", "turn.ended")
        ]
        assert kinds == ["message.accepted", "turn.started", "turn.ended"]
        assert twin.kernel.state.in_flight == 0

    on_twin(tmp_path, body)


def test_the_end_of_a_turn_is_told_when_it_is_on_the_disk_and_not_before(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        end = twin.kernel.watchers.wait(mail.id)
        await twin.ledger.barrier()
        disk.ready.clear()
        try:
            twin.finish(at, "good day")
            for _ in range(100):  # rounds of the loop: whoever would tell without waiting has told by then
                await asyncio.sleep(0)
            assert not end.done()
        finally:
            disk.ready.set()
        assert (await asyncio.wait_for(end, LIMIT_S))["reply"] == "good day"

    on_twin(tmp_path, body, disk=disk)


def test_the_end_of_a_turn_is_told_as_it_was_however_long_the_disk_refuses(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        await twin.ledger.barrier()
        end = twin.kernel.watchers.wait(mail.id)
        disk.full = True
        twin.finish(at, "good day")
        async with asyncio.timeout(LIMIT_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not end.done()
        disk.full = False
        assert await asyncio.wait_for(end, LIMIT_S) == {"status": "ok", "reply": "good day", "turn": at.turn}

    on_twin(tmp_path, body, disk=disk)


def test_a_turn_has_all_the_time_that_the_disk_takes_for_its_end(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        overdue = process.overdue
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("ada"))
        async with asyncio.timeout(LIMIT_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        twin.finish(at, "good day")
        assert overdue is not None and overdue.cancelled()
        end = twin.kernel.watchers.wait(mail.id)
        disk.full = False
        assert (await asyncio.wait_for(end, LIMIT_S))["reply"] == "good day"
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_one_turn_at_a_time_in_the_order_of_acceptance(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for number in range(5):
            await twin.send("ada", f"{number}")
        texts = []
        for _ in range(5):
            at = await twin.delivery()
            assert twin.cells.deliveries.empty()
            texts.append(at.message.text)
            twin.finish(at)
        assert texts == ["0", "1", "2", "3", "4"]

    on_twin(tmp_path, body)


def test_what_a_turn_remembers_is_the_next_ones_history(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "hi"}])
        await twin.send("ada")
        at = await twin.delivery()
        assert at.history == [{"role": "user", "content": "hi"}]
        await twin.send("ada", session="another")
        twin.finish(at)
        assert (await twin.delivery()).history == []

    on_twin(tmp_path, body)


def test_a_successor_gets_the_same_turn_and_its_recorded_outcomes(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        first_pid = await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        paid = await twin.call_tool(at, "pay", {"amount": 5})
        assert paid["status"] == "ok"
        twin.crash(at)
        again = await twin.delivery()
        assert again.turn == at.turn
        assert again.pid > first_pid
        assert await twin.call_tool(again, "pay", {"amount": 5}) == paid
        assert len(twin.workers.calls) == 1
        twin.finish(again)
        assert (await twin.end_of(mail))["status"] == "ok"

    on_twin(tmp_path, body)


def test_a_turn_resumes_after_a_reboot_of_the_node(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada", "pay twice")
        at = await twin.delivery()
        await twin.call_tool(at, "pay", {"amount": 5})
        twin.ask_model(at, [{"role": "user", "content": "?"}], round_=1)
        assert (await twin.result())["text"] == "hello"

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        assert at.message.text == "pay twice"
        assert (await twin.call_tool(at, "pay", {"amount": 5}))["status"] == "ok"
        twin.ask_model(at, [{"role": "user", "content": "?"}], round_=1)
        assert (await twin.result())["text"] == "hello"
        assert not twin.workers.calls
        assert not twin.gateway.asked
        twin.finish(at)

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_message_that_crashes_its_process_too_often_is_poison(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada", "the worst")
        for _ in range(3):
            twin.crash(await twin.delivery())
        end = await twin.end_of(mail)
        assert end["status"] == "dead"
        assert "poison: 3 incarnations" in end["reply"]
        await twin.send("ada", "the next")
        assert (await twin.delivery()).message.text == "the next"

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=3))


def test_losing_the_cell_does_not_count_against_the_message(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        for _ in range(4):
            at = await twin.delivery()
            twin.say(CellLost("c1", 0, [at.pid], "gone"))
        twin.finish(await twin.delivery())
        assert not twin.kernel.state.dead

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=2))


def test_a_cell_that_somebody_is_to_blame_for_counts_against_no_other_turn(tmp_path: Path) -> None:
    """Nor does one whose death nobody explains against a turn that waits for the node."""

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.spawn("bob")
        mail = await twin.send("ada", "a long job")
        ada = await twin.delivery()
        await twin.send("bob", "bad")
        bob = await twin.delivery()
        twin.say(CellLost("c1", bob.pid, [ada.pid, bob.pid], "end of file"))
        again = [await twin.delivery(), await twin.delivery()]
        ada = next(each for each in again if each.message.id == mail.id)
        twin.finish(next(each for each in again if each is not ada))
        twin.ask_tool(ada, "ask", {"to": "bob", "text": "what now"})
        await twin.delivery()
        twin.say(CellLost("c1", 0, [ada.pid], "end of file"))
        ada = await twin.delivery()
        assert (ada.message.id, twin.kernel.state.turns[ada.turn].losses) == (mail.id, 0)

    on_twin(tmp_path, body, bounds=Bounds(turn_losses=1))


def test_a_message_under_which_cells_die_too_often_is_poison_and_losses_of_the_engine_are_none(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada", "a thread that dies")
        for died in (True, False, True):
            at = await twin.delivery()
            twin.say(CellLost("c1", 0, [at.pid], "end of file", died))
        end = await twin.end_of(mail)
        assert "poison: the cells of 2 incarnations died while handling it" in end["reply"]
        await twin.send("ada", "the next")
        assert (await twin.delivery()).message.text == "the next"

    on_twin(tmp_path, body, bounds=Bounds(turn_losses=2))


def test_a_cancelled_turn_is_acknowledged_as_cancelled(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        assert twin.kernel.turns.cut_short(process, "cancelled", "enough")
        assert (await twin.end_of(mail))["status"] == "cancelled"
        assert twin.cells.ended == [(at.pid, at.turn, "enough")]
        twin.finish(at, "too late")
        assert len(await twin.entries("turn.ended")) == 1

    on_twin(tmp_path, body)


def test_a_message_is_dead_once_its_slot_is_stopped_and_lives_again_when_replayed(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        busy, waiting = await twin.send("ada", "one"), await twin.send("ada", "two")
        at = await twin.delivery()
        twin.kernel.processes.stop("/user/ada")
        twin.finish(at)
        assert (await twin.end_of(busy))["status"] == "ok"
        assert (await twin.end_of(waiting))["status"] == "dead"
        with pytest.raises(Refused, match="stopped"):
            await twin.send("ada", "three")
        twin.kernel.processes.start("/user/ada")
        replayed = await twin.kernel.router.replay(waiting.id, -1)
        at = await twin.delivery()
        assert (at.message.id, at.message.text) == (replayed.id, "two")
        with pytest.raises(
            Refused, match=f"was replayed as {replayed.id} already; --again sends it once more"
        ):
            await twin.kernel.router.replay(waiting.id, -1)
        twin.finish(at)
        tally = twin.kernel.state.tally
        assert (tally.accepted, tally.acknowledged, tally.dead) == (3, 2, 1)

    on_twin(tmp_path, body)


@pytest.mark.parametrize("kind", ["worker", "supervisor"])
def test_what_is_below_a_stopped_process_takes_no_mail_and_what_waits_there_is_dead(
    tmp_path: Path, kind: Literal["worker", "supervisor"]
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss", type=kind)
        await twin.spawn("kid", "/user/boss")
        busy, waiting = await twin.send("kid", "one"), await twin.send("kid", "two")
        at = await twin.delivery()
        twin.kernel.processes.stop("/user/boss")
        twin.finish(at)
        assert (await twin.end_of(busy))["status"] == "ok"
        assert (await twin.end_of(waiting))["reply"] == "/user/boss is stopped"
        with pytest.raises(Refused, match="/user/boss is stopped; weftos start /user/boss brings it back"):
            await twin.send("kid", "three")
        with pytest.raises(Refused, match="/user/boss is stopped; start it first"):
            twin.kernel.processes.start("/user/boss/kid")
        with pytest.raises(Refused, match="/user/boss is stopped; start it first"):
            await twin.spawn("grandchild", "/user/boss/kid")
        twin.kernel.processes.start("/user/boss")
        again = await twin.kernel.router.replay(waiting.id, -1)
        assert (await twin.delivery()).message.id == again.id

    on_twin(tmp_path, body)


def test_a_full_mailbox_refuses_and_leaves_no_dead_letter(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for _ in range(3):
            await twin.send("ada")
        with pytest.raises(MailboxFull, match=r"3 messages, limit 3"):
            await twin.send("ada")
        with pytest.raises(Invalid, match="message of 60 bytes, limit 50"):
            await twin.send("ada", "x" * 60)
        assert not twin.kernel.state.dead

    on_twin(tmp_path, body, bounds=Bounds(mailbox_messages=3, message_bytes=50))


def test_a_mailbox_is_bounded_in_bytes_of_utf8_too(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada", "é" * 20)
        await twin.send("ada", "é" * 20)
        held = twin.kernel.state.mail.box_bytes["/user/ada"]
        with pytest.raises(MailboxFull, match=rf"\({held} bytes, limit 3225\)"):
            await twin.send("ada", "é" * 20)
        await twin.send("ada", "e" * 20)

    on_twin(tmp_path, body, bounds=Bounds(mailbox_bytes=3225, message_bytes=50))


def test_a_dead_pid_is_refused_and_its_successor_named(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.crash(at)
        again = await twin.delivery()
        with pytest.raises(NotFound, match=f"{pid} is gone; its successor at /user/ada is {again.pid}"):
            await twin.send(str(pid))
        with pytest.raises(NotFound, match="no process 99999"):
            await twin.send("99999")
        with pytest.raises(NotFound, match="no process named nobody"):
            await twin.send("nobody")
        with pytest.raises(Refused, match="supervisor"):
            await twin.send("/user")

    on_twin(tmp_path, body)


def test_every_value_is_the_same_when_a_turn_resumes(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")

        async def both(at: Any) -> list[Any]:
            found = []
            for round_, op in enumerate(get_args(ValueName)):
                twin.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, op, Nothing())))
                found.append((await twin.result())["value"])
            return found

        at = await twin.delivery()
        first = await both(at)
        assert abs(first[0] - time.time()) < 60
        twin.crash(at)
        assert await both(await twin.delivery()) == first

    on_twin(tmp_path, body)


def test_rubbish_from_a_behaviour_ends_the_turn_with_an_error(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        for result in (
            TurnResult("x" * 300_000),
            TurnResult("x", ({"a": float("nan")},)),
        ):
            mail = await twin.send("ada")
            at = await twin.delivery()
            twin.say(TurnDone(at.pid, at.turn, result))
            end = await twin.end_of(mail)
            assert end["status"] == "error"
            assert "refused" in end["reply"]

    on_twin(tmp_path, body)


def test_too_many_syscalls_end_the_turn(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        for round_ in range(4):
            twin.ask_tool(at, "calculator", {"expression": "1"}, round_)
        end = await twin.end_of(mail)
        assert end["status"] == "error"
        assert "more than 3 syscalls" in end["reply"]

    on_twin(tmp_path, body, bounds=Bounds(syscalls_per_turn=3))


def test_agents_that_keep_each_other_busy_are_stopped(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        for round_ in range(3):
            assert (await twin.call_tool(at, "send_message", {"to": "ada", "text": "again"}, round_))[
                "status"
            ] == "ok"
        refused = await twin.call_tool(at, "send_message", {"to": "ada", "text": "again"}, 3)
        assert refused["status"] == "error"
        assert "more than 3 messages came of one message" in refused["text"]

    on_twin(tmp_path, body, bounds=Bounds(messages_per_trace=3))


def test_an_open_intent_of_a_message_that_dies_gets_its_outcome(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.spawn("bob")
        mail = await twin.send("ada")
        at = await twin.delivery()
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        twin.kernel.processes.stop("/user/ada")
        twin.kernel.processes.exit(at.pid, "killed")
        assert (await twin.end_of(mail))["status"] == "dead"
        assert [r.body["status"] for r in await twin.entries("tool.outcome")] == ["lost"]

    on_twin(tmp_path, body)


def test_a_new_process_of_an_old_name_does_not_inherit_its_conversation(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        pid = await twin.spawn("ada", restart="temporary")
        await twin.send("ada")
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "a secret"}])
        twin.kernel.processes.exit(pid, "crash")
        await twin.spawn("ada")
        await twin.send("ada")
        assert (await twin.delivery()).history == []

    on_twin(tmp_path, body)


def test_a_turn_that_is_ended_from_outside_has_ended_whatever_others_make_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        failed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: failed.append(context["exception"])
        )
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def wait() -> Any:
            return await never

        def cancel(stream: str) -> None:
            raise RuntimeError("the gateway has a fault")

        twin.gateway.answer = lambda request: wait()
        twin.gateway.cancel = cancel  # type: ignore[method-assign]
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        twin.ask_model(at, [{"role": "user", "content": "?"}])
        process = twin.kernel.live.at("/user/ada")
        assert process is not None and twin.kernel.turns.cut_short(process, "cancelled", "the test said so")
        assert (await twin.end_of(mail))["status"] == "cancelled"
        assert [str(error) for error in failed] == ["the gateway has a fault"]
        assert not twin.kernel.ends and not process.turn

    on_twin(tmp_path, body)
