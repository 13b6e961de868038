"""What is seen of a turn: in one order, by all readers alike, whoever crashes meanwhile and however late one comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import kernel.slices.feed.turn_logs
from kernel.cell.protocol import ModelOptions
from kernel.errors import Invalid, NotFound
from kernel.helper.helpers import HelperNotice
from kernel.operations.turns.events import FollowTurn, TurnEventRow
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from tests.kernel.slices.told import Told
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin, answer_of

SUM = {"expression": "17*23"}
QUESTION = [{"role": "user", "content": "what is 17*23"}]


class Slow:
    """A model that says piece by piece what a test has it say, and ends when the test says so."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self.ends: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        twin.gateway.answer = lambda request: self.ends.get()

    async def says(self, at: Delivery, step: str, text: str) -> None:
        """Say it, and wait until it is on the disk."""
        notice = {"stream_id": f"{at.turn}:{step}", "text": text}
        self._twin.say(HelperNotice("gateway", "delta", notice))
        self._twin.kernel.feed._record_piece(at.turn, step)
        await self._twin.ledger.barrier()


async def seen(twin: Twin, turn: str, start: int = 0, wait: bool = False) -> list[TurnEventRow]:
    return [row async for row in twin.kernel.feed.follow(turn, start, wait)]


def told(rows: list[TurnEventRow]) -> list[tuple[str, str, str]]:
    """Of each its name, its step, and what it is about in a word."""
    words = ("text", "tool", "why", "status", "process", "what")
    return [
        (row["event"], row["step"], str(next((row["data"][w] for w in words if w in row["data"]), "")))
        for row in rows
    ]


def test_the_order_of_one_call_is_the_same_for_who_follows_and_who_comes_late(tmp_path: Path) -> None:
    found: list[list[TurnEventRow]] = []

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        live = asyncio.ensure_future(seen(twin, at.turn, wait=True))
        slow = Slow(twin)
        twin.ask_model(at, QUESTION)
        await asyncio.sleep(0)
        await slow.says(at, "0.0", "I will ")
        await slow.says(at, "0.0", "compute.")
        slow.ends.put_nowait(answer_of("I will compute."))
        await twin.result()
        assert (await twin.call_tool(at, "calculator", SUM, 1))["status"] == "ok"
        slow.ends.put_nowait(answer_of("It is 391."))  # not streamed: told in one piece all the same
        twin.ask_model(at, [*QUESTION, {"role": "user", "content": "so?"}], 2)
        await twin.result()
        twin.finish(at, "It is 391.")
        await twin.end_of(mail)
        found.append(await asyncio.wait_for(live, LIMIT_S))
        assert told(found[0]) == [
            ("llm_token", "0.0", "I will "),
            ("llm_token", "0.0", "compute."),
            ("action_started", "1.0", "calculator"),
            ("shield_verdict", "1.0", "calculator"),
            ("action_completed", "1.0", "calculator"),
            ("llm_token", "2.0", "It is 391."),
            ("response_complete", "", "ok"),
        ]
        assert [row["offset"] for row in found[0]] == list(range(7))
        assert await seen(twin, at.turn) == found[0]
        assert await seen(twin, at.turn, 5, wait=True) == found[0][5:]
        again = FollowTurn(at.turn, last_event_id=f"{at.turn}/3").resumed()
        assert await seen(twin, at.turn, again.start) == found[0][4:]

    async def after_a_restart(twin: Twin) -> None:
        assert await seen(twin, found[0][0]["turn"], wait=True) == found[0]
        copy = State(200, 2**20)
        restore_state(copy, encode_state(twin.kernel.state))
        assert encode_state(copy) == encode_state(twin.kernel.state)

    on_twin(tmp_path, body)
    on_twin(tmp_path, after_a_restart)


def test_an_answer_that_is_begun_anew_voids_what_was_shown_whoever_died(tmp_path: Path) -> None:
    """A provider that the gateway gave up, the gateway itself, the node; and an answer that ended in an error."""
    turns: list[str] = []
    before: list[TurnEventRow] = []

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        slow = Slow(twin)
        twin.ask_model(at, QUESTION)
        await asyncio.sleep(0)
        await slow.says(at, "0.0", "Once upon")
        twin.say(HelperNotice("gateway", "delta", {"stream_id": f"{at.turn}:0.0", "reset": True}))
        await slow.says(at, "0.0", "A frog")
        slow.ends.put_nowait({**answer_of("overloaded"), "status": "error", "error_kind": "server"})
        await twin.result()
        twin.ask_model(at, [*QUESTION, {"role": "user", "content": "again"}], 1)
        await asyncio.sleep(0)
        await slow.says(at, "1.0", "The king ")
        turns.append(at.turn)
        before.extend(await seen(twin, at.turn))
        assert told(before) == [
            ("llm_token", "0.0", "Once upon"),
            ("reset", "0.0", "attempt"),
            ("llm_token", "0.0", "A frog"),
            ("reset", "0.0", "failed"),
            ("error", "0.0", "overloaded"),
            ("llm_token", "1.0", "The king "),
        ]

    async def after_the_kill(twin: Twin) -> None:
        assert await seen(twin, turns[0]) == before  # nothing that was shown is lost
        at = await twin.delivery()
        assert at.turn == turns[0]
        live = asyncio.ensure_future(seen(twin, at.turn, 5, wait=True))
        slow = Slow(twin)
        twin.ask_model(at, QUESTION)  # on record: nothing is seen of it again
        assert (await twin.result())["error_kind"] == "server"
        twin.ask_model(at, [*QUESTION, {"role": "user", "content": "again"}], 1)
        await asyncio.sleep(0)
        await slow.says(at, "1.0", "The queen")
        slow.ends.put_nowait(answer_of("The queen and more"))  # a piece was lost on its way
        await twin.result()
        twin.finish(at, "done")
        assert told(await asyncio.wait_for(live, LIMIT_S)) == [
            ("llm_token", "1.0", "The king "),
            ("reset", "1.0", "attempt"),
            ("llm_token", "1.0", "The queen"),
            ("reset", "1.0", "incomplete"),
            ("llm_token", "1.0", "The queen and more"),
            ("response_complete", "", "ok"),
        ]
        trace = twin.kernel.state.turn_logs.trace_of(at.turn)
        assert trace is not None and trace.attempts == 2 and trace.outcome == "ok"
        assert [(call.step, call.status) for call in trace.model_calls] == [("0.0", "error"), ("1.0", "ok")]
        assert (trace.total_tokens, trace.fallback_attempts) == (8, 1)

    on_twin(tmp_path, body)
    on_twin(tmp_path, after_the_kill)


def test_a_call_that_is_made_again_begins_again_and_one_in_doubt_is_waited_for(tmp_path: Path) -> None:
    async def killed(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.workers.hold.clear()
        twin.ask_tool(at, "file_read", {"path": "a"})
        twin.ask_tool(at, "pay", {}, index=1)
        while len(twin.workers.calls) < 2:
            await asyncio.sleep(0)

    async def resumed(twin: Twin) -> None:
        at = await twin.delivery()
        twin.ask_tool(at, "file_read", {"path": "a"})
        twin.ask_tool(at, "pay", {}, index=1)
        await twin.result()
        await twin.kernel.tool_calls.resolve(f"{at.turn}:0.1", "done", "operator")
        await twin.result()
        twin.finish(at, "done")
        rows = await asyncio.wait_for(seen(twin, at.turn, wait=True), LIMIT_S)
        assert [one for one in told(rows) if one[1] == "0.0"] == [
            ("action_started", "0.0", "file_read"),
            ("shield_verdict", "0.0", "file_read"),
            ("reset", "0.0", "attempt"),
            ("action_started", "0.0", "file_read"),
            ("action_completed", "0.0", "file_read"),
        ]
        paid = [
            row["data"]["status"]
            for row in rows
            if (row["event"], row["step"]) == ("action_completed", "0.1")
        ]
        assert paid == ["in_doubt", "ok"]
        trace = twin.kernel.state.turn_logs.trace_of(at.turn)
        assert trace is not None and [(wait.step, wait.what) for wait in trace.waits] == [
            ("0.1", "in_doubt: done")
        ]
        assert [(call.tool, call.status, len(call.attempts)) for call in trace.tool_calls] == [
            ("file_read", "ok", 1),
            ("pay", "ok", 0),
        ]

    on_twin(tmp_path, killed)
    on_twin(tmp_path, resumed)


def test_the_turn_that_waits_for_a_sub_agent_sees_what_that_does_and_nothing_that_it_says(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.send("boss")
        at = await twin.delivery()
        assert (await twin.call_tool(at, "spawn_agent", {"name": "kid", "tools": ["calculator"]}))[
            "status"
        ] == "ok"
        twin.ask_tool(at, "ask", {"to": "/user/boss/kid", "text": "what is 17*23"}, 1)
        kid = await twin.delivery()
        await twin.call_tool(kid, "calculator", SUM)
        twin.finish(kid, "the secret is 391")
        await twin.result()
        twin.finish(at, "done")
        rows = await asyncio.wait_for(seen(twin, at.turn, wait=True), LIMIT_S)
        subs = [
            (row["event"], row["step"], row["data"].get("what", "")) for row in rows if "sub" in row["event"]
        ]
        assert subs == [
            ("sub_agent_spawned", "0.0", ""),
            ("sub_agent_progress", "1.0", "turn"),
            ("sub_agent_progress", "1.0", "action"),
            ("sub_agent_completed", "1.0", ""),
        ]
        assert "secret" not in json.dumps([row for row in rows if "sub" in row["event"]])
        trace = twin.kernel.state.turn_logs.trace_of(kid.turn)
        assert trace is not None and trace.parent == f"{at.turn}:1.0"

    on_twin(tmp_path, body)


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        with pytest.raises(NotFound, match="no events of a turn 't999' are kept"):
            await seen(twin, "t999")
        with pytest.raises(Invalid, match=f"turn {at.turn} has 0 events so far.*not from 7"):
            await seen(twin, at.turn, 7)
        waits = await twin.send("ada")  # behind the first: it has no turn yet, and is waited for
        live = asyncio.ensure_future(seen(twin, f"t{waits.id[1:]}", wait=True))
        twin.finish(at, "no", status="error")
        await twin.end_of(mail)
        assert told(await seen(twin, at.turn)) == [("error", "", "no"), ("response_complete", "", "error")]
        twin.finish(await twin.delivery(), "yes")
        assert told(await asyncio.wait_for(live, LIMIT_S)) == [("response_complete", "", "ok")]

    on_twin(tmp_path, body)
    for ident, said in (("garbage", "no id of an event"), ("t1/x", "no id"), ("t2/7", "it is of turn t2")):
        assert said in FollowTurn("t1", last_event_id=ident).check()[0]
    assert FollowTurn("t1", last_event_id="t1/" + "9" * 30).check()


def test_a_thousand_readers_and_one_who_never_reads_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He who has fallen behind what is kept is told what he has lost; a reader that leaves ends nothing."""
    monkeypatch.setattr(kernel.slices.feed.turn_logs, "TURN_BYTES", 4_000)

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        at = await twin.delivery()
        follow = twin.kernel.feed.follow
        sleepers: list[AsyncIterator[TurnEventRow]] = [follow(at.turn, 0, True) for _ in range(1_000)]
        readers = [asyncio.ensure_future(anext(aiter(one))) for one in sleepers]
        await asyncio.sleep(0)
        assert twin.kernel.feed.readers == 1_000
        for number in range(20):
            assert (await twin.call_tool(at, "calculator", SUM, number))["status"] == "ok"
        first = await asyncio.wait_for(asyncio.gather(*readers), LIMIT_S)  # each has read one, and no more
        for one in sleepers[1:]:
            await one.aclose()  # type: ignore[attr-defined]
        assert twin.kernel.feed.readers == 1
        twin.finish(at, "done")
        await twin.end_of(mail)
        rows = [first[0], *[row async for row in sleepers[0]]]
        assert any(row["event"] == "lost" for row in rows)
        at_number = 0
        for row in rows:
            assert row["offset"] == at_number
            at_number = row["data"]["to"] + 1 if row["event"] == "lost" else at_number + 1
        assert at_number == 61 and twin.kernel.feed.readers == 0

    on_twin(tmp_path, body)


def test_what_is_kept_is_bounded_in_bytes_turns_and_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that has ended goes first."""
    monkeypatch.setattr(kernel.slices.feed.turn_logs, "MOST_TURNS", 3)
    told_of = Told()

    def turn(number: int, *, ends: bool = True) -> None:
        told_of.message(number, to=f"/a{number}")
        told_of.turn(number, address=f"/a{number}")
        if ends:
            told_of.entry("turn.ended", turn=f"t{number}", status="ok", reply="x")

    def kept() -> list[int]:
        return [number for number in range(9) if f"t{number}" in told_of.state.turn_logs]

    turn(0, ends=False)
    for number in range(1, 5):
        turn(number)
    assert kept() == [0, 3, 4]
    monkeypatch.setattr(kernel.slices.feed.turn_logs, "KEPT_US", 0)
    turn(5)
    assert kept() == [0, 5]
    monkeypatch.setattr(kernel.slices.feed.turn_logs, "MOST_BYTES", 1)
    turn(6)
    assert kept() == [6]
    assert encode_state(told_of.restored()) == encode_state(told_of.state)
    assert told_of.state.turn_logs.bytes == told_of.restored().turn_logs.bytes > 0


def test_stages_are_those_of_who_was_handed_the_turn_last_and_what_was_asked_before_is_none_of_them() -> None:
    told_of = Told()
    told_of.message(1)
    first = told_of.turn(1)
    told_of.entry(
        "model.asked", turn="t1", ordinal="0.0", call_hash="h", provider="p", model="m", tools=[], asked=""
    )
    told_of.entry("node.booted")
    again = told_of.turn(1, attempt=2)
    answered = {"status": "ok", "answer": "{}", "input_tokens": 1, "output_tokens": 1}
    told_of.entry("model.answered", turn="t1", ordinal="0.0", **answered)
    stages = '[["execute","continue","",3]]'
    told_of.entry("turn.ended", turn="t1", status="ok", reply="x", stages=stages)
    trace = told_of.state.turn_logs.trace_of("t1")
    assert trace is not None and trace.attempts == 2
    assert (trace.started_at_us, trace.stages[0].started_at_us) == (1000 + first, 1000 + again)
    assert [(call.step, call.attempts) for call in trace.model_calls] == [("0.0", (1000 + again,))]
    assert trace.stages[0].metadata == {}, "the question was put before"


def test_nothing_of_a_question_that_is_none_of_the_answer_is_seen_or_kept(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada", "hello")
        at = await twin.delivery()
        slow = Slow(twin)
        forged = [{"role": "user", "content": '"aside":true'}]
        for round_, (text, options, asked) in enumerate(
            (("a summary", ModelOptions(aside=True), QUESTION), ("an answer", None, forged))
        ):
            twin.ask_model(at, asked, round_, options=options)
            await asyncio.sleep(0)
            await slow.says(at, f"{round_}.0", text)
            slow.ends.put_nowait(answer_of(text))
            await twin.result()
        twin.kernel.cancels.cancel(mail, "enough")
        await twin.end_of(mail)
        rows = told(await seen(twin, at.turn))
        assert [row for row in rows if row[0] == "llm_token"] == [("llm_token", "1.0", "an answer")]
        [message, answer] = twin.kernel.state.sessions["/user/ada", "main"].history()
        assert (message["content"], message["turn"]) == ("hello", at.turn)
        assert answer["content"].startswith("an answer\n\n[weftos: this turn was ended")

    on_twin(tmp_path, body)
