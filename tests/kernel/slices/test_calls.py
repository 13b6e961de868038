"""The slice of calls: what is recorded of each, from which a turn that is taken up again is answered, and which intents
are open. Which event changes what in which state is walked in tests/kernel/model/test_machines.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernel.model.machines.call_states import CallState
from kernel.slices.calls import Calls, OpenIntent, call_id, forgotten, resolved_name
from kernel.slices.turns import Call
from kernel.state.state import State
from tests.kernel.slices.told import HEAD, TRACE, WHOLE_INTENT, Calling

ASKED: dict[str, Any] = {**HEAD, "call_hash": "h"}


def ended(ordinal: str, op: str, seq: int, name: str, outcome: dict[str, Any]) -> Call:
    return Call(ordinal, "h", op, seq, name, state=CallState.ENDED, outcome=outcome)


# -- what is answered at once ----------------------------------------------------------------------------------------


def test_a_value_that_was_given_is_the_outcome_of_its_call() -> None:
    told = Calling()
    at = told.entry("sys.value", **ASKED, op="now", value=0.5)
    assert told.call() == ended("0.0", "now", at, "", {"value": 0.5})


@pytest.mark.parametrize(
    ("kind", "body", "op", "name", "outcome"),
    [
        (
            "model.quoted",
            {"models": ["p/m"], "tokens": 1, "answer": 2, "against": [""], "number": 3},
            "quote",
            "",
            {"against": [""], "number": 3},
        ),
        ("turn.steered", {"messages": ["m2"], "texts": '["x"]'}, "steered", "", {"result": '["x"]'}),
        (
            "sys.compaction",
            {"state": "done", "written": 2, "why": "w"},
            "compaction",
            "done",
            {"written": 2, "why": "w"},
        ),
        (
            "sys.files",
            {"files": '[["USER.md","d",""],["SOUL.md","","no"]]', "new": '{"d":"text"}'},
            "prompt_files",
            "",
            {"result": '[["USER.md","text",""],["SOUL.md","","no"]]'},
        ),
    ],
)
def test_what_the_node_tells_a_turn_is_the_outcome_of_its_call(
    kind: str, body: dict[str, Any], op: str, name: str, outcome: dict[str, Any]
) -> None:
    told = Calling()
    at = told.entry(kind, **ASKED, **body)
    assert told.call() == ended("0.0", op, at, name, outcome)


@pytest.mark.parametrize(
    ("more", "op"), [({}, "monitor"), ({"link": False}, "monitor"), ({"link": True}, "link")]
)
def test_a_monitor_and_a_link_have_their_reference_or_why_there_is_none(
    more: dict[str, bool], op: str
) -> None:
    told = Calling()
    body = {"ref": "r", "target": "bob", "address": "/bob", "pid": 1, "peer": "", "rights": [], "why": "w"}
    at = told.entry("monitor.set", **ASKED, **body, **more)
    assert told.call() == ended("0.0", op, at, "bob", {"ref": "r", "why": "w"})


@pytest.mark.parametrize(
    ("more", "op"), [({}, "demonitor"), ({"link": False}, "demonitor"), ({"link": True}, "unlink")]
)
def test_what_takes_one_back_says_whether_there_was_one(more: dict[str, bool], op: str) -> None:
    told = Calling()
    at = told.entry("monitor.removed", **ASKED, ref="r", found=True, **more)
    assert told.call() == ended("0.0", op, at, "r", {"found": True})


@pytest.mark.parametrize(("on", "name"), [(True, "on"), (False, "off")])
def test_trapping_says_what_it_was_before(on: bool, name: str) -> None:
    told = Calling()
    at = told.entry("monitor.traps", **ASKED, on=on, before=not on, rights=[])
    assert told.call() == ended("0.0", "trap_exits", at, name, {"before": not on})


def test_what_stands_at_a_place_is_not_replaced_by_another_call() -> None:
    told = Calling()
    told.propose()
    before = replace(told.call())
    told.propose(arguments="[]")
    told.entry("sys.value", **ASKED, op="now", value=0.5)
    told.entry("model.asked", **ASKED)
    assert told.call() == before


# -- questions to models ---------------------------------------------------------------------------------------------


def test_a_question_says_whom_it_went_to_and_has_its_answer_when_that_is_recorded() -> None:
    told = Calling()
    at = told.entry("model.asked", **ASKED, provider="p", model="m", tools=["a", "b"], asked='{"x":1}')
    asked = Call("0.0", "h", "model", at, "p/m (a, b)", '{"x":1}', state=CallState.ASKED)
    assert told.call() == asked
    answer = {"status": "ok", "answer": '{"y":2}', "input_tokens": 3, "output_tokens": 4}
    told.entry("model.answered", **HEAD, **answer)
    assert told.call().outcome == {"status": "ok", "answer": '{"y":2}', "tokens": [3, 4]}
    assert told.call().state is CallState.ENDED
    told.entry("model.answered", **HEAD, **{**answer, "status": "error"})
    assert told.call().outcome == {"status": "ok", "answer": '{"y":2}', "tokens": [3, 4]}


def test_a_question_of_before_that_was_recorded_names_nobody() -> None:
    told = Calling()
    at = told.entry("model.asked", **ASKED)
    assert told.call() == Call("0.0", "h", "model", at, "/", state=CallState.ASKED)
    assert (resolved_name("p", "m", []), resolved_name("p", "m", ["a"])) == ("p/m", "p/m (a)")


# -- tool calls ------------------------------------------------------------------------------------------------------


def test_an_intent_says_all_that_the_next_boot_needs_to_settle_the_call() -> None:
    told = Calling()
    at = told.propose(arguments='{"amount":1}')
    assert told.call() == Call("0.0", "h", "tool", at, "pay", '{"amount":1}')
    intended = told.intend(attempt=3, **WHOLE_INTENT)
    call = Call(
        "0.0", "h", "tool", at, "pay", '{"amount":1}', CallState.UNDER_WAY, intended, 3, **WHOLE_INTENT
    )
    assert told.call() == call
    assert told.state.intents.get("t1:0.0") == OpenIntent("t1", "/a", TRACE, call)
    assert call_id("t1", "0.0") == "t1:0.0"


def test_an_intent_of_an_earlier_version_says_what_it_knew() -> None:
    told = Calling()
    at = told.propose()
    intended = told.intend()
    assert told.call() == Call("0.0", "h", "tool", at, "pay", "{}", CallState.UNDER_WAY, intended, 1)


@pytest.mark.parametrize(
    ("before", "now", "then"),
    [
        ({"effects": "external"}, {"effects": "none"}, {"effects": "external"}),
        ({"effects": "none"}, {"effects": "local"}, {"effects": "local"}),
        ({}, {"effects": "local"}, {"effects": "local"}),
        ({"on_doubt": "retry"}, {"on_doubt": "retry"}, {"on_doubt": "retry"}),
        ({"on_doubt": "retry"}, {"on_doubt": "lost"}, {"on_doubt": "ask"}),
        ({"probe": True}, {"probe": True}, {"probe": True}),
        ({"probe": False}, {"probe": True}, {"probe": False}),
        ({"probe": True}, {"probe": False}, {"probe": False}),
        ({"replaces": "x"}, {"replaces": "y"}, {"replaces": "y"}),
        ({"pid": 7}, {"pid": 8, "effect_id": "f"}, {"pid": 8, "effect_id": "f"}),
    ],
)
def test_after_an_attempt_that_is_unsettled_the_more_cautious_word_of_the_two_goes(
    before: dict[str, Any], now: dict[str, Any], then: dict[str, Any]
) -> None:
    told = Calling()
    told.propose()
    told.intend(**before)
    told.probed("unknown")
    assert not told.call().unsettled
    second = told.intend(attempt=2, **now)
    call = told.call()
    assert (call.unsettled, call.attempt, call.intent_seq, call.probed) == (True, 2, second, "")
    assert {name: getattr(call, name) for name in then} == then
    assert told.open == ["t1:0.0"]


def test_an_outcome_ends_its_call_and_says_where_it_stands() -> None:
    told = Calling(result_bytes=100)
    told.propose()
    told.intend()
    at = told.outcome("ok", "done")
    assert told.call().outcome == {"status": "ok", "result": "done", "truncated": False}
    assert (told.call().state, told.call().outcome_seq, told.open) == (CallState.ENDED, at, [])
    told.outcome("error", "late")
    assert (told.call().outcome_seq, told.call().attempt) == (at, 1), "the first one stands"


@pytest.mark.parametrize(
    ("most", "truncated", "kept"),
    [
        (3, False, ("don", True)),
        (4, False, ("done", False)),
        (4, True, ("done", True)),
        (0, False, ("done", False)),
    ],
)
def test_no_more_of_a_result_is_kept_than_the_turn_is_ever_handed(
    most: int, truncated: bool, kept: tuple[str, bool]
) -> None:
    told = Calling(result_bytes=most)
    told.propose()
    told.outcome("ok", "done", attempt=0, truncated=truncated)
    assert told.call().outcome == {"status": "ok", "result": kept[0], "truncated": kept[1]}


def test_only_the_newest_attempt_says_what_became_of_it() -> None:
    told = Calling()
    told.propose()
    told.intend(attempt=2)
    said = {**HEAD, "status": "ok", "result": "", "truncated": False}
    assert told.state.calls.said({**said, "attempt": 1}) is None
    assert told.state.calls.said({**said, "attempt": 2}) is CallState.ENDED
    assert told.state.calls.said({**said, "ordinal": "0.1", "attempt": 2}) is None
    told.outcome("ok")
    assert told.call().state is CallState.UNDER_WAY


def test_what_was_asked_anew_has_no_open_intent_of_what_was_there_before() -> None:
    told = Calling()
    told.propose()
    told.intend()
    told.entry("turn.diverged", **HEAD, recorded="{}", asked="{}")
    told.entry("turn.decided", **HEAD, decision="accept")
    assert (told.state.turns["t1"].calls, told.open) == ({}, ["t1:0.0"])
    told.propose()
    assert told.open == []


# -- what is forgotten -----------------------------------------------------------------------------------------------


def test_a_person_who_accepts_another_call_has_all_forgotten_from_there_on() -> None:
    told = Calling()
    for ordinal in ("0.9", "0.10", "1.0", "0.2"):
        told.propose(ordinal, arguments="x" * 10)
    turn = told.state.turns["t1"]
    assert [call.ordinal for call in forgotten(turn, "0.9")] == ["0.9", "0.10", "1.0"]
    told.entry("turn.diverged", turn="t1", ordinal="0.10", recorded="{}", asked="{}")
    told.entry("turn.decided", turn="t1", ordinal="0.10", decision="accept")
    assert (list(turn.calls), told.state.kept_bytes) == (["0.9", "0.2"], 20)


@pytest.mark.parametrize("decision", ["again", "dead"])
def test_no_other_decision_forgets_a_call(decision: str) -> None:
    told = Calling()
    told.propose()
    told.entry("turn.diverged", **HEAD, recorded="{}", asked="{}")
    told.entry("turn.decided", **HEAD, decision=decision)
    assert list(told.state.turns["t1"].calls) == ["0.0"]


def test_nothing_is_forgotten_of_a_turn_that_is_not_parked() -> None:
    told = Calling()
    told.propose()
    told.entry("turn.decided", **HEAD, decision="accept")
    told.entry("turn.decided", turn="t2", ordinal="0.0", decision="accept")
    assert list(told.state.turns["t1"].calls) == ["0.0"]


# -- what they hold --------------------------------------------------------------------------------------------------


def test_the_calls_of_open_turns_are_counted_by_what_was_asked_and_answered() -> None:
    told = Calling(result_bytes=3)
    told.message(2, "/b")
    told.turn(2, "/b")
    kept = told.state.calls.kept
    assert kept == told.restored().calls.kept == {"t1": 0, "t2": 0}
    told.propose(arguments="x" * 10)
    told.propose(arguments="y" * 5, turn="t2")
    assert (kept, told.state.kept_bytes) == ({"t1": 10, "t2": 5}, 15)
    told.intend()
    told.outcome("ok", "four")
    assert (kept, told.state.kept_bytes) == ({"t1": 13, "t2": 5}, 18)
    told.entry("model.asked", **{**ASKED, "ordinal": "0.1"}, asked="x" * 4)
    told.entry("model.asked", **{**ASKED, "ordinal": "0.1"}, asked="x" * 6)
    assert kept["t1"] == 19, "asked again, in the place of what was there"
    told.entry(
        "model.answered",
        **{**HEAD, "ordinal": "0.1"},
        status="ok",
        answer="ab",
        input_tokens=1,
        output_tokens=1,
    )
    assert kept["t1"] == 21
    told.turn(1, attempt=2)
    assert kept["t1"] == 21
    told.entry("turn.ended", turn="t9", status="ok")
    told.end()
    assert (kept, told.state.kept_bytes) == ({"t2": 5}, 5)
    told.entry("message.dead", id="m2", why="w")
    assert (kept, told.state.kept_bytes) == ({}, 0)


# -- in a snapshot ---------------------------------------------------------------------------------------------------


def seen(state: State) -> Any:
    calls, intents = state.calls, state.intents
    return (
        {turn.id: turn.calls for turn in state.turns.values()},
        sorted(intents, key=lambda one: one.id),
        [one.id for one in intents.doubts()],
        (intents.doubts_count, intents.doubts_bytes, calls.kept, calls.kept_bytes),
    )


def test_a_snapshot_has_all_calls_and_the_intents_that_outlived_their_turns() -> None:
    told = Calling(result_bytes=9)
    told.propose("0.0", "x" * 3)
    told.propose("0.1", "x" * 5)
    for ordinal in ("0.1", "0.0"):
        told.intend(ordinal, **WHOLE_INTENT)
    told.outcome("in_doubt")
    told.end()
    told.message(2)
    told.turn(2)
    for ordinal, status in (("0.0", "ok"), ("0.1", "in_doubt"), ("0.2", "")):
        told.propose(ordinal, "y" * 7, turn="t2")
        told.intend(ordinal, turn="t2")
        if status:
            told.outcome(status, "done", ordinal, turn="t2")
    told.entry("sys.value", **{**ASKED, "turn": "t2", "ordinal": "1.0"}, op="now", value=0.5)
    again = told.restored()
    assert seen(again) == seen(told.state)
    assert again.intents.get("t2:0.1") == told.state.intents.get("t2:0.1")
    turns, alone = told.state.calls.rows()
    assert [turn for turn, _ in turns] == ["t2"]
    assert [(turn, address, trace, row[0]) for turn, address, trace, row in alone] == [
        ("t1", "/a", TRACE, "0.1"), ("t1", "/a", TRACE, "0.0"),
    ]  # fmt: skip


ROW_1: list[Any] = ["0.0", "h", "tool", 11, "pay", "{}", -1, 1, None, False]
ROWS_2: list[tuple[str, int, Any, bool, str]] = [
    ("tool", -1, None, False, "proposed"),
    ("model", -1, None, False, "asked"),
    ("tool", 0, None, False, "under way"),
    ("tool", 12, None, False, "under way"),
    ("tool", 12, None, True, "in doubt"),
    ("tool", 12, {"status": "ok"}, True, "ended"),
]


@pytest.mark.parametrize(("op", "intent_seq", "outcome", "doubt", "state"), ROWS_2)
def test_a_call_of_format_2_has_its_state_in_four_fields(
    op: str, intent_seq: int, outcome: Any, doubt: bool, state: str
) -> None:
    asked = ["0.0", "h", op, 11, "pay", "{}"]
    row = [*asked, intent_seq, 1, outcome, doubt, True, "x", "local"]
    now = [*asked, state, intent_seq, 1, outcome, True, "x", "local"]
    migrated = Calls.MIGRATIONS[2]([[["t1", [row]]], [["t2", "/a", TRACE, row]]])
    assert migrated == [[["t1", [now]]], [["t2", "/a", TRACE, now]]]


def test_a_call_of_format_1_knows_of_no_earlier_attempt_nor_what_its_effects_were() -> None:
    assert Calls.MIGRATIONS[1]([[["t1", [ROW_1]]], []]) == [[["t1", [[*ROW_1, False, "", ""]]]], []]
