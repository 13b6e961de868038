"""The failover machine, walked whole."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from cognition.failover.machine import (
    NEXT_ONE,
    OVER,
    TABLE,
    TRY_AGAIN,
    Event,
    Guarded,
    Machine,
    Scope,
    State,
    most_transitions,
)
from tests.places import ROOT

ERRORS = (Event.RETRYABLE_ERROR, Event.FATAL_ERROR, Event.TIMEOUT)


def at(state: State, providers: int = 2, max_retries: int = 1, **more: int) -> Machine:
    return Machine(providers, max_retries, state, **more)


def test_every_state_has_a_row_for_every_event() -> None:
    assert set(TABLE) == set(State)
    assert all(set(row) == set(Event) for row in TABLE.values())


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_each_row_leads_where_the_table_says(state: State, event: Event) -> None:
    row = TABLE[state][event]
    if isinstance(row, Guarded):
        if row.again is not None:
            assert at(state).step(event).state is row.again
            assert at(state, retries=1).step(event).state is row.other
        else:
            assert at(state).step(event).state is row.other
        assert at(state, provider=1, retries=1).step(event).state is row.none
    else:
        assert at(state).step(event).state is row


def test_a_question_that_is_answered_at_once() -> None:
    walked = at(State.IDLE).step(Event.START).step(Event.START).step(Event.PROVIDER_SUCCESS)
    assert (walked.state, walked.provider, walked.retries) == (State.SUCCEEDED, 0, 0)


def test_a_spent_provider_gives_way_to_the_next_with_all_its_retries() -> None:
    spent = at(State.ATTEMPTING, retries=1).step(Event.RETRYABLE_ERROR)
    assert (spent.state, spent.provider, spent.retries) == (State.SELECTING, 1, 0)


def test_the_last_spent_provider_is_the_end() -> None:
    assert at(State.ATTEMPTING, provider=1, retries=1).step(Event.TIMEOUT).state is State.EXHAUSTED


def test_a_retry_goes_back_into_an_attempt_at_the_same_provider() -> None:
    retrying = at(State.ATTEMPTING).step(Event.RETRYABLE_ERROR)
    assert (retrying.state, retrying.retries) == (State.RETRYING, 1)
    assert retrying.step(Event.START) == at(State.ATTEMPTING, retries=1)


def test_what_is_fatal_for_the_provider_leaves_it_no_retry() -> None:
    for event in ERRORS:
        assert at(State.ATTEMPTING).step(event, "provider").state is State.SELECTING


@pytest.mark.parametrize("event", ERRORS)
@pytest.mark.parametrize("state", [State.SELECTING, State.ATTEMPTING, State.RETRYING])
def test_what_is_fatal_for_the_request_ends_it_though_others_are_left(state: State, event: Event) -> None:
    assert at(state).step(event, "request").state is State.ABORTED


@pytest.mark.parametrize("state", sorted(OVER))
def test_what_is_over_stays_as_it_is(state: State) -> None:
    for event, scope in product(Event, get_args(Scope)):
        assert at(state).step(event, scope) == at(state)


@pytest.mark.parametrize("state", sorted(set(State) - OVER))
def test_who_asked_can_end_it_anywhere(state: State) -> None:
    assert at(state).step(Event.USER_ABORT).state is State.ABORTED


@pytest.mark.parametrize(("providers", "retries"), list(product(range(1, 5), range(4))))
def test_no_walk_takes_more_transitions_than_are_said(providers: int, retries: int) -> None:
    longest, seen, level = 0, {Machine(providers, retries)}, {Machine(providers, retries)}
    while level := {
        after for machine in level for event in Event for after in [machine.step(event)] if after != machine
    }:
        longest += 1
        assert longest <= most_transitions(providers, retries), "a walk without end"
        seen |= level
    assert longest == most_transitions(providers, retries)
    assert {machine.state for machine in seen} >= OVER
    assert all(machine.provider < providers and machine.retries <= retries for machine in seen)


def test_the_scopes_are_those_that_an_event_may_carry() -> None:
    assert set(get_args(Scope)) == {"", "provider", "request"}


def test_the_table_in_the_docs_is_the_table() -> None:
    page = (ROOT / "docs" / "agent.md").read_text()
    words = {TRY_AGAIN: "try again", NEXT_ONE: "next one"}
    for state in set(State) - OVER:
        cells = [words[row] if isinstance(row, Guarded) else row for row in TABLE[state].values()]
        assert f"| {state} | {' | '.join(cells)} |" in page
    assert "| state | " + " | ".join(Event) + " |" in page
