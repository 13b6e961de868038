"""Parked turns, without a node: what is shown of the two calls, and what a person's word on them writes and begins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chain.ledger.ledger import Draft
from kernel.cell.protocol import ModelOptions, ModelQuestion
from kernel.errors import NotFound, Refused
from kernel.model.machines.call_states import CallState
from kernel.model.spec import ProcessSpec
from kernel.model.states import ProcessEvent, ProcessState
from kernel.process.live import LiveProcess, LiveTable
from kernel.slices.turns import Call
from kernel.turn.divergence import (
    SHOWN_BYTES,
    Divergences,
    draft_divergence,
    recorded,
    shown,
    shown_question,
)
from kernel.values import sha256_hex
from tests.kernel.slices.told import TRACE, Calling

NOTHING = Draft("tool.resolved", {"turn": "t1", "ordinal": "9.9", "resolution": "lost"})


class Ticket:
    """Of what the disk has not taken yet."""

    def __init__(self) -> None:
        self.group: object = None
        self.taken = asyncio.Event()

    async def durable(self) -> None:
        await self.taken.wait()


class Ledger:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []

    def on_group(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def take(self, ticket: Ticket) -> None:
        ticket.group = object()
        ticket.taken.set()
        for callback in self.callbacks:
            callback(None)


class Desk:
    """The turn of ``m1`` at ``/a`` diverges at 1.0, and ``decide`` has a person decide. ``written`` has what is
    committed, ``letters`` what becomes a dead letter, ``next`` the mailboxes that go on; ``ticket`` is what a commit
    gives, None: it is durable.
    """

    def __init__(self) -> None:
        self.told = Calling()
        self.state, self.ledger, self.live = self.told.state, Ledger(), LiveTable()
        self.written: list[Draft] = []
        self.letters: list[tuple[str, str, tuple[Draft, ...], str]] = []
        self.next: list[str] = []
        self.under_way: set[tuple[str, str]] = set()
        self.ticket: Ticket | None = None
        self.divergences = Divergences(
            self,  # type: ignore[arg-type]  # a twin of the recorder
            self.live,
            self._dead_letter,
            lambda turn: [replace(NOTHING, pid=turn.started_seq)],
            self.next.append,
            lambda turn, ordinal: (turn, ordinal) in self.under_way,
        )

    def commit(self, drafts: Sequence[Draft]) -> Ticket | None:
        for draft in drafts:
            self.written.append(draft)
            self.told.entry(draft.kind, **draft.body)
        return self.ticket

    def must(self, drafts: Sequence[Draft]) -> None:
        self.commit(drafts)

    def _dead_letter(self, ident: str, why: str, extra: tuple[Draft, ...], reason: str) -> None:
        self.letters.append((ident, why, extra, reason))

    def diverge(self, ident: int = 1, ordinal: str = "1.0") -> None:
        self.told.entry(
            "turn.diverged", turn=f"t{ident}", ordinal=ordinal, recorded='{"op":"a"}', asked='{"op":"b"}'
        )

    def decide(self, decision: str, turn: str = "t1") -> str:
        return asyncio.run(self.divergences.decide(turn, decision, "operator:0"))

    def process(self, turn: str = "") -> LiveProcess:
        process = LiveProcess(7, "/a", ProcessSpec("a"), 0.0, ProcessState.RUNNING, turn)
        process.on(ProcessEvent.SUSPEND)
        self.live.add(process)
        return process

    def decided(self, decision: str) -> Draft:
        body = {"turn": "t1", "ordinal": "1.0", "decision": decision, "by": "operator:0"}
        return Draft("turn.decided", body, 0, "t1", TRACE, self.state.turns["t1"].started_seq)


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_a_call_is_shown_in_bounded_size_and_says_whether_something_is_left_out() -> None:
    assert shown("tool", "pay", "{}") == {"op": "tool", "name": "pay", "arguments": "{}", "truncated": False}
    long = "x" * (SHOWN_BYTES + 1)
    assert shown("tool", long, long) == {
        "op": "tool", "name": long[:-1], "arguments": long[:-1], "truncated": True,
    }  # fmt: skip
    assert shown("tool", "\ud800", "\ud800") == shown("tool", "?", "?")


def test_a_question_is_shown_by_its_first_and_its_last_message_where_they_were_said() -> None:
    asked = ModelQuestion((), tools=("a",), provider="p", model="m")
    head = {"provider": "p", "model": "m", "tools": ["a"], "messages": 3}
    for messages, more in (
        ({0: "one", 1: "two", 2: "three"}, {"first": "one", "last": "three"}),
        ({1: "two", 2: "three"}, {"last": "three"}),
        ({0: "one"}, {"first": "one"}),
        ({}, {}),
    ):
        assert json.loads(shown_question(asked, 3, messages)) == {**head, **more}
    hot = replace(asked, options=ModelOptions(temperature=0.5))
    assert json.loads(shown_question(hot, 3, {})) == {**head, "options": {"temperature": 0.5}}
    text = shown_question(asked, 1, {0: "x" * SHOWN_BYTES})
    assert json.loads(text)["first"] == json.loads(text)["last"] == "x" * (SHOWN_BYTES // 4)
    many = ModelQuestion((), tools=("x" * SHOWN_BYTES,), provider="p", model="m")
    assert len(shown_question(many, 0, {})) == SHOWN_BYTES


@pytest.mark.parametrize(
    ("outcome", "state", "words"),
    [
        (None, CallState.PROPOSED, "none yet"),
        (None, CallState.IN_DOUBT, "in doubt"),
        ({"status": "error"}, CallState.ENDED, "error"),
        ({"value": 0.5}, CallState.ENDED, "ok"),
    ],
)
def test_what_was_recorded_says_what_came_of_it(outcome: Any, state: CallState, words: str) -> None:
    call = Call("1.0", "h", "tool", 5, "pay", "{}", state, outcome=outcome)
    assert recorded(call) == {**shown("tool", "pay", "{}"), "seq": 5, "outcome": words}


def test_the_entry_that_parks_a_turn_has_both_calls_and_follows_from_the_first() -> None:
    desk = Desk()
    turn, call = desk.state.turns["t1"], Call("1.0", "h", "tool", 5, "pay", "{}")
    draft = draft_divergence(turn, call, shown("tool", "pay", "[]"), 7)
    assert draft == Draft("turn.diverged", draft.body, 7, "t1", TRACE, 5)
    assert {**draft.body, "recorded": None, "asked": None} == {
        "turn": "t1", "ordinal": "1.0", "recorded": None, "asked": None,
    }  # fmt: skip
    assert json.loads(draft.body["recorded"]) == recorded(call)
    assert json.loads(draft.body["asked"]) == shown("tool", "pay", "[]")


def test_parked_turns_are_listed_by_the_number_of_their_messages_page_by_page() -> None:
    desk = Desk()
    ids = [1]
    for address in ("/c", "/b"):
        ids.append(desk.told.message(desk.told.seq + 1, address))
    for ident, address in ((ids[2], "/b"), (ids[1], "/c")):
        desk.told.turn(ident, address)
    for ident in (ids[2], ids[0], ids[1]):
        desk.diverge(ident)
    rows = desk.divergences.rows
    assert [row["id"] for row in rows()] == [f"t{ident}" for ident in ids]
    at, time_us = desk.told.seq - 1, 999 + desk.told.seq
    assert rows()[0] == {
        "id": "t1", "address": "/a", "message": "m1", "ordinal": "1.0", "seq": at, "time_us": time_us,
        "recorded": {"op": "a"}, "asked": {"op": "b"},
    }  # fmt: skip
    first = desk.state.turns["t1"].mail.seq
    assert [row["id"] for row in rows(first)] == [f"t{ident}" for ident in ids[1:]]
    assert [row["id"] for row in rows(limit=2)] == [f"t{ident}" for ident in ids[:2]]
    desk.decide("again")
    assert [row["id"] for row in rows(limit=9)] == [f"t{ident}" for ident in ids[1:]]


def test_a_turn_that_did_something_else_when_it_was_gone_through_again_is_on_record_and_goes_on() -> None:
    desk = Desk()
    desk.divergences.differed(7, "t9", "1.0", "a", "b")
    assert desk.written == []
    desk.divergences.differed(7, "t1", "1.0", "a\ud800", "b\ud800")
    body = {"turn": "t1", "ordinal": "1.0", "first": "a?", "then": "b?"}
    assert desk.written == [Draft("turn.differed", body, 7, "t1", TRACE, desk.state.turns["t1"].started_seq)]
    assert desk.state.parked() == []


# -- what a person decides -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", ["t1", "t2"])
def test_only_a_parked_turn_is_decided(turn: str) -> None:
    desk = Desk()
    with pytest.raises(NotFound, match=f"^no turn {turn} is parked; weftos divergences list shows them$"):
        desk.decide("again", turn)


def test_a_decision_is_one_of_three() -> None:
    desk = Desk()
    desk.diverge()
    with pytest.raises(Refused, match=r"^decision 'maybe' is none of again, accept, dead$"):
        desk.decide("maybe")
    assert (desk.written, desk.next) == ([], [])


@pytest.mark.parametrize("decision", ["again", "accept"])
def test_a_turn_that_goes_on_has_the_decision_written_and_its_mailbox_goes_on(decision: str) -> None:
    desk = Desk()
    desk.diverge()
    process, decided = desk.process(), desk.decided(decision)
    assert desk.decide(decision) == "/a"
    assert (desk.written, desk.letters, desk.next) == ([decided], [], ["/a"])
    assert process.state is ProcessState.RUNNING


def test_a_turn_that_is_given_up_ends_with_its_message_and_what_is_open_of_it_is_settled() -> None:
    desk = Desk()
    desk.diverge()
    decided = desk.decided("dead")
    why = "diverged at call 1.0, and a person gave it up"
    body = {
        "turn": "t1",
        "status": "diverged",
        "reply": why,
        "reply_hash": sha256_hex(why),
        "call": "",
        "stages": "[]",
    }
    ended = Draft("turn.ended", body, 0, "t1", TRACE, desk.state.turns["t1"].started_seq)
    assert desk.decide("dead") == "/a"
    settled = replace(NOTHING, pid=desk.state.turns["t1"].started_seq)
    assert desk.letters == [("m1", why, (decided, settled, ended), "diverged")]
    assert (desk.written, desk.next) == ([], ["/a"])


def test_nothing_goes_on_before_the_disk_has_the_decision() -> None:
    async def body() -> None:
        desk = Desk()
        desk.diverge()
        desk.ticket = Ticket()
        decision = asyncio.create_task(desk.divergences.decide("t1", "again", "operator:0"))
        await asyncio.sleep(0)
        assert (len(desk.written), desk.next, decision.done()) == (1, [], False)
        desk.ledger.take(desk.ticket)
        assert (await decision, desk.next) == ("/a", ["/a"])

    asyncio.run(body())


def test_a_process_that_is_suspended_for_something_else_stays_so() -> None:
    for turn, state in (("t9", ProcessState.SUSPENDED), ("", ProcessState.RUNNING)):
        desk = Desk()
        desk.diverge()
        process = desk.process(turn)
        desk.decide("again")
        assert (process.state, desk.next) == (state, ["/a"])


def test_a_process_that_runs_already_is_left_alone() -> None:
    desk = Desk()
    desk.diverge()
    process = desk.process()
    process.on(ProcessEvent.RESUME)
    desk.decide("again")
    assert (process.state, desk.next) == (ProcessState.RUNNING, ["/a"])


# -- what may be forgotten -------------------------------------------------------------------------------------------


def forgets(desk: Desk) -> bool:
    """Whether a person may accept another call at 1.0."""
    desk.diverge()
    try:
        desk.decide("accept")
    except Refused as refused:
        assert str(refused) == (
            "call 1.1 (pay) of t1 has no outcome yet; wait for it, or decide it first (weftos doubts list), or give "
            "the turn up (--dead)"
        )
        assert (desk.written, desk.next) == ([], [])
        return False
    return True


def test_a_call_that_has_begun_is_forgotten_only_with_its_outcome() -> None:
    for begun in (True, False):
        for ended in (True, False):
            desk = Desk()
            desk.told.propose("1.1")
            if begun:
                desk.told.intend("1.1")
            if ended:
                desk.told.outcome("ok", ordinal="1.1", attempt=int(begun))
            assert forgets(desk) == (ended or not begun)


def test_a_call_that_is_about_to_begin_is_not_forgotten() -> None:
    for under_way in (("t1", "1.1"), ("t2", "1.1"), ("t1", "1.0")):
        desk = Desk()
        desk.told.propose("1.1")
        desk.under_way.add(under_way)
        assert forgets(desk) == (under_way != ("t1", "1.1"))


def test_a_call_before_the_one_that_diverged_and_a_question_to_a_model_hinder_nobody() -> None:
    desk = Desk()
    desk.told.entry("model.asked", turn="t1", ordinal="1.2", call_hash="h")
    desk.under_way.add(("t1", "1.2"))
    desk.told.propose("0.9")
    desk.told.intend("0.9")
    assert forgets(desk)
    assert list(desk.state.turns["t1"].calls) == ["0.9"]


def test_the_call_that_diverged_is_itself_among_those_that_are_forgotten() -> None:
    desk = Desk()
    for ordinal in ("1.1", "0.0"):
        desk.told.propose(ordinal)
    desk.told.intend("1.1")
    desk.diverge(ordinal="1.1")
    with pytest.raises(Refused, match=r"^call 1\.1 "):
        desk.decide("accept")
    desk = Desk()
    desk.told.propose("0.0")
    desk.told.intend("0.0")
    desk.told.propose("1.1")
    desk.told.intend("1.1")
    assert not forgets(desk), "one that is under way before it hides none behind it"
