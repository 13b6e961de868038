"""The slice of calls: which intents are open, which of them are in doubt, and what settles them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel.model.machines.call_states import CallState
from tests.kernel.slices.told import WHOLE_INTENT, Calling

# -- doubts ----------------------------------------------------------------------------------------------------------


def test_doubts_wait_for_a_person_oldest_attempt_first_and_are_counted() -> None:
    told = Calling()
    for ordinal in ("0.0", "0.1", "0.2"):
        told.propose(ordinal, arguments="x" * 10)
    for ordinal in ("0.1", "0.2", "0.0"):
        told.intend(ordinal)
    for ordinal in ("0.0", "0.1"):
        told.outcome("in_doubt", "said", ordinal)
    intents = told.state.intents
    assert [one.id for one in told.state.doubts()] == ["t1:0.1", "t1:0.0"]
    assert (len(intents), intents.doubts_count, intents.doubts_bytes) == (3, 2, 20)
    assert (told.call().outcome, told.call().doubt) == (None, True)
    told.outcome("in_doubt", "once more")
    told.intend("0.1", attempt=2)
    assert (len(intents), intents.doubts_count, intents.doubts_bytes) == (3, 1, 10)
    told.outcome("lost", "w")
    assert (len(intents), intents.doubts_count, intents.doubts_bytes) == (2, 0, 0)


def test_a_person_who_has_it_made_again_settles_the_attempts_there_were() -> None:
    told = Calling()
    told.propose()
    told.intend(**WHOLE_INTENT)
    told.intend(attempt=2, **WHOLE_INTENT)
    told.outcome("in_doubt", attempt=2)
    told.resolve("retry")
    call = told.call()
    assert (call.state, call.intent_seq, call.unsettled, call.replaces, call.pid) == (
        CallState.PROPOSED, -1, False, "", 0,
    )  # fmt: skip
    assert (call.attempt, told.open, told.state.doubts()) == (2, [], [])
    told.intend(attempt=3, effects="none")
    assert (told.call().effects, told.call().unsettled) == ("none", False)


@pytest.mark.parametrize("resolution", ["done", "lost"])
def test_a_person_who_says_what_became_of_it_leaves_its_intent_open_until_the_outcome(
    resolution: str,
) -> None:
    told = Calling()
    told.propose()
    intended = told.intend(**WHOLE_INTENT)
    told.outcome("in_doubt")
    told.resolve(resolution)
    call = told.call()
    assert (call.state, call.intent_seq, call.pid, told.open) == (
        CallState.UNDER_WAY,
        intended,
        7,
        ["t1:0.0"],
    )
    assert (told.state.doubts(), told.state.intents.doubts_bytes) == ([], 0)


@pytest.mark.parametrize(("why", "words"), [("", "unknown"), ("no such id", "unknown: no such id")])
def test_what_a_tool_answers_when_it_is_asked_stands_beside_its_call(why: str, words: str) -> None:
    told = Calling()
    told.propose()
    told.probed("unknown", why)
    assert told.call().probed == "", "nothing was begun"
    told.intend(probe=True)
    told.probed("unknown", why, attempt=2)
    assert told.call().probed == "", "of an attempt that is over"
    told.probed("unknown", why)
    assert (told.call().probed, told.call().probe) == (words, True)
    told.outcome("in_doubt")
    told.probed("landed", why)
    assert told.call().probed != words
    told.probed("not_asked", why)
    assert told.call().probe is False, "its worker may act still"


def test_a_call_that_has_its_outcome_is_neither_begun_nor_decided_again() -> None:
    told = Calling()
    told.propose()
    told.resolve("retry")
    assert told.call().state is CallState.PROPOSED
    told.intend()
    told.outcome("ok", "done")
    before = replace(told.call())
    told.intend(attempt=2, **WHOLE_INTENT)
    told.resolve("retry")
    assert (told.call(), told.open) == (before, [])


# -- what outlives a turn --------------------------------------------------------------------------------------------


def test_an_open_intent_outlives_its_turn_and_is_settled_like_any_other() -> None:
    told = Calling(result_bytes=2)
    told.propose(arguments="x" * 10)
    told.intend(probe=True)
    told.end()
    [intent] = told.state.intents
    told.probed("unknown")
    told.outcome("in_doubt")
    assert (intent.call.probed, told.state.doubts()) == ("unknown", [intent])
    told.resolve("done")
    assert (told.state.doubts(), told.open) == ([], ["t1:0.0"])
    at = told.outcome("ok", "done")
    assert (intent.call.outcome_seq, told.open, told.state.kept_bytes) == (at, [], 0)
    assert intent.call.outcome == {"status": "ok", "result": "done", "truncated": False}


def test_what_comes_of_a_call_that_nobody_knows_changes_nothing() -> None:
    told = Calling()
    for turn in ("t1", "t2"):
        told.intend("0.0", turn=turn)
        told.outcome("ok", turn=turn)
        told.entry("tool.resolved", turn=turn, ordinal="0.0", resolution="retry")
        told.entry("tool.probed", turn=turn, ordinal="0.0", attempt=1, answer="unknown", why="")
        told.entry(
            "model.answered",
            turn=turn,
            ordinal="0.0",
            status="ok",
            answer="{}",
            input_tokens=1,
            output_tokens=1,
        )
    told.propose("0.0", turn="t2")
    assert (told.state.turns["t1"].calls, told.open, told.state.kept_bytes) == ({}, [], 0)
