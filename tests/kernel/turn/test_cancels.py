"""Cancelling at each place where the handling of a message can stand, on a real ledger with twins around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chain.errors import LedgerUnavailable
from kernel.errors import NotFound, Refused
from kernel.slices.mailboxes import BUDGET, DOWN, EXIT, Mail
from kernel.turn.cancels import MOST_AT_ONCE, Cut
from kernel.worker.workers import WorkerLost
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin, kernel_twin

WHY = "cancelled by operator:0: enough"


def on_twin(tmp_path: Path, body: Callable[[Twin], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path, **options) as twin:
            await body(twin)

    asyncio.run(run())


def cancel(twin: Twin, name: str, message: str = "") -> Cut:
    cancels = twin.kernel.cancels
    return cancels.cancel(cancels.find(f"/user/{name}", message), WHY)


async def begun(twin: Twin, name: str = "ada", text: str = "hi", **fields: Any) -> tuple[Mail, Delivery]:
    """A process that has just been handed a message."""
    await twin.spawn(name, **fields)
    return await twin.send(name, text), await twin.delivery()


async def no_end_twice(twin: Twin) -> None:
    """Each message has come to one end, and each call to one outcome."""
    ends = [
        entry.entry.subject for entry in await twin.entries("turn.ended", "message.cancelled", "message.dead")
    ]
    outcomes = [(body["turn"], body["ordinal"]) for body in await bodies(twin, "tool.outcome")]
    assert len(ends) == len(set(ends)) and len(outcomes) == len(set(outcomes))
    tally = twin.kernel.state.tally
    assert tally.accepted == tally.acknowledged + tally.dead + tally.dropped + tally.in_flight


async def bodies(twin: Twin, kind: str) -> list[dict[str, Any]]:
    return [record.body for record in await twin.entries(kind)]


def test_a_turn_ends_at_once_and_the_next_message_is_handled(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)
        second = await twin.send("ada", "next")
        assert cancel(twin, "ada").turn == at.turn
        assert twin.cells.ended == [(at.pid, at.turn, WHY)]
        assert await twin.end_of(mail) == {"status": "cancelled", "reply": WHY, "turn": at.turn}
        after = await twin.delivery()
        assert after.message.text == "next"
        twin.finish(after)
        assert (await twin.end_of(second))["status"] == "ok"
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_a_message_that_waits_is_taken_back_and_the_turn_before_it_goes_on(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)
        waits, last = await twin.send("ada", "never"), await twin.send("ada", "last")
        cut = cancel(twin, "ada", waits.id)
        assert (cut.turn, cut.others) == ("", 0)
        assert await twin.end_of(waits) == {"status": "cancelled", "reply": WHY, "turn": ""}
        assert twin.cells.ended == []
        twin.finish(at)
        assert (await twin.end_of(mail))["status"] == "ok"
        at = await twin.delivery()
        assert at.message.text == "last"
        twin.finish(at)
        assert (await twin.end_of(last))["status"] == "ok"
        assert twin.kernel.state.tally.dropped == 1
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_a_process_that_is_not_up_never_begins_what_was_for_it(tmp_path: Path) -> None:
    """Also over a boot: what was taken back does not come again."""
    kept: list[str] = []

    async def body(twin: Twin) -> None:
        twin.cells.silent = True
        starting = asyncio.create_task(twin.spawn("ada"))
        while "/user/ada" not in twin.kernel.state.slots:
            await asyncio.sleep(0)
        kept.append((await twin.send("ada")).id)
        assert cancel(twin, "ada").messages[0].id == kept[0]
        starting.cancel()

    async def after(twin: Twin) -> None:
        assert twin.kernel.state.find_mail(kept[0]) is None
        with pytest.raises(NotFound, match="has no open turn, and no message waits for it"):
            twin.kernel.cancels.find("/user/ada")
        await no_end_twice(twin)

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_the_turn_of_a_process_that_crashed_is_not_taken_up_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)
        twin.cells.silent = True
        twin.crash(at)
        assert cancel(twin, "ada").turn == at.turn
        assert (await twin.end_of(mail))["status"] == "cancelled"
        assert twin.kernel.state.turn_of("/user/ada") is None
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_the_stream_of_a_model_is_closed(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        twin.gateway.answer = lambda request: asyncio.Event().wait()
        twin.ask_model(at, [{"role": "user", "content": "hi"}])
        while not twin.gateway.asked:
            await asyncio.sleep(0)
        cancel(twin, "ada")
        assert twin.gateway.cancelled == [f"{at.turn}:0.0"]
        assert await bodies(twin, "model.answered") == []

    on_twin(tmp_path, body)


def test_a_tool_that_was_begun_is_stopped_and_its_call_in_doubt(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        while not twin.workers.calls:
            await asyncio.sleep(0)
        cancel(twin, "ada")
        assert twin.workers.stopped == [("pay", WHY)]

        def lost(call: object) -> Any:
            raise WorkerLost("its worker was stopped")

        twin.workers.answer = lost
        twin.workers.hold.set()
        async with asyncio.timeout(LIMIT_S):
            while not twin.kernel.state.doubts():
                await asyncio.sleep(0)
        assert [outcome["status"] for outcome in await bodies(twin, "tool.outcome")] == ["in_doubt"]

    on_twin(tmp_path, body)


def test_a_tool_that_was_not_begun_never_is(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        twin.workers.free.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        while not twin.workers.waiting:
            await asyncio.sleep(0)
        cancel(twin, "ada")
        twin.workers.free.set()
        async with asyncio.timeout(LIMIT_S):
            while not await bodies(twin, "tool.outcome"):
                await asyncio.sleep(0)
        [outcome] = await bodies(twin, "tool.outcome")
        assert outcome["status"] == "killed" and "nothing was done" in outcome["result"]
        assert twin.workers.calls == [] == twin.workers.stopped

    on_twin(tmp_path, body)


def test_what_waits_for_a_person_ends_and_the_doubt_stays(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)

        def lost(call: object) -> Any:
            raise WorkerLost("its worker died")

        twin.workers.answer = lost
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(LIMIT_S):
            while not twin.kernel.state.doubts():
                await asyncio.sleep(0)
        second = await twin.send("ada", "next")
        cancel(twin, "ada")
        assert (await twin.end_of(mail))["status"] == "cancelled"
        assert len(twin.kernel.state.doubts()) == 1
        twin.finish(await twin.delivery())
        assert (await twin.end_of(second))["status"] == "ok"

    on_twin(tmp_path, body)


def test_a_turn_that_diverged_ends_without_a_dead_letter_and_its_mailbox_goes_on(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)
        await twin.call_tool(at, "calculator", {"expression": "1+1"})
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "calculator", {"expression": "2+2"})
        second = await twin.send("ada", "next")
        assert twin.kernel.state.parked()
        cancel(twin, "ada")
        assert (await twin.end_of(mail))["status"] == "cancelled"
        assert not twin.kernel.state.dead
        twin.finish(await twin.delivery())
        assert (await twin.end_of(second))["status"] == "ok"
        await no_end_twice(twin)

    on_twin(tmp_path, body)


async def asked_in_a_row(twin: Twin, names: list[str]) -> list[Delivery]:
    """Each has asked the next one; the last is not asked by anybody of the test."""
    _, at = await begun(twin, names[0])
    chain = [at]
    for name in names[1:]:
        await twin.spawn(name)
        twin.ask_tool(chain[-1], "ask", {"to": name, "text": "and you?"})
        chain.append(await twin.delivery())
    return chain


def test_what_was_asked_of_others_ends_with_it_in_one_group(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        ada, bob, cyd = await asked_in_a_row(twin, ["ada", "bob", "cyd"])
        await twin.spawn("dan")
        busy = await twin.send("dan", "for others")
        at_dan = await twin.delivery()
        twin.ask_tool(cyd, "ask", {"to": "dan", "text": "and you?"})
        cut = cancel(twin, "ada")
        assert (cut.turn, cut.others) == (ada.turn, 3)
        assert {turn for _, turn, _ in twin.cells.ended} == {ada.turn, bob.turn, cyd.turn}
        ended = await twin.entries("turn.ended", "message.cancelled")
        assert len(ended) == 4
        seqs = [record.entry.seq for record in ended]
        assert seqs[-1] - seqs[0] < 10  # nothing of others lies between
        assert [body["status"] for body in await bodies(twin, "tool.outcome")] == ["lost"] * 3
        twin.finish(at_dan)
        assert (await twin.end_of(busy))["status"] == "ok"
        assert twin.cells.deliveries.empty()
        await no_end_twice(twin)

    on_twin(tmp_path, body, disk=disk)


def test_a_question_alone_can_be_cancelled_and_its_asker_is_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada, _ = await asked_in_a_row(twin, ["ada", "bob"])
        cancel(twin, "bob")
        assert await twin.result() == {"status": "error", "text": WHY, "truncated": False}
        twin.finish(ada)
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_more_than_a_unit_holds_end_in_several(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        await twin.spawn("bob")
        for round_ in range(MOST_AT_ONCE + 30):
            twin.ask_tool(at, "ask", {"to": "bob", "text": "?"}, round_)
        asked = await twin.delivery()
        assert cancel(twin, "ada").others == MOST_AT_ONCE + 30
        async with asyncio.timeout(LIMIT_S):
            while twin.kernel.state.mail.messages:
                await asyncio.sleep(0)
        assert asked.turn in {turn for _, turn, _ in twin.cells.ended}
        assert twin.cells.deliveries.empty()
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_what_has_ended_but_for_the_disk_cannot_be_cancelled(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        mail, at = await begun(twin)
        await twin.ledger.barrier()
        disk.full = True
        sending = asyncio.create_task(twin.send("ada"))
        async with asyncio.timeout(LIMIT_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        with pytest.raises(LedgerUnavailable):
            cancel(twin, "ada")
        assert twin.cells.ended == []  # nothing has ended
        twin.finish(at, "good day")
        with pytest.raises(Refused, match="has ended already"):
            cancel(twin, "ada")
        disk.full = False
        assert (await twin.end_of(mail))["reply"] == "good day"
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


async def until_full(twin: Twin, disk: FullDisk) -> asyncio.Task[Mail]:
    """Until the ledger refuses; what makes it see that fails."""
    await twin.ledger.barrier()
    disk.full = True
    sending = asyncio.create_task(twin.send("ada"))
    async with asyncio.timeout(LIMIT_S):
        while twin.ledger.read_only is None:
            await asyncio.sleep(0.01)
    return sending


def test_a_cancel_that_the_disk_refuses_takes_no_call_of_the_turn_back(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "and you?"}, 0)
        asked = await twin.delivery()
        twin.workers.free.clear()
        twin.ask_tool(at, "pay", {"amount": 5}, 1)
        async with asyncio.timeout(LIMIT_S):
            while not twin.workers.waiting:
                await asyncio.sleep(0)
        sending = await until_full(twin, disk)
        with pytest.raises(LedgerUnavailable):
            cancel(twin, "ada")
        assert {intent.call.ordinal for intent in twin.kernel.state.intents} == {"0.0", "1.0"}
        disk.full = False
        twin.workers.free.set()
        assert (await twin.result())["status"] == "ok"
        assert len(twin.workers.calls) == 1
        twin.finish(asked, "well")
        assert (await twin.result())["text"] == "well"
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_what_another_node_takes_back_while_the_disk_refuses_does_not_end_otherwise(tmp_path: Path) -> None:
    disk, faults = FullDisk(), list[Any]()

    async def body(twin: Twin) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        await twin.spawn("ada")
        mail = await twin.send("ada", sender="/user/zoe@peer", reply_to="m1.0@peer")
        at = await twin.delivery()
        sending = await until_full(twin, disk)
        twin.kernel.cancels.withdrawn("/user/zoe@peer", "m1.0@peer", WHY)
        await asyncio.sleep(0)
        twin.finish(at, "good day")
        disk.full = False
        assert (await twin.end_of(mail))["status"] == "cancelled"
        await asyncio.gather(sending, return_exceptions=True)
        twin.finish(await twin.delivery())
        await no_end_twice(twin)
        assert not twin.kernel.ends

    on_twin(tmp_path, body, disk=disk)
    assert [fault for fault in faults if "exception" in fault and "KeyError" in repr(fault)] == []


def test_what_was_to_end_next_and_is_a_dead_letter_instead_is_forgotten(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin)
        await twin.spawn("bob")
        for round_ in range(MOST_AT_ONCE + 5):
            twin.ask_tool(at, "ask", {"to": "bob", "text": "?"}, round_)
        await twin.delivery()
        cancel(twin, "ada")
        for ident in list(twin.kernel.state.mail["/user/bob"]):
            twin.kernel.messaging.dead_letter(ident, "it was removed", (), "removed")
        last = await twin.send("bob", "last")
        at = await twin.delivery()
        assert at.message.text == "last"
        twin.finish(at)
        assert (await twin.end_of(last))["status"] == "ok"
        assert not twin.kernel.ends
        await no_end_twice(twin)

    on_twin(tmp_path, body)


# -- by a process ------------------------------------------------------------------------------------------------------


async def parent_and_child(twin: Twin) -> tuple[Delivery, Delivery]:
    _, at = await begun(twin, tools=("cancel_turn", "ask", "spawn_agent"))
    await twin.spawn("bob", parent="/user/ada", tools=("ask",))
    await twin.send("bob", "dig")
    return at, await twin.delivery()


def test_a_parent_cancels_what_its_child_does(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada, bob = await parent_and_child(twin)
        done = await twin.call_tool(ada, "cancel_turn", {"process": "bob", "why": "too slow"})
        assert done["status"] == "ok" and "cancelled m" in done["text"]
        assert [turn for _, turn, _ in twin.cells.ended] == [bob.turn]
        [end] = await bodies(twin, "turn.ended")
        assert (end["status"], end["reply"]) == ("cancelled", "cancelled by /user/ada: too slow")
        refused = await twin.call_tool(ada, "cancel_turn", {"process": "bob"}, 1)
        assert refused["status"] == "error" and "no open turn" in refused["text"]
        await no_end_twice(twin)

    on_twin(tmp_path, body)


def test_a_process_cancels_neither_itself_nor_what_is_beside_or_above_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada, _ = await parent_and_child(twin)
        await begun(twin, "carl")
        own = await twin.call_tool(ada, "cancel_turn", {"process": "ada"})
        assert "coming to an end" in own["text"]
        other = await twin.call_tool(ada, "cancel_turn", {"process": "carl"}, 1)
        assert (own["status"], other["status"]) == ("error", "error")
        assert "is not below /user/ada" in other["text"]
        assert twin.cells.ended == []

    on_twin(tmp_path, body)


def test_a_process_takes_back_what_it_has_sent_itself(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        _, at = await begun(twin, tools=("cancel_turn", "send_message"))
        _, carl = await begun(twin, "carl")
        sent = await twin.call_tool(at, "send_message", {"to": "carl", "text": "hi"})
        ident = sent["text"].split()[2]
        done = await twin.call_tool(at, "cancel_turn", {"process": "carl", "message": ident}, 1)
        assert done["status"] == "ok"
        assert twin.kernel.state.find_mail(ident) is None
        twin.finish(carl)

    on_twin(tmp_path, body)


@pytest.mark.parametrize("kind", [BUDGET, DOWN, EXIT])
def test_a_process_does_not_take_back_what_the_node_has_said_in_its_name(tmp_path: Path, kind: str) -> None:
    """Else a child hides from its parent that its budget is used up."""

    async def body(twin: Twin) -> None:
        await begun(twin, tools=("cancel_turn",))
        await twin.spawn("bob", parent="/user/ada", tools=("cancel_turn",))
        await twin.send("bob", "dig")
        bob = await twin.delivery()
        said = await twin.send("ada", "nearly used up", sender="/user/ada/bob", kind=kind)
        done = await twin.call_tool(bob, "cancel_turn", {"process": "ada", "message": said.id})
        assert done["status"] == "error" and "is not below /user/ada/bob" in done["text"]
        assert twin.kernel.state.find_mail(said.id) is not None

    on_twin(tmp_path, body)
