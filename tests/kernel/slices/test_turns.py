"""The slice of turns: what a turn that is taken up again knows of its earlier deliveries, and what parks it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel.abi import EndInTurn, OnDoubt
from kernel.model.machines.call_states import CallEvent, CallState
from kernel.slices.turns import Call, Turn, Turns, rank
from tests.kernel.slices.told import Told

CALL: dict[str, Any] = {"turn": "t1", "ordinal": "0.0", "call_hash": "h", "tool": "pay"}
LOST = ("cell_lost", "cell_lost: the cell died")
DIED = ("crash", "timeout", "no_progress", "refused", "crash: ValueError: no")
BESIDE = ("normal", "shutdown", "killed", "crashed", "")


def begun(**more: Any) -> Told:
    """The turn of ``m1`` at ``/a`` has begun, and ``m2`` waits behind it."""
    told = Told()
    told.message(1, session="s")
    told.message(2)
    told.turn(1, **more)
    return told


def exits(told: Told, reason: str, address: str = "/a", **more: Any) -> None:
    told.entry("process.exited", address=address, pid=7, reason=reason, detail="d", **more)


def diverges(told: Told) -> int:
    return told.entry("turn.diverged", turn="t1", ordinal="1.2", recorded='{"op":"a"}', asked='{"op":"b"}')


def asks(told: Told, ordinal: str) -> int:
    return told.entry("model.asked", **{**CALL, "ordinal": ordinal})


def answers(told: Told, ordinal: str, turn: str = "t1") -> int:
    body = {"turn": turn, "ordinal": ordinal, "status": "ok", "answer": "{}"}
    return told.entry("model.answered", **body, input_tokens=1, output_tokens=2)


# -- deliveries ------------------------------------------------------------------------------------------------------


def test_a_turn_has_its_message_and_what_its_first_delivery_was_told() -> None:
    told = begun(config='{"n":1}', result_bytes=9)
    mail = told.state.mail.find("m1")
    assert mail is not None
    assert dict(told.state.turns) == {"t1": Turn("t1", mail, "/a", 3, config='{"n":1}', result_bytes=9)}


def test_a_turn_of_before_deliveries_were_told_anything_says_so() -> None:
    turn = begun().state.turns["t1"]
    assert (turn.config, turn.result_bytes, turn.attempt, turn.ends) == ("", 0, 1, "")


def test_tools_that_the_first_delivery_was_not_told_of_stay_withheld() -> None:
    told = begun(withheld=["pay", "sign"])
    told.turn(1, attempt=2, withheld=[])
    assert told.state.turns["t1"].withheld == ("pay", "sign")
    assert begun().state.turns["t1"].withheld == ()


def test_what_the_first_delivery_was_told_goes_for_the_next_one_too() -> None:
    told = begun(config='{"n":1}', result_bytes=9)
    again = told.turn(1, attempt=2, config='{"n":2}', result_bytes=8, ends=0)
    turn = told.state.turns["t1"]
    assert (turn.attempt, turn.started_seq, turn.config, turn.result_bytes) == (2, again, '{"n":1}', 9)


@pytest.mark.parametrize(
    "wrong", [{"address": "/b"}, {"message": "m3"}, {"turn": "t2"}, {"turn": "t2", "message": "m1"}]
)
def test_a_turn_begins_only_of_the_message_that_it_is_named_after_in_the_mailbox_of_its_address(
    wrong: dict[str, str],
) -> None:
    told = Told()
    told.message(1)
    told.turn(1, **{"address": "/a", **wrong})
    assert dict(told.state.turns) == {}


def test_a_turn_that_is_parked_is_not_handed_out() -> None:
    told = begun()
    diverges(told)
    told.turn(1, attempt=2)
    turn = told.state.turns["t1"]
    assert (turn.attempt, turn.started_seq) == (1, 3)


# -- how incarnations ended in it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", DIED)
def test_who_dies_of_a_turn_is_counted_and_told_with_the_questions_it_had_put(reason: str) -> None:
    told = begun()
    exits(told, reason, turn="t1")
    asks(told, "0.0")
    asks(told, "0.1")
    told.entry("tool.proposed", **{**CALL, "ordinal": "0.2"}, arguments="{}")
    exits(told, reason, turn="t1")
    turn = told.state.turns["t1"]
    assert (turn.crashes, turn.losses) == (2, 0)
    assert turn.told_ends() == (EndInTurn(7, 0, reason, "d"), EndInTurn(7, 2, reason, "d"))


def test_who_dies_beside_its_turn_is_counted_and_not_told() -> None:
    told = begun()
    exits(told, "crash", turn="")
    exits(told, "crash")
    exits(told, "crash", turn="t2")
    assert (told.state.turns["t1"].crashes, told.state.turns["t1"].told_ends()) == (3, ())


@pytest.mark.parametrize("reason", LOST)
def test_a_cell_that_dies_is_a_loss_of_the_turn_that_it_names_and_of_no_other(reason: str) -> None:
    told = begun()
    for more in ({}, {"turn": ""}, {"turn": "t2"}):
        exits(told, reason, **more)
    assert told.state.turns["t1"].losses == 0
    exits(told, reason, turn="t1")
    exits(told, reason, turn="t1")
    turn = told.state.turns["t1"]
    assert (turn.losses, turn.crashes, turn.ends) == (2, 0, "")


@pytest.mark.parametrize("reason", BESIDE)
def test_other_ends_are_no_fault_of_the_turn(reason: str) -> None:
    told = begun()
    exits(told, reason, turn="t1")
    turn = told.state.turns["t1"]
    assert (turn.losses, turn.crashes, turn.ends) == (0, 0, "")


def test_an_end_at_an_address_without_an_open_turn_is_of_no_turn() -> None:
    told = begun()
    for reason in (*DIED, *LOST):
        exits(told, reason, address="/b")
    assert told.state.turns["t1"].crashes == told.state.turns["t1"].losses == 0


def test_ends_are_forgotten_when_a_version_that_tells_of_none_hands_the_turn_out() -> None:
    cases: list[tuple[dict[str, Any], int]] = [({"ends": 1}, 1), ({}, 0)]
    for told_of, left in cases:
        told = begun()
        exits(told, "crash", turn="t1")
        told.turn(1, attempt=2, **told_of)
        turn = told.state.turns["t1"]
        assert (len(turn.told_ends()), turn.ends == "", turn.crashes) == (left, not left, 1)


# -- parked ----------------------------------------------------------------------------------------------------------


def test_a_turn_that_diverged_is_parked_with_both_calls_until_a_person_has_decided() -> None:
    told = begun()
    assert told.state.parked() == []
    at = diverges(told)
    turn = told.state.turns["t1"]
    assert json.loads(turn.diverged) == {
        "ordinal": "1.2", "seq": at, "time_us": 1000 + at, "recorded": {"op": "a"}, "asked": {"op": "b"},
    }  # fmt: skip
    assert told.state.parked() == [turn]
    told.entry("turn.decided", turn="t1", ordinal="1.2", decision="again")
    assert (turn.diverged, told.state.parked()) == ("", [])


def test_a_turn_that_is_parked_or_not_there_does_not_diverge() -> None:
    told = begun()
    diverges(told)
    before = told.state.turns["t1"].diverged
    diverges(told)
    assert told.state.turns["t1"].diverged == before
    told.entry("turn.ended", turn="t1", status="ok")
    diverges(told)
    assert dict(told.state.turns) == {}


@pytest.mark.parametrize("decision", ["again", "accept", "dead"])
def test_nobody_decides_of_a_turn_that_is_open_or_not_there(decision: str) -> None:
    told = begun()
    for turn in ("t1", "t2"):
        told.entry("turn.decided", turn=turn, ordinal="1.2", decision=decision)
    assert (told.state.turns["t1"].diverged, list(told.state.turns)) == ("", ["t1"])


# -- its end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["ok", "error", "cancelled", "diverged", "poison"])
def test_a_turn_that_has_ended_is_open_no_more(status: str) -> None:
    told = begun()
    told.entry("turn.ended", turn="t2", status=status)
    assert list(told.state.turns) == ["t1"]
    told.entry("turn.ended", turn="t1", status=status)
    assert dict(told.state.turns) == {}


def test_a_dead_letter_takes_its_turn_along_and_no_other() -> None:
    told = begun()
    told.entry("message.dead", id="m2", why="w")
    assert list(told.state.turns) == ["t1"]
    told.entry("message.dead", id="m1", why="w")
    assert dict(told.state.turns) == {}


# -- whose turn it is ------------------------------------------------------------------------------------------------


def test_the_turn_of_an_address_is_that_of_its_oldest_message_that_has_begun() -> None:
    told = Told()
    assert told.state.turns.at("/a") is None
    for ident in (1, 2, 3):
        told.message(ident)
    assert told.state.turns.at("/a") is None
    told.turn(3)
    told.turn(2)
    assert (told.state.turns.at("/a"), told.state.turns.at("/b")) == (told.state.turns["t2"], None)
    told.entry("turn.ended", turn="t2", status="ok")
    assert told.state.turns.at("/a") is told.state.turns["t3"]


def test_a_session_is_in_use_while_the_turn_of_its_address_is_in_it() -> None:
    turns = begun().state.turns
    assert turns.in_session(("/a", "s"))
    assert not turns.in_session(("/a", "main"))
    assert not turns.in_session(("/b", "s"))


def test_the_newest_answer_of_a_turn_is_that_of_a_question_it_waits_for() -> None:
    told = begun()
    assert told.state.turns["t1"].last_answer_seq == -1
    asks(told, "0.0")
    asks(told, "0.1")
    answers(told, "0.2")
    answers(told, "0.0", turn="t2")
    assert told.state.turns["t1"].last_answer_seq == -1, "of calls that are not there"
    first, second = answers(told, "0.0"), answers(told, "0.1")
    assert told.state.turns["t1"].last_answer_seq == second > first
    answers(told, "0.0")
    assert told.state.turns["t1"].last_answer_seq == second, "of a question that has its answer"


# -- in a snapshot ---------------------------------------------------------------------------------------------------


def test_a_snapshot_has_all_of_each_open_turn_in_their_order() -> None:
    told = begun(config='{"n":1}', result_bytes=9)
    told.turn(2)
    asks(told, "0.0")
    answers(told, "0.0")
    exits(told, "crash", turn="t1")
    exits(told, "cell_lost", turn="t1")
    told.turn(1, attempt=2, ends=1)
    diverges(told)
    again = told.restored().turns
    assert (list(again), dict(again)) == (["t1", "t2"], dict(told.state.turns))
    assert again["t1"].mail == told.state.mail.find("m1")


@pytest.mark.parametrize(
    "names",
    [[("m3", "t3")], [("m2", "t1")], [("m1", "t1"), ("m1", "t1")]],
    ids=["unknown", "another", "twice"],
)
def test_a_turn_without_a_message_of_its_own_is_no_state(names: list[tuple[str, str]]) -> None:
    told = begun()
    [[_, _, *rest]] = told.state.turns.rows()
    words = f"^the message '{names[0][0]}' of a turn is in no mailbox, or in two turns$"
    with pytest.raises(ValueError, match=words):
        Turns(told.state.mail).restore([[message, turn, *rest] for message, turn in names])


# -- a call ----------------------------------------------------------------------------------------------------------


def test_calls_stand_in_the_order_of_their_rounds_and_of_their_places_there() -> None:
    assert sorted(["10.0", "2.10", "2.9", "0.0"], key=rank) == ["0.0", "2.9", "2.10", "10.0"]
    assert rank("12.3") == (12, 3)


@pytest.mark.parametrize(
    "ordinal", ["", "1", "1.", ".1", "a.1", "1.a", "1.2.3", "-1.2", "1.-2", " 1.2", "²."]
)
def test_what_is_no_ordinal_stands_before_all_calls(ordinal: str) -> None:
    assert rank(ordinal) == (-1, -1) < rank("0.0")


def test_two_attempts_agree_on_a_doubt_or_a_person_is_asked() -> None:
    call = Call("0.0", "h", "tool", 1, on_doubt="retry")
    words: tuple[OnDoubt, ...] = ("retry", "lost", "ask")
    assert [call.agreed(word) for word in words] == ["retry", "ask", "ask"]


def test_what_the_table_does_not_have_changes_nothing() -> None:
    call = Call("0.0", "h", "tool", 1, state=CallState.ENDED)
    assert (call.after(CallEvent.FORGET), call.after(CallEvent.END)) == (CallState.ABSENT, None)
