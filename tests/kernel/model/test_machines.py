"""The tables of the turn and of the call, walked in full through the state that applies the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from chain.entry.draft import Draft
from chain.errors import EntryError
from kernel.abi import OutcomeStatus
from kernel.model.machines.call_states import (
    CALL_EVENTS,
    CALL_GUARDS,
    CALL_MEANINGS,
    CALL_TABLE,
    CallEvent,
    CallState,
)
from kernel.model.machines.machine import By, event_of, names
from kernel.model.machines.turn_states import (
    TURN_EVENTS,
    TURN_GUARDS,
    TURN_MEANINGS,
    TURN_TABLE,
    TurnEvent,
    TurnState,
)
from kernel.signals import Signals
from kernel.state.recorder import Recorder
from kernel.state.state import HEARS, State
from tests.kernel.twins.committed import LIMITS, MemoryLedger
from tests.kernel.twins.records import message

CALL = {"turn": "t1", "ordinal": "0.0", "tool": "x"}
BODIES: Mapping[str, dict[str, Any]] = {
    "turn.started": {"turn": "t1", "message": "m1", "address": "/a", "attempt": 1},
    "turn.ended": {"turn": "t1"},
    "turn.diverged": {"turn": "t1", "ordinal": "0.0", "recorded": "{}", "asked": "{}"},
    "turn.decided": {"turn": "t1", "ordinal": "0.0"},
    "message.dead": {"id": "m1", "why": "w"},
    "process.exited": {"address": "/a", "pid": 1, "detail": "", "turn": "t1"},
    "model.asked": {**CALL, "call_hash": "h"},
    "model.answered": {**CALL, "status": "ok", "answer": "{}", "input_tokens": 1, "output_tokens": 2},
    "turn.steered": {**CALL, "call_hash": "h", "messages": [], "texts": "[]"},
    "sys.compaction": {**CALL, "call_hash": "h", "state": "done", "written": 1, "why": ""},
    "sys.files": {**CALL, "call_hash": "h", "files": "[]", "new": "{}"},
    "sys.value": {**CALL, "call_hash": "h", "op": "now", "value": 1},
    "tool.proposed": {**CALL, "call_hash": "h", "arguments": "{}"},
    "tool.intent": {**CALL, "attempt": 1},
    "tool.outcome": {**CALL, "result": "r", "truncated": False},
    "tool.resolved": {**CALL},
}
TO_CALL: Mapping[CallState, tuple[CallEvent, ...]] = {
    CallState.ABSENT: (),
    CallState.ASKED: (CallEvent.ASK,),
    CallState.PROPOSED: (CallEvent.PROPOSE,),
    CallState.UNDER_WAY: (CallEvent.PROPOSE, CallEvent.INTEND),
    CallState.IN_DOUBT: (CallEvent.PROPOSE, CallEvent.INTEND, CallEvent.DOUBT),
    CallState.ENDED: (CallEvent.GIVE,),
}
TO_TURN: Mapping[TurnState, tuple[TurnEvent, ...]] = {
    TurnState.ABSENT: (),
    TurnState.OPEN: (TurnEvent.START,),
    TurnState.PARKED: (TurnEvent.START, TurnEvent.DIVERGE),
}


class Told:
    """A state that is told events, each as the entry that it is."""

    def __init__(self) -> None:
        self.state = State(*LIMITS)
        self.seq = 1
        self.entry("message.accepted", message(1, "/a"))

    def entry(self, kind: str, body: dict[str, Any]) -> None:
        self.state.apply_entry(kind, body, self.seq, self.seq, b"")
        self.seq += 1

    def event(self, events: Mapping[str, Any], event: Any) -> None:
        for kind, which in events.items():
            values = which.events if isinstance(which, By) else {None: which}
            value = next((value for value, each in values.items() if each is event), None)
            if event in values.values():
                told = {which.field: value} if isinstance(which, By) else {}
                call = self.call
                attempt = {"attempt": call.attempt} if kind == "tool.outcome" and call is not None else {}
                absent = {"attempt": 1} if kind == "tool.outcome" and call is None else {}
                self.entry(kind, {**BODIES[kind], **told, **attempt, **absent})
                return
        raise AssertionError(event)

    @property
    def call(self) -> Any:
        turn = self.state.turns.get("t1")
        return None if turn is None else turn.calls.get("0.0")

    @property
    def call_state(self) -> CallState:
        return CallState.ABSENT if self.call is None else self.call.state

    @property
    def turn_state(self) -> TurnState:
        turn = self.state.turns.get("t1")
        return TurnState.ABSENT if turn is None else turn.state


@pytest.mark.parametrize("event", CallEvent)
@pytest.mark.parametrize("state", CallState)
def test_each_event_in_each_state_of_a_call_does_what_the_table_says(
    state: CallState, event: CallEvent
) -> None:
    told = Told()
    told.event(TURN_EVENTS, TurnEvent.START)
    for before in TO_CALL[state]:
        told.event(CALL_EVENTS, before)
    assert told.call_state is state
    if event is CallEvent.FORGET:
        told.event(TURN_EVENTS, TurnEvent.DIVERGE)
    told.event(CALL_EVENTS, event)
    assert told.call_state is CALL_TABLE[state].get(event, state)
    open_ = {intent.id for intent in told.state.intents}
    forgotten = event is CallEvent.FORGET and state in (CallState.UNDER_WAY, CallState.IN_DOUBT)
    intended = told.call_state in (CallState.UNDER_WAY, CallState.IN_DOUBT)
    assert open_ == ({"t1:0.0"} if intended or forgotten else set())
    doubtful = told.call_state is CallState.IN_DOUBT or (forgotten and state is CallState.IN_DOUBT)
    assert len(told.state.doubts()) == doubtful


@pytest.mark.parametrize("event", TurnEvent)
@pytest.mark.parametrize("state", TurnState)
def test_each_event_in_each_state_of_a_turn_does_what_the_table_says(
    state: TurnState, event: TurnEvent
) -> None:
    told = Told()
    for before in TO_TURN[state]:
        told.event(TURN_EVENTS, before)
    assert told.turn_state is state
    told.event(TURN_EVENTS, event)
    assert told.turn_state is TURN_TABLE[state].get(event, state)
    tally = told.state.tally
    assert tally.accepted == tally.acknowledged + tally.dead + told.state.in_flight == 1


def test_calls_of_a_turn_that_is_not_open_change_nothing() -> None:
    for event in CallEvent:
        told = Told()
        told.event(CALL_EVENTS, event)
        assert (told.call, list(told.state.intents)) == (None, [])


def test_only_the_newest_attempt_says_what_became_of_a_call() -> None:
    told = Told()
    told.event(TURN_EVENTS, TurnEvent.START)
    for before in TO_CALL[CallState.UNDER_WAY]:
        told.event(CALL_EVENTS, before)
    for status in ("ok", "in_doubt"):
        told.entry("tool.outcome", {**BODIES["tool.outcome"], "status": status, "attempt": 2})
        assert told.call_state is CallState.UNDER_WAY


def test_a_person_accepts_only_what_diverged() -> None:
    told = Told()
    told.event(TURN_EVENTS, TurnEvent.START)
    told.event(CALL_EVENTS, CallEvent.GIVE)
    told.event(CALL_EVENTS, CallEvent.FORGET)
    assert told.call_state is CallState.ENDED


def test_an_intent_outlives_its_turn_and_ends_as_the_table_says() -> None:
    told = Told()
    told.event(TURN_EVENTS, TurnEvent.START)
    for before in TO_CALL[CallState.UNDER_WAY]:
        told.event(CALL_EVENTS, before)
    told.event(TURN_EVENTS, TurnEvent.END)
    [intent] = told.state.intents
    told.entry("tool.outcome", {**BODIES["tool.outcome"], "status": "in_doubt", "attempt": 1})
    assert (intent.call.state, len(told.state.doubts())) == (CallState.IN_DOUBT, 1)
    told.entry("tool.outcome", {**BODIES["tool.outcome"], "status": "lost", "attempt": 1})
    assert (intent.call.state, len(told.state.intents)) == (CallState.ENDED, 0)


# -- what no machine knows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("turn.ended", "status"),
        ("turn.decided", "decision"),
        ("tool.outcome", "status"),
        ("tool.resolved", "resolution"),
    ],
)
@pytest.mark.parametrize("value", ["", "won", "OK", None, 1, ["ok"]])
def test_an_event_that_the_machine_does_not_know_is_refused_when_it_is_written_and_when_it_is_read(
    kind: str, field: str, value: Any
) -> None:
    body = {**BODIES[kind], "attempt": 1, field: value}
    with pytest.raises(EntryError, match=f"{kind} cannot be applied: {field} is "):
        Told().entry(kind, body)
    ledger = MemoryLedger()
    recorder = Recorder(ledger, State(*LIMITS), Signals())  # type: ignore[arg-type]  # a twin
    with pytest.raises(EntryError):
        recorder.commit([Draft(kind, body)])
    assert ledger.next_seq == 0


def test_the_tables_and_their_words_are_whole() -> None:
    for table, events, states, all_events, meanings, guards in (
        (CALL_TABLE, CALL_EVENTS, CallState, CallEvent, CALL_MEANINGS, CALL_GUARDS),
        (TURN_TABLE, TURN_EVENTS, TurnState, TurnEvent, TURN_MEANINGS, TURN_GUARDS),
    ):
        told = {
            event
            for each in events.values()
            for event in (each.events.values() if isinstance(each, By) else (each,))
        }
        assert set(table) == set(states) and told == set(all_events)
        assert {event for row in table.values() for event in row} == set(all_events)
        assert set(meanings) == {*states, *all_events} and set(guards) <= set(all_events)
        assert set(events) <= set(HEARS)


def test_every_outcome_that_a_tool_may_have_is_an_event() -> None:
    assert names(CALL_EVENTS, "tool.outcome") == set(get_args(OutcomeStatus))
    assert event_of(CALL_EVENTS, "tool.outcome", {"status": "denied"}) is CallEvent.END
