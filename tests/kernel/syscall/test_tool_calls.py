"""The tool engine: proposals, verdicts, intents, outcomes, doubt; on a real ledger with a twin for the workers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.ledger.ledger import Draft, Group
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall
from kernel.errors import NotFound
from kernel.toolbox.arguments import canonical_json, hash_text
from kernel.worker.workers import WorkerCall, WorkerLost, WorkerResult, WorkerUnavailable
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins import kernel_twin
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin
from tests.patience import HANG_S


async def turn_of_ada(twin: Twin, **fields: Any) -> Delivery:
    await twin.spawn("ada", **fields)
    await twin.send("ada")
    return await twin.delivery()


def test_a_call_is_four_entries_each_caused_by_the_one_before(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.call_tool(at, "pay", {"amount": 5, "to": "bob"})
        found = await twin.entries("tool.proposed", "tool.verdict", "tool.intent", "tool.outcome")
        assert [r.entry.kind for r in found] == [
            "tool.proposed",
            "tool.verdict",
            "tool.intent",
            "tool.outcome",
        ]
        proposed, verdict, intent, outcome = found
        started = (await twin.entries("turn.started"))[0]
        assert proposed.entry.cause == started.entry.seq
        assert [r.entry.cause for r in (verdict, intent, outcome)] == [
            r.entry.seq for r in (proposed, verdict, intent)
        ]
        arguments = canonical_json({"amount": 5, "to": "bob"})
        assert proposed.body["arguments"] == arguments
        assert intent.body["arguments_hash"] == hash_text(arguments)
        assert verdict.body["decision"] == "allow"
        assert {r.entry.pid for r in found} == {at.pid}

    on_twin(tmp_path, body)


def test_the_intent_is_on_disk_before_the_worker_hears_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        sizes = []

        def look(call: WorkerCall) -> WorkerResult:
            sizes.append(twin.ledger.size)
            return WorkerResult("ok", "done", False, "", 4)

        twin.workers.answer = look
        await twin.call_tool(at, "pay", {"amount": 5})
        intent = (await twin.entries("tool.intent"))[0]
        assert sizes[0] > intent.entry.seq

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("no_such_tool", "{}", "there is no tool 'no_such_tool'"),
        ("calculator", "{}", "expression"),
        ("calculator", '{"expression": 5}', "expression"),
        ("calculator", '{"expression": "1", "expression": "2"}', "expression"),
        ("calculator", '{"expression": NaN}', "NaN"),
        ("calculator", "[1]", "object"),
        ("calculator", "not json", "JSON"),
        ("pay", '{"a":"' + "x" * 300_000 + '"}', "262144"),
        ("pay", '{"a":' + "[" * 5000 + "]" * 5000 + "}", "deep"),
    ],
)
def test_what_is_refused_is_data_for_the_model(tmp_path: Path, name: str, arguments: str, words: str) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        outcome = await twin.call_tool(at, name, arguments)
        assert outcome["status"] == "error"
        assert words in outcome["text"]
        assert not twin.workers.calls
        assert [r.body["decision"] for r in await twin.entries("tool.verdict")] == ["deny"]
        assert (await twin.call_tool(at, "calculator", {"expression": "1+1"}, 1))["text"] == "2"

    on_twin(tmp_path, body)


def test_the_rights_of_agent_and_sender_are_intersected(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator", "pay"))
        await twin.send("ada", sender="/user/bob", rights=frozenset({"calculator", "file_write"}))
        at = await twin.delivery()
        assert at.tools == ["calculator"]
        outcome = await twin.call_tool(at, "pay", {"amount": 1})
        assert outcome["status"] == "denied"
        assert "capability" in outcome["text"]
        outcome = await twin.call_tool(at, "file_write", {"path": "a", "content": ""}, 1)
        assert outcome["status"] == "denied"
        assert not twin.workers.calls

    on_twin(tmp_path, body)


def test_a_tool_that_wants_approval_does_not_run_without_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        outcome = await twin.call_tool(at, "launch", {})
        assert outcome["status"] == "denied"
        assert (await twin.entries("tool.verdict"))[0].body["decision"] == "escalate"
        assert not twin.workers.calls

    on_twin(tmp_path, body)


def test_a_worker_lost_with_an_external_call_leaves_it_before_a_person(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def lost(call: WorkerCall) -> WorkerResult:
            raise WorkerLost("died")

        twin.workers.answer = lost
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            process = twin.kernel.live.get(at.pid)
            assert process is not None
            while process.state == "running":
                await asyncio.sleep(0)
        assert twin.cells.results.empty()
        assert len(twin.workers.calls) == 1
        assert twin.kernel.state.doubts()
        assert process.state == "suspended"
        twin.workers.answer = lambda call: WorkerResult("ok", "paid", False, "", 4)
        await twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "retry", "operator:0")
        assert (await twin.result())["text"] == "paid"
        assert process.state == "running"
        outcomes = [r.body["status"] for r in await twin.entries("tool.outcome")]
        assert outcomes == ["in_doubt", "ok"]
        with pytest.raises(NotFound):
            await twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "retry", "operator:0")

    on_twin(tmp_path, body)


@pytest.mark.parametrize(("resolution", "status"), [("done", "ok"), ("lost", "lost")])
def test_a_person_can_say_that_it_was_done_or_lost(tmp_path: Path, resolution: str, status: str) -> None:
    """The doubt is found at the next boot, and the resumed turn waits for the word."""

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)

    async def after(twin: Twin) -> None:
        assert [doubt.call.name for doubt in twin.kernel.state.doubts()] == ["pay"]
        at = await twin.delivery()
        twin.ask_tool(at, "pay", {"amount": 5})
        await twin.ledger.barrier()
        assert twin.cells.results.empty()
        await twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", resolution, "operator:0")
        assert (await twin.result())["status"] == status
        assert not twin.workers.calls
        assert (await twin.entries("tool.resolved"))[0].body["by"] == "operator:0"

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


async def leave_a_payment_open(twin: Twin) -> None:
    at = await turn_of_ada(twin)
    twin.workers.hold.clear()
    twin.ask_tool(at, "pay", {"amount": 5})
    async with asyncio.timeout(HANG_S):
        while not twin.workers.calls:
            await asyncio.sleep(0)


def test_a_retry_that_was_not_begun_when_the_node_died_is_no_new_doubt(tmp_path: Path) -> None:
    async def resolve(twin: Twin) -> None:
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")

    async def after(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()
        at = await twin.delivery()
        assert (await twin.call_tool(at, "pay", {"amount": 5}))["status"] == "ok"
        assert [r.body["attempt"] for r in await twin.entries("tool.intent")] == [1, 2]

    on_twin(tmp_path, leave_a_payment_open)
    on_twin(tmp_path, resolve)
    on_twin(tmp_path, after)


def test_a_retry_runs_once_when_the_cell_asks_before_the_word_is_on_the_disk(tmp_path: Path) -> None:
    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        word = asyncio.create_task(twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "retry", "operator:0"))
        async with asyncio.timeout(HANG_S):
            while twin.kernel.state.doubts():
                await asyncio.sleep(0)
        assert not word.done()
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        await word
        await twin.ledger.barrier()
        twin.workers.hold.set()
        assert (await twin.result())["status"] == "ok"
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, leave_a_payment_open)
    on_twin(tmp_path, after)


def test_a_further_attempt_counts_as_running_when_the_lost_one_has_ended(tmp_path: Path) -> None:
    """Its cell dies and asks again while it runs: that must not make a third."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def lost(call: WorkerCall) -> WorkerResult:
            raise WorkerLost("died")

        twin.workers.answer = lost
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)
            twin.workers.answer = lambda call: WorkerResult("ok", "written", False, "", 7)
            twin.workers.hold.clear()
            while len(twin.workers.calls) < 2:
                await asyncio.sleep(0)
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "file_write", {"path": "a", "content": "b"})
        await twin.ledger.barrier()
        twin.workers.hold.set()
        assert (await twin.result())["text"] == "written"
        assert len(twin.workers.calls) == 2

    on_twin(tmp_path, body)


def test_policies_on_doubt_after_a_reboot(tmp_path: Path) -> None:
    """retry runs again as the next attempt, lost is given up, none is harmless and runs again."""

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"}, 0, 0)
        twin.ask_tool(at, "ping", {}, 0, 1)
        twin.ask_tool(at, "file_read", {"path": "a"}, 0, 2)
        async with asyncio.timeout(HANG_S):
            while len(twin.workers.calls) < 3:
                await asyncio.sleep(0)

    async def after(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()
        at = await twin.delivery()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"}, 0, 0)
        assert (await twin.result())["status"] == "ok"
        twin.ask_tool(at, "ping", {}, 0, 1)
        assert (await twin.result())["status"] == "lost"
        twin.ask_tool(at, "file_read", {"path": "a"}, 0, 2)
        assert (await twin.result())["status"] == "ok"
        assert [call.tool for call in twin.workers.calls] == ["file_write", "file_read"]
        attempts = [(r.body["tool"], r.body["attempt"]) for r in await twin.entries("tool.intent")]
        assert attempts.count(("file_write", 2)) == 1
        assert attempts.count(("ping", 1)) == 1

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_call_that_is_idempotent_is_made_again_and_put_before_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)

    async def after(twin: Twin) -> None:
        assert not twin.kernel.state.doubts()
        at = await twin.delivery()
        twin.ask_tool(at, "pay", {"amount": 5})
        assert (await twin.result())["status"] == "ok"
        assert [each.body["attempt"] for each in await twin.entries("tool.intent")] == [1, 2]

    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, idempotent=True))
    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_tool_is_refused_to_who_has_none_of_its_roles_and_the_model_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        outcome = await twin.call_tool(await turn_of_ada(twin), "pay", {"amount": 5})
        assert outcome["status"] == "denied"
        assert "roles: pay is called for peer, and this is for operator" in outcome["text"]
        assert not twin.workers.calls

    monkeypatch.setattr(kernel_twin, "EXTERNAL", replace(kernel_twin.EXTERNAL, roles=("peer",)))
    on_twin(tmp_path, body)


def test_a_call_that_the_worker_runs_when_the_cell_dies_is_not_run_twice(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.workers.hold.clear()
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            while not twin.workers.calls:
                await asyncio.sleep(0)
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "pay", {"amount": 5})
        twin.workers.hold.set()
        assert (await twin.result())["status"] == "ok"
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


def test_a_worker_that_cannot_start_is_an_error_and_not_a_doubt(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def unavailable(call: WorkerCall) -> WorkerResult:
            raise WorkerUnavailable("no such module")

        twin.workers.answer = unavailable
        outcome = await twin.call_tool(at, "pay", {"amount": 5})
        assert outcome["status"] == "error"
        assert "no such module" in outcome["text"]

    on_twin(tmp_path, body)


def test_a_long_result_is_recorded_whole_by_hash_and_cut_for_the_cell(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        long = "ä" * 100_000
        twin.workers.answer = lambda call: WorkerResult("ok", long, False, hash_text(long), 200_000)
        outcome = await twin.call_tool(at, "pay", {})
        assert len(outcome["text"].encode()) <= 64 * 1024
        assert outcome["truncated"]
        recorded = (await twin.entries("tool.outcome"))[0].body
        assert recorded["result"] == long
        assert recorded["result_hash"] == hash_text(long)

    on_twin(tmp_path, body)


def test_send_message_is_one_unit_with_its_outcome(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob", tools=("calculator",))
        outcome = await twin.call_tool(at, "send_message", {"to": "bob", "text": "hi"})
        assert outcome["status"] == "ok"
        heard = await twin.delivery()
        assert (heard.message.sender, heard.message.text) == ("/user/ada", "hi")
        intent, accepted, out = (await twin.entries("tool.intent", "message.accepted", "tool.outcome"))[-3:]
        assert len({record.group for record in (intent, accepted, out)}) == 1
        assert accepted.entry.cause == intent.entry.seq
        refused = await twin.call_tool(at, "send_message", {"to": "nobody", "text": "hi"}, 1)
        assert refused["status"] == "error"
        assert "no process named nobody" in refused["text"]

    on_twin(tmp_path, body)


def test_ask_waits_for_the_reply_even_when_the_asker_dies_meanwhile(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "what is it"})
        asked = await twin.delivery()
        assert asked.message.wants_reply
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "ask", {"to": "bob", "text": "what is it"})
        twin.finish(asked, "it is 42")
        assert await twin.result() == {"status": "ok", "text": "it is 42", "truncated": False}
        assert len(await twin.entries("message.accepted")) == 2

    on_twin(tmp_path, body)


def test_an_ask_survives_a_reboot_of_the_node(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "what is it"})
        await twin.delivery()

    async def after(twin: Twin) -> None:
        both = [await twin.delivery(), await twin.delivery()]
        asker = next(at for at in both if at.message.sender == "operator")
        asked = next(at for at in both if at.message.sender == "/user/ada")
        twin.ask_tool(asker, "ask", {"to": "bob", "text": "what is it"})
        twin.finish(asked, "it is 42")
        assert (await twin.result())["text"] == "it is 42"

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize("reach", ["rest", "nothing"])
def test_an_ask_has_after_a_reboot_what_is_left_of_its_time(tmp_path: Path, reach: str) -> None:
    asked = {"to": "bob", "text": "?", "timeout_s": 600}
    down_us = 10**6 * (300 if reach == "rest" else 600)

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", asked)
        await twin.delivery()

    async def after(twin: Twin) -> None:
        [intent] = twin.kernel.state.intents
        attempt = twin.kernel.tool_calls._attempts.get(intent.turn, intent.call.ordinal)
        assert attempt is not None and attempt.timer is not None
        left_s = attempt.timer.when() - asyncio.get_running_loop().time()
        assert (200 < left_s <= 300) if reach == "rest" else left_s <= 0
        if reach == "nothing":
            both = [await twin.delivery(), await twin.delivery()]
            asker = next(at for at in both if at.message.sender == "operator")
            twin.ask_tool(asker, "ask", asked)
            assert (await twin.result())["status"] == "timeout"

    on_twin(tmp_path, before)
    on_twin(tmp_path, after, now_us=lambda: time.time_ns() // 1000 + down_us)


def test_an_ask_ends_when_nobody_answers_in_time_or_the_question_dies(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        late = await twin.call_tool(at, "ask", {"to": "bob", "text": "?", "timeout_s": 1})
        assert late["status"] == "timeout"
        twin.ask_tool(at, "ask", {"to": "bob", "text": "??"}, 1)
        process = twin.kernel.live.at("/user/bob")
        assert process is not None
        twin.finish(await twin.delivery())
        await twin.delivery()
        twin.kernel.processes.stop("/user/bob")
        twin.kernel.processes.exit(process.pid, "killed")
        dead = await twin.result()
        assert dead["status"] == "error"
        assert "dead letter" in dead["text"]

    on_twin(tmp_path, body)


def test_a_circle_of_asks_is_refused(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        itself = await twin.call_tool(at, "ask", {"to": "ada", "text": "?"})
        assert "wait for itself" in itself["text"]
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"}, 1)
        asked = await twin.delivery()
        back = await twin.call_tool(asked, "ask", {"to": "ada", "text": "?"})
        assert back["status"] == "error"
        assert "/user/bob -> /user/ada -> /user/bob" in back["text"]

    on_twin(tmp_path, body)


def test_a_spawned_agent_has_at_most_its_parents_rights(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin, tools=("spawn_agent", "calculator"))
        greedy = await twin.call_tool(at, "spawn_agent", {"name": "kid", "tools": ["file_write"]})
        assert greedy["status"] == "error"
        assert "file_write" in greedy["text"]
        assert (await twin.call_tool(at, "spawn_agent", {"name": "kid"}, 1))["status"] == "ok"
        slot = twin.kernel.state.slots["/user/ada/kid"]
        assert slot.spec.tools == ("calculator",)
        again = await twin.call_tool(at, "spawn_agent", {"name": "kid"}, 2)
        assert "exists" in again["text"]

    on_twin(tmp_path, body)


def test_an_intent_of_a_turn_that_is_cut_short_gets_an_outcome(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        twin.kernel.turns.cut_short(process, "cancelled", "enough")
        outcomes = {r.body["ordinal"]: r.body["status"] for r in await twin.entries("tool.outcome")}
        assert outcomes == {"0.0": "lost"}

    on_twin(tmp_path, body)


def test_callers_wait_while_the_disk_is_behind(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.ledger.barrier()
        assert (await twin.call_tool(at, "calculator", {"expression": "1+1"}))["status"] == "ok"
        disk.ready.clear()
        try:
            for _ in range(9):
                twin.ledger.commit([Draft("message.refused", {"why": "x" * 1_000_000})])
            twin.ask_tool(at, "calculator", {"expression": "1+2"}, 1)
            await asyncio.sleep(0.1)
            assert twin.cells.results.empty()
        finally:
            disk.ready.set()
        assert (await twin.result())["text"] == "3"

    on_twin(tmp_path, body, disk=disk)


def test_without_a_writable_journal_nothing_with_effects_runs(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.ledger.barrier()
        disk.full = True
        twin.ask_tool(at, "pay", {"amount": 5})  # takes its place in the ledger before the disk refuses
        async with asyncio.timeout(LIMIT_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        twin.ask_tool(at, "pay", {"amount": 6}, 1)  # finds the ledger closed
        twin.ask_tool(at, "launch", {}, 2)
        twin.say(CellAsked(at.pid, CellCall(at.turn, 3, 0, "now", Nothing())))
        twin.ask_model(at, [{"role": "user", "content": "?"}], 4)
        assert [twin.kernel.recorder.waiting >= 4, twin.workers.calls, twin.gateway.asked] == [True, [], []]
        disk.full = False
        told = {}
        for _ in range(5):
            _, _, ordinal, outcome = await asyncio.wait_for(twin.cells.results.get(), LIMIT_S)
            told[ordinal] = outcome.get("status", "value")
        assert told == {"0.0": "ok", "1.0": "ok", "2.0": "denied", "3.0": "value", "4.0": "ok"}
        assert {json.loads(call.arguments)["amount"] for call in twin.workers.calls} == {5, 6}
        twin.crash(at)  # what was told is what a resumed turn is told
        again = await twin.delivery()
        for round_, arguments in enumerate(({"amount": 5}, {"amount": 6})):
            assert (await twin.call_tool(again, "pay", arguments, round_))["status"] == "ok"
        assert (await twin.call_tool(again, "launch", {}, 2))["status"] == "denied"
        assert len(twin.workers.calls) == 2

    on_twin(tmp_path, body, disk=disk)


def test_a_call_that_is_held_back_is_not_made_when_its_turn_has_ended(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.ledger.barrier()
        disk.full = True
        twin.ledger.commit([Draft("message.refused", {"to": "", "sender": "", "why": ""})], durable=True)
        async with asyncio.timeout(LIMIT_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        twin.ask_tool(at, "pay", {"amount": 5})
        twin.crash(at)
        disk.full = False
        again = await twin.delivery()
        assert (await twin.call_tool(again, "calculator", {"expression": "1+1"}))["text"] == "2"
        assert (twin.workers.calls, twin.kernel.recorder.waiting) == ([], 0)

    on_twin(tmp_path, body, disk=disk)


def test_what_was_done_is_told_only_once_it_is_recorded(tmp_path: Path) -> None:
    """The disk fails between the effect and its outcome: the caller waits, and is never told that nothing was done."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def then_full(call: WorkerCall) -> WorkerResult:
            disk.full = True
            return WorkerResult("ok", "paid", False, "", 4)

        twin.workers.answer = then_full
        twin.ask_tool(at, "pay", {"amount": 5})
        async with asyncio.timeout(HANG_S):
            while twin.ledger.read_only is None:
                await asyncio.sleep(0.01)
        assert twin.cells.results.empty()
        disk.full = False
        assert (await twin.result())["text"] == "paid"
        assert len(twin.workers.calls) == 1
        assert [r.body["status"] for r in await twin.entries("tool.outcome")] == ["ok"]

    on_twin(tmp_path, body, disk=disk)


def test_a_call_is_handed_over_in_the_turn_of_the_loop_that_hears_of_its_intent_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        handed_over: list[WorkerCall] = []

        def put(call: WorkerCall, *_: Any) -> Callable[[], None]:
            handed_over.append(call)
            return lambda: None

        monkeypatch.setattr(twin.workers, "put", put)
        kinds: list[str] = []
        handed: list[bool] = []

        def written(group: Group) -> None:
            kinds.extend(record.entry.kind for record in group.entries)
            handed.append(bool(handed_over))

        twin.kernel.recorder.ledger.on_group(written)
        tasks = len(asyncio.all_tasks())
        twin.ask_tool(at, "pay", {"amount": 5})
        assert len(asyncio.all_tasks()) == tasks and not handed_over
        async with asyncio.timeout(LIMIT_S):
            while not handed_over:
                await asyncio.sleep(0)
        assert "tool.intent" in kinds and handed[-1]

    on_twin(tmp_path, body)
