"""Which entries an erasure means, what goes with them, and when it has to wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from chain.disk import Disk
from chain.entry.reader import EntryRecord, read_records
from chain.ledger.ledger import Draft
from kernel.bounds import Bounds
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall, CellCrashed
from kernel.control.erasure import ERASED_REASON, check_unused
from kernel.control.facts import Erasures
from kernel.errors import Busy, Invalid, KernelError, NotFound, Refused, Unavailable
from kernel.message.messaging import Outgoing
from kernel.operations.erasure import Erased, Erasure
from kernel.operations.memory import Memory
from kernel.operations.messages import Messages, Topics
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning, SpawnRequest
from kernel.state.documents import NewDocument, draft_document
from kernel.state.in_transit_records import decision_record
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state
from kernel.upkeep.erasure import PROTECTED, Plan, Selection, as_json, plan_erasure, ranges_of
from kernel.worker.workers import WorkerResult
from tests.kernel.control.test_control import control_of, erasures_of, on_control
from tests.kernel.syscall.test_open_calls import cut, until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.journal_entries import JournalEntries
from tests.kernel.twins.kernel_twin import MEMORY, Delivery, Twin, accept

SECRET = "the heron nests at noon"
ORIGIN = "weftos-" + "a" * 26
TOOLS = (*MEMORY, "ask", "send_message", "calculator")


async def talk(twin: Twin, name: str, text: str, session: str = "main") -> str:
    """One whole turn: a document, a message to bob, a question to a model; the message's id."""
    mail = await twin.send(f"/user/{name}", text, session=session)
    at = await twin.delivery()
    await twin.call_tool(at, "memory_write", {"text": f"noted: {text}"})
    await twin.call_tool(at, "send_message", {"to": "/user/bob", "text": f"told: {text}"}, 1)
    await answer(twin, await twin.delivery(), f"bob heard {text}")
    twin.ask_model(at, [{"role": "user", "content": text}], 2)
    await twin.result()
    await answer(twin, at, f"said {text}")
    await twin.end_of(mail) if mail.id in twin.kernel.state.mail else None
    return mail.id


async def answer(twin: Twin, at: Delivery, text: str) -> None:
    twin.finish(at, text, [{"role": "assistant", "content": text}])
    await twin.ledger.barrier()


def saying(directory: Path, text: str, without: set[int] | None = None) -> dict[int, str]:
    """Entries whose bodies hold a text."""
    return {
        record.entry.seq: record.entry.kind
        for record in read_records(directory / "journal", Disk())
        if isinstance(record, EntryRecord)
        and text.encode() in (record.body_bytes or b"")
        and record.entry.seq not in (without or set())
    }


def seqs_of(ranges: list[list[int]]) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def of_agent(twin: Twin, address: str) -> str:
    """The session that this process has with each other one."""
    return f"{address}#{twin.kernel.state.slots[address].spawned_seq}"


def test_a_session_goes_with_all_that_its_turns_said_and_caused(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        await talk(twin, "ada", SECRET)
        await talk(twin, "ada", "something else", "other")
        before = saying(twin.directory, SECRET)
        assert {"message.accepted", "tool.proposed", "memory.written", "model.asked", "turn.ended"} <= set(
            before.values()
        )
        answer = await control(Erasure.erase, "a person asked for it", target="ada", session="main")
        erased = seqs_of(answer["ranges"])
        rest = saying(twin.directory, SECRET, erased)
        assert set(rest.values()) == {"turn.ended"}  # what bob said of it, in a turn of his own
        assert set(rest) <= {seq for seq, _ in answer["left"]}
        assert len(erased) == answer["entries"]
        assert answer["sessions"] == [["/user/ada", "main"], ["/user/bob", of_agent(twin, "/user/ada")]]
        state = twin.kernel.state
        assert set(state.sessions) == {("/user/ada", "other")}
        assert len(state.documents) == 1 and answer["documents"] not in ([], None)
        assert list(state.erasing) == [str(answer["seq"])]
        assert msgpack.unpackb(state.erasing[str(answer["seq"])]) == answer["ranges"]
        [entry] = await twin.entries("erase")
        assert entry.entry.seq == answer["seq"]
        assert entry.body == {
            "ranges": answer["ranges"],
            "by": "operator:1000",
            "reason": "a person asked for it",
        }
        assert SECRET.encode() not in encode_state(state)
        assert (await control(Erasure.status))["erasing"] == [answer["seq"]]

    on_control(tmp_path, body)


def test_what_is_replayed_with_erased_bodies_missing_is_the_same_state(tmp_path: Path) -> None:
    """Nothing replays an erased entry; were it so, the state would still be readable."""

    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        await talk(twin, "ada", SECRET)
        await control(Erasure.erase, "why", target="ada", session="main")

    on_control(tmp_path, body)
    records = list(read_records(tmp_path / "journal", Disk()))
    bounds = Bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    for record in records:
        if isinstance(record, EntryRecord) and record.entry.kind.split(".")[0] in (
            "turn",
            "tool",
            "model",
            "message",
        ):
            state.apply_entry(record.entry.kind, None, record.entry.seq, 0, b"")
        else:
            replay_into(state, record)
    assert state.slots and not state.turns and not state.mail


def test_a_single_entry_leaves_the_rest_of_its_turn_and_says_so(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        ident = await talk(twin, "ada", SECRET)
        seq = int(ident[1:])
        answer = await control(Erasure.erase, "why", seqs=[seq])
        assert answer["ranges"] == [[seq, seq]]
        assert answer["sessions"] == [["/user/ada", "main"], ["/user/bob", of_agent(twin, "/user/ada")]]
        rest = saying(twin.directory, SECRET, {seq})
        turn = {at for at, kind in answer["left"]}
        assert set(rest) - turn == {
            at for at, kind in rest.items() if kind == "turn.ended" and at not in turn
        }
        assert answer["left_count"] == len(answer["left"]) > 10
        assert len(twin.kernel.state.documents) == 1  # its entry was not named

    on_control(tmp_path, body)


def test_a_document_goes_with_its_entry(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        added = await control(Memory.add, SECRET)
        answer = await control(Erasure.erase, "why", seqs=[added["seq"]])
        assert answer["documents"] == [added["id"]] and len(twin.kernel.state.documents) == 0
        [forgotten] = await twin.entries("memory.forgotten")
        assert forgotten.body == {"id": added["id"], "by": "operator:1000"}
        again = await control(Memory.add, SECRET)
        await control(Memory.forget, again["id"])
        answer = await control(Erasure.erase, "why", seqs=[again["seq"]])
        assert len(await twin.entries("memory.forgotten")) == 2  # not a third time

    on_control(tmp_path, body)


def test_a_turn_that_was_given_the_document_is_named_and_its_session_goes(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada", tools=TOOLS)
        added = await control(Memory.add, SECRET)
        await control(Memory.add, "something else")
        for session, query in (("one", "heron"), ("two", "something"), ("three", "heron")):
            await twin.send("ada", "recall", session=session)
            at = await twin.delivery()
            if session == "three":
                await twin.call_tool(at, "memory_read", {"id": added["id"]})
            else:
                await twin.call_tool(at, "memory_search", {"query": query})
            await answer(twin, at, "done")
        plan = await erasures_of(twin).plan(Selection(seqs=(added["seq"],)))
        assert plan.sessions == [("/user/ada", "one"), ("/user/ada", "three")]
        assert set(saying(twin.directory, SECRET, {added["seq"]})) <= {seq for seq, _ in plan.left}
        await control(Erasure.erase, "why", seqs=[added["seq"]])
        assert set(twin.kernel.state.sessions) == {("/user/ada", "two")}

    on_control(tmp_path, body)


def test_all_of_a_process_is_its_entries_and_its_turns_whole(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada", tools=TOOLS)
        await twin.spawn("bob")
        ident = await talk(twin, "ada", SECRET)
        answer = await control(Erasure.erase, "why", pid=pid)
        erased = seqs_of(answer["ranges"])
        assert int(ident[1:]) in erased
        kinds = {record.entry.kind for record in await twin.entries() if record.entry.seq in erased}
        assert {"process.started", "turn.started", "message.accepted", "tool.outcome"} <= kinds
        assert not kinds & set(PROTECTED)

    on_control(tmp_path, body)


def test_a_dead_letter_goes_with_its_message(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada", SECRET)
        twin.kernel.messaging.dead_letter(mail.id, "the test said so")
        before = twin.kernel.state.tally.dead
        answer = await control(Erasure.erase, "why", seqs=[mail.seq])
        state = twin.kernel.state
        assert not state.dead and (state.tally.dead, state.tally.dropped) == (before - 1, 1)
        assert answer["left"][-1][1] == "message.dead"
        assert SECRET.encode() not in encode_state(state)

    on_control(tmp_path, body)


def test_what_is_in_use_is_not_erased_and_the_answer_names_the_process(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada", tools=TOOLS)
        first = await twin.send("ada", SECRET)
        at = await twin.delivery()
        waiting = await twin.send("ada", "the next one")
        with pytest.raises(Refused, match=rf"turn t{first.seq} of /user/ada \(PID {pid}\) is open"):
            await control(Erasure.erase, "why", seqs=[first.seq])
        with pytest.raises(
            Refused, match=rf"message {waiting.id} is still in the mailbox of /user/ada \(PID {pid}\)"
        ):
            check_unused(Plan(messages=[waiting.id]), twin.kernel.state)
        with pytest.raises(Refused, match="is open"):
            await control(Erasure.erase, "why", target="ada", session="main")
        await answer(twin, at, "done")
        await answer(twin, await twin.delivery(), "done")
        assert not await twin.entries("erase")
        await control(Erasure.erase, "why", target="ada", session="main")

    on_control(tmp_path, body)


def test_an_asker_that_still_has_the_answer_is_waited_for(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        await twin.send("ada", "ask bob")
        asker = await twin.delivery()
        twin.ask_tool(asker, "ask", {"to": "/user/bob", "text": SECRET})
        asked = await twin.delivery()
        await answer(twin, asked, f"about {SECRET}")
        assert (await twin.result())["status"] == "ok"
        message = int(asked.message.id[1:])
        with pytest.raises(Refused, match=f"turn {asker.turn} of /user/ada"):
            await control(Erasure.erase, "why", seqs=[message])
        await answer(twin, asker, "thanks")
        found = await control(Erasure.erase, "why", seqs=[message])
        assert ["/user/ada", "main"] in found["sessions"]
        assert {kind for _, kind in found["left"]} >= {"tool.outcome", "tool.proposed", "turn.ended"}

    on_control(tmp_path, body)


def test_a_session_read_while_the_plan_is_made_makes_another_plan(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=TOOLS)
        mail = await twin.send("ada", SECRET)
        await answer(twin, await twin.delivery(), "done")
        plans: list[Plan] = []
        made = erasures_of(twin)
        once = True

        async def plan(selection: Selection) -> Plan:
            nonlocal once
            plans.append(await made.plan(selection))
            if once:
                once = False
                await twin.send("ada", "and again")
                await answer(twin, await twin.delivery(), SECRET)
            return plans[-1]

        control = control_of(twin, erasures=replace(made, plan=plan))
        await control(Erasure.erase, "why", target="ada", session="main")
        assert len(plans) == 2 and plans[1].entries > plans[0].entries
        assert plans[0].ranges[0][0] == mail.seq

        async def busy(selection: Selection) -> Plan:
            await twin.send("ada", "and again")
            await answer(twin, await twin.delivery(), SECRET)
            return await made.plan(selection)

        control = control_of(twin, erasures=replace(made, plan=busy))
        with pytest.raises(Busy, match="in use all the time"):
            await control(Erasure.erase, "why", target="ada", session="main")

    on_twin(tmp_path, body)


async def _says_more(twin: Twin, at: Delivery) -> None:
    twin.ask_model(at, [{"role": "user", "content": SECRET}])
    await twin.result()
    await answer(twin, at, SECRET)


async def _is_over_but_for_a_call(twin: Twin, at: Delivery) -> None:
    twin.workers.hold.clear()
    twin.workers.answer = lambda call: WorkerResult("ok", SECRET, False, "", 4)
    twin.ask_tool(at, "pay", {"amount": 5})
    await until(lambda: twin.workers.calls)
    cut(twin, at)


async def _call_ends(twin: Twin, at: Delivery) -> None:
    twin.workers.hold.set()
    await until(lambda: not len(twin.kernel.state.intents))


async def _nothing(twin: Twin, at: Delivery) -> None: ...


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(_nothing, _says_more), (_is_over_but_for_a_call, _call_ends)],
    ids=["turn", "call"],
)
def test_what_ends_while_the_plan_is_made_makes_another_plan(
    tmp_path: Path,
    before: Callable[[Twin, Delivery], Awaitable[None]],
    meanwhile: Callable[[Twin, Delivery], Awaitable[None]],
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("pay",))
        await twin.send("ada", SECRET)
        at = await twin.delivery()
        await before(twin, at)
        made, plans = erasures_of(twin), 0

        async def plan(selection: Selection) -> Plan:
            nonlocal plans
            plans += 1
            found = await made.plan(selection)
            if plans == 1:
                await meanwhile(twin, at)
            return found

        control = control_of(twin, erasures=replace(made, plan=plan))
        found = await control(Erasure.erase, "why", target="ada", session="main")
        await twin.ledger.barrier()
        assert not saying(twin.directory, SECRET, seqs_of(found["ranges"])) and plans == 2

    on_twin(tmp_path, body)


def test_what_the_disk_has_not_taken_yet_is_waited_for(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada", tools=TOOLS)
        await twin.send("ada", "go on")
        at = await twin.delivery()
        await twin.ledger.barrier()
        disk.ready.clear()
        before = asyncio.ensure_future(twin.send("ada", "on its way to the disk", session="other"))
        await until(lambda: saying(twin.directory, "on its way to the disk"))
        twin.ask_model(at, [{"role": "user", "content": SECRET}])
        await twin.result()
        twin.finish(at, SECRET)
        await until(lambda: at.turn not in twin.kernel.state.turns)
        erasing = asyncio.ensure_future(control(Erasure.erase, "why", target="ada", session="main"))
        for _ in range(100):  # rounds of the loop: whoever would plan without waiting has planned by then
            await asyncio.sleep(0)
        disk.ready.set()
        found = await erasing
        await before
        await twin.ledger.barrier()
        assert not saying(twin.directory, SECRET, seqs_of(found["ranges"]))

    on_control(tmp_path, body, disk=disk)


def test_an_erasure_on_record_is_carried_out_though_nobody_waits_for_its_answer(tmp_path: Path) -> None:
    disk, begun = SlowDisk(), list[bool]()

    async def body(twin: Twin) -> None:
        real = erasures_of(twin)

        async def plan(selection: Selection) -> Plan:
            found = await real.plan(selection)
            disk.ready.clear()
            return found

        erasures = replace(real, plan=plan, begun=lambda: begun.append(disk.ready.is_set()))
        control = control_of(twin, erasures=erasures)
        added = await control(Memory.add, SECRET)
        erasing = asyncio.ensure_future(control(Erasure.erase, "why", seqs=[added["seq"]]))
        try:
            await until(lambda: bool(twin.kernel.state.erasing))
            erasing.cancel()
            await asyncio.wait([erasing])
        finally:
            disk.ready.set()
        await twin.ledger.barrier()
        await until(lambda: bool(begun))
        assert begun == [True]  # not before it was on the disk

    on_twin(tmp_path, body, disk=disk)


def test_what_stands_in_more_places_than_one_entry_can_name_is_named_by_several_at_once(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        ranges = [(seq, seq) for seq in range(1_000_000, 1_000_000 + 2 * 120_000, 2)]

        async def plan(selection: Selection) -> Plan:
            return Plan(ranges=ranges, entries=len(ranges))

        control = control_of(twin, erasures=replace(erasures_of(twin), plan=plan))
        answer = await control(Erasure.erase, "a person asked for it", seqs=[1])
        entries = await twin.entries("erase")
        assert [entry.entry.seq for entry in entries] == [answer["seq"] + number for number in range(3)]
        assert [tuple(pair) for entry in entries for pair in entry.body["ranges"]] == ranges
        erasing = {key: msgpack.unpackb(packed) for key, packed in twin.kernel.state.erasing.items()}
        assert erasing == {str(entry.entry.seq): entry.body["ranges"] for entry in entries}
        assert answer["ranges"] == [list(pair) for pair in ranges]
        ranges += [(seq, seq) for seq in range(2_000_000, 2_000_000 + 2 * 300_000, 2)]
        with pytest.raises(
            Refused, match=r"420000 places of the ledger, at most 400000 .* session by session"
        ):
            await control(Erasure.erase, "more of it", seqs=[1])

    on_twin(tmp_path, body)


def test_some_entries_are_never_erased_and_the_refusal_names_them(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        [spawned] = [
            record
            for record in await twin.entries("process.spawned")
            if record.body["address"] == "/user/ada"
        ]
        words = f"entry {spawned.entry.seq} is process.spawned: it says who made which process"
        with pytest.raises(Refused, match=words):
            await control(Erasure.erase, "why", seqs=[spawned.entry.seq])
        mail = await twin.send("ada", "x")
        await answer(twin, await twin.delivery(), "done")
        answered = await control(Erasure.erase, "why", seqs=[mail.seq])
        with pytest.raises(Refused, match=f"entry {answered['seq']} is erase"):
            await control(Erasure.erase, "why", seqs=[answered["seq"]])

    on_control(tmp_path, body)


WRONG: list[tuple[Any, type[KernelError], str]] = [
    (([], None, "", "", "why"), Invalid, "in one way"),
    (([1], 5, "", "", "why"), Invalid, "in one way"),
    (([1], None, "ada", "", "why"), Invalid, "name both"),
    (([], None, "", "main", "why"), Invalid, "name both"),
    (([], 0, "", "", "why"), Invalid, "PID 0 is the kernel"),
    (([-1], None, "", "", "why"), Invalid, "numbered from 0"),
    (([1], None, "", "", " "), Invalid, "say why"),
    (([1], None, "", "", "x" * 501), Invalid, "say why"),
    (([10**9], None, "", "", "why"), NotFound, "there is no entry 1000000000"),
    (([], 999, "", "", "why"), NotFound, "nothing to erase"),
    (([], None, "/user/nobody", "main", "why"), NotFound, "nothing to erase"),
    (([], None, "nobody", "main", "why"), NotFound, "no process named nobody"),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), WRONG)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, arguments: Any, kind: type[KernelError], words: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        seqs, pid, target, session, reason = arguments
        with pytest.raises(kind, match=words):
            await control(Erasure.erase, reason, seqs=seqs, pid=pid, target=target, session=session)
        assert not await twin.entries("erase") and not twin.kernel.state.erasing

    on_control(tmp_path, body)


def test_a_plan_and_a_selection_survive_the_way_to_another_process(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada", tools=TOOLS)
        await twin.spawn("bob")
        await talk(twin, "ada", SECRET)

    on_control(tmp_path, body)
    selection = Selection(address="/user/ada", session="main")
    assert Selection.of(json.loads(json.dumps(as_json(selection)))) == selection
    plan = plan_erasure(JournalEntries(tmp_path), selection)
    assert plan.left and plan.sessions and plan.ranges
    assert Plan.of(json.loads(json.dumps(as_json(plan)))) == plan


def test_ranges() -> None:
    assert ranges_of([]) == []
    assert ranges_of([5, 1, 2, 3, 7, 6]) == [(1, 3), (5, 7)]


@pytest.mark.parametrize("ident", ["m1:2", "a:b", "t5", "m5.0:x", ":"])
def test_a_message_of_a_peer_is_erased_whatever_its_id(tmp_path: Path, ident: str) -> None:
    """Ledgers hold such ids: they were taken once."""

    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        sender = f"/user/eve@{ORIGIN}"
        out = Outgoing(
            sender=sender,
            target="/user/ada",
            text=SECRET,
            session=f"s@{ORIGIN}",
            trace=bytes(16),
            cause=-1,
            wants_reply=True,
            reply_to=f"{ident}@{ORIGIN}",
        )
        accept(twin.kernel, out)
        await answer(twin, await twin.delivery(), f"said {SECRET}")
        erased = await control(Erasure.erase, "why", target="ada", session=f"s@{ORIGIN}")
        rest = saying(twin.directory, SECRET, seqs_of(erased["ranges"]))
        assert not rest
        assert SECRET.encode() not in encode_state(twin.kernel.state)

    on_control(tmp_path, body)


def unsaid(twin: Twin, answer: Erased) -> dict[int, str]:
    """Entries that still say it, and are neither erased nor listed."""
    listed = {seq for seq, _ in answer["left"]}
    return {
        seq: kind
        for seq, kind in saying(twin.directory, SECRET, seqs_of(answer["ranges"])).items()
        if seq not in listed
    }


def test_what_an_exception_said_goes_with_its_turn_and_is_in_no_log(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await twin.send("ada", SECRET)
        at = await twin.delivery()
        twin.say(CellCrashed(at.pid, at.turn, f"ValueError: {SECRET}"))
        await answer(twin, await twin.delivery(), "done")
        await twin.ledger.barrier()
        assert "process.exited" in saying(twin.directory, SECRET).values()
        assert SECRET in twin.kernel.state.slots["/user/ada"].last_exit.text
        erased = await control(Erasure.erase, "why", target="ada", session="main")
        assert not saying(twin.directory, SECRET, seqs_of(erased["ranges"]))
        assert SECRET.encode() not in encode_state(twin.kernel.state)
        assert not any(SECRET in str(fields) for _, fields in twin.log)

    on_control(tmp_path, body)


async def told_whole(twin: Twin, text: str, *history: str, session: str = "main") -> str:
    """A turn that asks a model as one does after a start: the history is said anew."""
    await twin.send("ada", text, session=session)
    at = await twin.delivery()
    twin.kernel.model_calls.forget("/user/ada", session)
    twin.ask_model(at, [{"role": "user", "content": each} for each in (*history, text)])
    await twin.result()
    await answer(twin, at, f"done: {' '.join(history)}")
    return at.turn


async def starts(twin: Twin) -> dict[str, int]:
    """The entry with which each turn began."""
    return {record.entry.subject: record.entry.seq for record in await twin.entries("turn.started")}


@pytest.mark.parametrize("chosen", ["pid", "seqs"])
def test_later_turns_of_the_session_are_listed_for_their_history_said_it(tmp_path: Path, chosen: str) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada")
        early = await told_whole(twin, "before")
        if chosen == "seqs":
            await told_whole(twin, SECRET, "before")
        else:  # of another process
            await control(Processes.stop, "ada")
            pid = (await control(Processes.start, "ada"))["pid"]
            await told_whole(twin, SECRET, "before")
            await control(Processes.stop, "ada")
            await control(Processes.start, "ada")
        said = list(saying(twin.directory, SECRET))
        later = {await told_whole(twin, "after", SECRET), await told_whole(twin, "and later", SECRET)}
        other = await told_whole(twin, "elsewhere", session="other")
        if chosen == "seqs":
            erased = await control(Erasure.erase, "why", seqs=said)
        else:
            erased = await control(Erasure.erase, "why", pid=pid)
        assert not unsaid(twin, erased)
        left = {seq for seq, _ in erased["left"]}
        listed = {turn for turn, seq in (await starts(twin)).items() if seq in left}
        assert listed >= later and not listed & {early, other}

    on_control(tmp_path, body)


@pytest.mark.parametrize("first", ["message.accepted", "turn.started"])
def test_later_turns_are_listed_though_the_message_or_the_start_was_erased_before(
    tmp_path: Path, first: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        turn = await told_whole(twin, SECRET)
        await told_whole(twin, "after", SECRET)
        own = {"message.accepted": int(turn[1:]), "turn.started": (await starts(twin))[turn]}
        await control(Erasure.erase, "why", seqs=[own.pop(first)])
        erased = await control(Erasure.erase, "why", seqs=[*own.values()])
        assert not unsaid(twin, erased)

    on_control(tmp_path, body)


async def said_by(twin: Twin, turn: str) -> list[int]:
    """The entries of a turn, its message among them, that say it."""
    mine = {
        record.entry.seq
        for record in await twin.entries()
        if record.entry.subject in (turn, "m" + turn[1:]) or record.body.get("turn") == turn
    }
    return sorted(mine & set(saying(twin.directory, SECRET)))


async def hears(twin: Twin, tool: str = "", to: str = "") -> Delivery:
    """The next turn asks a model what it was told, passes it on, and answers when it was no question."""
    at = await twin.delivery()
    twin.ask_model(at, [{"role": "user", "content": at.message.text}])
    await twin.result()
    if tool == "ask":
        twin.ask_tool(at, tool, {"to": to, "text": f"told: {SECRET}"}, 1)
        return at
    if tool:
        await twin.call_tool(at, tool, {"to": to, "text": f"told: {SECRET}"}, 1)
    await answer(twin, at, "done")
    return at


@pytest.mark.parametrize("tool", ["send_message", "ask"])
def test_whom_a_turn_told_is_listed_and_forgets_it_and_so_on_down_the_chain(
    tmp_path: Path, tool: str
) -> None:
    names = ("ada", "bob", "cat", "dan")

    async def body(twin: Twin, control: Doors) -> None:
        for name in (*names, "eve"):
            await twin.spawn(name, tools=TOOLS)
        await twin.send("eve", "something else")
        other = await hears(twin)
        await twin.send("ada", SECRET)
        turns = [await hears(twin, tool, f"/user/{to}") for to in names[1:]] + [await hears(twin)]
        if tool == "ask":
            for asker in turns[-2::-1]:
                await twin.result()
                await answer(twin, asker, f"heard {SECRET}")
        mine = await said_by(twin, turns[0].turn)
        erased = await control(Erasure.erase, "why", seqs=mine)
        assert not unsaid(twin, erased)
        assert [address for address, _ in erased["sessions"]] == [f"/user/{name}" for name in names]
        assert set(twin.kernel.state.sessions) == {("/user/eve", "main")}
        assert not {seq for seq, _ in erased["left"]} & {(await starts(twin))[other.turn]}

    on_control(tmp_path, body)


class CountedEntries(JournalEntries):
    """Counts how often it was read, whole or an entry of it."""

    reads = 0

    def entries(self, start: int = 0) -> Iterator[EntryRecord]:
        self.reads += 1
        return super().entries(start)

    def entry(self, seq: int) -> EntryRecord:
        self.reads += 1
        return super().entry(seq)


def test_the_ledger_is_read_no_more_often_for_a_long_chain(tmp_path: Path) -> None:
    names = ("ada", "bob", "cat", "dan", "eve", "fay")
    told: list[int] = []

    async def body(twin: Twin, control: Doors) -> None:
        for name in names:
            await twin.spawn(name, tools=TOOLS)
        await twin.send("ada", SECRET)
        for to in names[1:]:
            told.append(int((await hears(twin, "send_message", f"/user/{to}")).turn[1:]))
        await hears(twin)

    on_control(tmp_path, body)
    long, short = CountedEntries(tmp_path), CountedEntries(tmp_path)
    assert len(plan_erasure(long, Selection(seqs=(told[1],))).turns) == len(names)
    assert len(plan_erasure(short, Selection(seqs=(told[-1],))).turns) < len(names)
    assert long.reads <= short.reads


def test_what_was_told_is_not_erased_while_its_receiver_has_it_in_hand(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        await twin.send("bob", "something else")
        busy = await twin.delivery()
        await twin.send("ada", SECRET)
        told = await hears(twin, "send_message", "/user/bob")
        mine = await said_by(twin, told.turn)
        with pytest.raises(Refused, match="is still in the mailbox of /user/bob"):
            await control(Erasure.erase, "why", seqs=mine)
        await answer(twin, busy, "done")
        at = await twin.delivery()
        with pytest.raises(Refused, match=f"turn {at.turn} of /user/bob .* is open"):
            await control(Erasure.erase, "why", seqs=mine)
        await answer(twin, at, f"heard {SECRET}")
        assert not unsaid(twin, await control(Erasure.erase, "why", seqs=mine))

    on_control(tmp_path, body)


def test_what_who_was_told_wrote_down_started_and_answered_is_listed_with_those_who_have_it(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob", "cat"):
            await twin.spawn(name, tools=(*TOOLS, "spawn_agent"))
        await twin.send("ada", SECRET)
        told = await hears(twin, "send_message", "/user/bob")
        at = await twin.delivery()
        await twin.call_tool(at, "memory_write", {"text": SECRET, "title": "noted", "shared": True})
        await twin.call_tool(at, "spawn_agent", {"name": "kid", "tools": [], "system_prompt": SECRET}, 1)
        await answer(twin, at, f"heard {SECRET}")
        for target in ("/user/cat", "/user/bob/kid"):
            await twin.send(target, "what do you know?")
            at = await twin.delivery()
            if target == "/user/cat":
                await twin.call_tool(at, "memory_search", {"query": "heron"})
            await answer(twin, at, f"I know: {SECRET}")
        await twin.send("ada", "ask bob", session="other")
        asker = await twin.delivery()
        twin.ask_tool(asker, "ask", {"to": "/user/bob", "text": "what?"})  # in the session where ada told it
        at = await twin.delivery()
        await answer(twin, at, f"it was: {SECRET}")
        await twin.result()
        await answer(twin, asker, "thanks")
        erased = await control(Erasure.erase, "why", seqs=await said_by(twin, told.turn))
        assert not unsaid(twin, erased)
        sessions = {tuple(pair) for pair in erased["sessions"]}
        assert sessions >= {("/user/cat", "main"), ("/user/bob/kid", "main"), ("/user/ada", "other")}

    on_control(tmp_path, body)


def test_the_prompt_of_a_child_is_listed_with_what_its_turns_say(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada", tools=("spawn_agent",))
        await twin.send("ada", "start one")
        at = await twin.delivery()
        child = {"name": "kid", "tools": [], "system_prompt": SECRET}
        await twin.call_tool(at, "spawn_agent", child)
        await answer(twin, at, "done")
        await twin.send("/user/ada/kid", "hello", session="other")
        kid = await twin.delivery()
        twin.ask_model(kid, [{"role": "system", "content": SECRET}, {"role": "user", "content": "hello"}])
        await twin.result()
        await answer(twin, kid, f"I am told: {SECRET}")
        erased = await control(Erasure.erase, "why", target="ada", session="main")
        assert "process.spawned" in {kind for _, kind in erased["left"]}
        assert {"model.asked", "turn.ended"} <= {kind for _, kind in erased["left"]}
        assert ["/user/ada/kid", "other"] in erased["sessions"]
        assert not unsaid(twin, erased)

    on_control(tmp_path, body)


def test_a_persons_prompt_and_title_stand_in_no_command_and_the_prompt_is_listed(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        request = SpawnRequest(name="ada", system_prompt=SECRET)
        pid = (await control.ask(Spawning.spawn, request))["pid"]
        await control(Memory.add, "a text", title=SECRET)
        await twin.ledger.barrier()
        assert set(saying(twin.directory, SECRET).values()) == {"process.spawned", "memory.written"}
        erased = await control(Erasure.erase, "why", pid=pid)
        assert [kind for _, kind in erased["left"]] == ["process.spawned"]
        document = (await twin.entries("memory.written"))[0].entry.seq
        erased = await control(Erasure.erase, "why", seqs=[document])
        assert erased["left"] == []
        assert set(saying(twin.directory, SECRET, seqs_of(erased["ranges"])).values()) == {"process.spawned"}

    on_control(tmp_path, body)


def test_commands_of_older_nodes_that_hold_a_prompt_or_a_title_are_listed(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        add = {"uid": 1, "os_pid": 1, "operation": "memory_add", "arguments": json.dumps({"title": SECRET})}
        command = twin.kernel.recorder.commit([Draft("operator.command", add)]).entries[0].entry.seq
        new = NewDocument("operator", "shared", SECRET, "a text", 1, b"", command)
        seq = twin.ledger.next_seq
        _, records = draft_document(new, seq)
        twin.kernel.recorder.commit(records)
        erased = await control(Erasure.erase, "why", seqs=[seq])
        assert erased["left"] == [[command, "operator.command"]]
        assert not unsaid(twin, erased)

    on_control(tmp_path, body)


def test_the_turn_that_gave_a_text_is_named_when_only_its_receiver_is_erased(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name, tools=TOOLS)
        await talk(twin, "ada", SECRET)
        session = of_agent(twin, "/user/ada")
        erased = await control(Erasure.erase, "why", target="bob", session=session)
        assert ["/user/ada", "main"] in erased["sessions"]
        assert "tool.proposed" in {kind for _, kind in erased["left"]}
        assert not unsaid(twin, erased)
        document = (await twin.entries("memory.written"))[0].entry.seq
        erased = await control(Erasure.erase, "why", seqs=[document])
        assert "tool.proposed" in {kind for _, kind in erased["left"]}

    on_control(tmp_path, body)


def test_how_another_process_ended_is_not_forgotten(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name)
            await twin.send(name, "hello")
            at = await twin.delivery()
            twin.say(CellCrashed(at.pid, at.turn, f"ValueError: of {name}"))
            await answer(twin, await twin.delivery(), "done")
        await twin.ledger.barrier()
        await control(Erasure.erase, "why", target="ada", session="main")
        slots = twin.kernel.state.slots
        assert slots["/user/ada"].last_exit.text == ""
        assert slots["/user/bob"].last_exit.text.endswith("ValueError: of bob")
        assert slots["/user/ada"].last_exit.pid > 0

    on_control(tmp_path, body)


@pytest.mark.parametrize("kind", ["operator.command", "process.exited"])
def test_an_exit_and_the_command_that_ordered_it_say_why_and_each_is_listed_with_the_other(
    tmp_path: Path, kind: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await control(Processes.kill, target="ada", signal="kill", why=SECRET)
        await twin.ledger.barrier()
        said = {found: seq for seq, found in saying(twin.directory, SECRET).items()}
        erased = await control(Erasure.erase, "why", seqs=[said.pop(kind)])
        [(other, seq)] = said.items()
        assert erased["left"] == [[seq, other]]

    on_control(tmp_path, body)


def test_a_refusal_of_a_peers_message_goes_from_what_is_kept_for_it(tmp_path: Path) -> None:
    """The decision is kept until the peer has settled it, which may be never; the reason says what the peer wrote."""

    async def body(twin: Twin, control: Doors) -> None:
        why = f"no process named {SECRET}"
        refused = {"to": "", "sender": f"@{ORIGIN}", "why": why}
        recorder = twin.kernel.recorder
        kept = [decision_record(ORIGIN, 1, "m1", why), decision_record(ORIGIN, 2, "m2", "another reason")]
        seq = recorder.commit([Draft("message.refused", refused), *kept]).entries[0].entry.seq
        await control(Erasure.erase, "why", seqs=[seq])
        assert SECRET.encode() not in encode_state(twin.kernel.state)
        assert twin.kernel.state.in_transit.inbox[ORIGIN] == {
            1: ("m1", ERASED_REASON),
            2: ("m2", "another reason"),
        }

    on_control(tmp_path, body)


def test_what_a_session_was_called_is_listed_and_not_said_again(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await control(Messages.send, "ada", "hello", session=SECRET)
        await answer(twin, await twin.delivery(), "done")
        erased = await control(Erasure.erase, "why", target="ada", session=SECRET)
        assert not unsaid(twin, erased)
        assert [kind for _, kind in erased["left"]] == ["operator.command"]

    on_control(tmp_path, body)


def test_an_erasure_that_the_disk_refused_at_first_is_carried_out_when_it_takes_it(tmp_path: Path) -> None:
    """Who asked was told that it is not on the disk; it came there, and nobody did it until the next start."""
    disk = FullDisk()
    begun: list[bool] = []

    async def body(twin: Twin) -> None:
        usual = erasures_of(twin)

        async def plan(selection: Selection) -> Plan:
            found = await usual.plan(selection)
            disk.full = True
            return found

        await twin.spawn("ada")
        mail = await twin.send("/user/ada", SECRET)
        await answer(twin, await twin.delivery(), "done")
        control = control_of(
            twin,
            erasures=Erasures(plan, lambda: begun.append(bool(twin.kernel.state.erasing)), usual.progress),
        )
        with pytest.raises(Unavailable):
            await control(Erasure.erase, "why", seqs=[mail.seq])
        assert not begun
        disk.full = False
        await until(lambda: bool(begun))
        assert begun == [True]

    on_twin(tmp_path, body, disk=disk)


@pytest.mark.parametrize("chosen", ["ada", "bob"])
def test_what_was_published_is_of_the_turn_that_published_it_and_of_those_that_got_it(
    tmp_path: Path, chosen: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob", "eve"):
            await twin.spawn(name, tools=(*TOOLS, "publish"))
        for name in ("bob", "eve"):
            await control(Topics.subscribe, name, "a")
        await control(Messages.send, "ada", SECRET)
        at = await twin.delivery()
        await twin.call_tool(at, "publish", {"topic": "a", "text": f"told: {SECRET}"})
        copies = [await twin.delivery() for _ in range(2)]
        for each in (*copies, at):
            await answer(twin, each, f"heard {SECRET}")
        session = "main" if chosen == "ada" else of_agent(twin, "/user/ada")
        erased = await control(Erasure.erase, "why", target=chosen, session=session)
        rest = saying(twin.directory, SECRET, seqs_of(erased["ranges"]))
        assert rest and set(rest) <= {seq for seq, _ in erased["left"]}
        if chosen == "ada":  # the copies went with her turn
            assert set(rest.values()) == {"turn.ended"}
            assert SECRET.encode() not in encode_state(twin.kernel.state)

    on_control(tmp_path, body)


def test_the_other_copies_of_what_a_person_published_are_named_as_left(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("bob", "eve"):
            await twin.spawn(name, tools=TOOLS)
            await control(Topics.subscribe, name, "a")
        await control(Topics.publish, "a", SECRET)
        for each in [await twin.delivery() for _ in range(2)]:
            await answer(twin, each, f"heard {SECRET}")
        erased = await control(Erasure.erase, "why", target="bob", session="main")
        rest = saying(twin.directory, SECRET, seqs_of(erased["ranges"]))
        assert set(rest.values()) == {"message.accepted", "turn.ended"}
        assert set(rest) <= {seq for seq, _ in erased["left"]}

    on_control(tmp_path, body)


def test_what_joined_another_turn_is_told_to_be_left_there(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        steers = {"channel_overrides": {"telegram": {"while_busy": "steer"}}}
        await control(Spawning.spawn, "ada", config=steers)
        of: dict[str, Any] = {"channel": "telegram", "chat": "42"}
        await control(Messages.send, "ada", "hello", **of)
        at = await twin.delivery()
        joins = await control(Messages.send, "ada", SECRET, **of)
        twin.say(CellAsked(at.pid, CellCall(at.turn, 0, 0, "steered", Nothing())))
        assert (await twin.result())["texts"] == [SECRET]
        await answer(twin, at, "done")
        erased = await control(Erasure.erase, "why", seqs=[joins["seq"]])
        assert "turn.steered" in {kind for _, kind in erased["left"]}
        assert not unsaid(twin, erased)

    on_control(tmp_path, body)
