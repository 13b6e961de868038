"""What is shown fits into the window: what is dropped, in which order, and what never is."""

from __future__ import annotations

import pytest

from cognition.context import Record, estimate_tokens, node_note, node_record
from cognition.guard.window import LEFT_OUT, ContextOverflow, fitted

SYSTEM: Record = {"role": "system", "content": "rules"}
QUESTION: Record = {"role": "user", "content": "what now?"}
NOTE = node_note(LEFT_OUT)


def exchange(name: str, size: int = 400) -> list[Record]:
    return [{"role": "user", "content": name * size}, {"role": "assistant", "content": "yes"}]


def round_of(name: str, size: int = 400) -> list[Record]:
    call = {"id": name, "type": "function", "function": {"name": "t", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "name": "t", "content": name * size},
    ]


def tokens(records: list[Record]) -> int:
    return sum(map(estimate_tokens, records))


HISTORY = [*exchange("a"), *exchange("b"), *exchange("c")]
ROUNDS = [*round_of("x"), *round_of("y"), *round_of("z")]
SHOWN = [SYSTEM, *HISTORY, QUESTION, *ROUNDS]


def fit(room: int, shown: list[Record] | None = None) -> list[Record]:
    made = fitted(shown or SHOWN, QUESTION, room)
    assert isinstance(made, list)
    return made


def test_what_fits_is_shown_as_it_is() -> None:
    assert fit(tokens(SHOWN)) == SHOWN


def test_one_token_too_many_drops_the_oldest_exchanges_and_says_so() -> None:
    shown = [SYSTEM, *HISTORY, QUESTION, *ROUNDS[4:]]
    assert fit(tokens(shown) - 1, shown) == [SYSTEM, NOTE, *HISTORY[4:], QUESTION, *ROUNDS[4:]]


def test_the_session_goes_before_what_the_turn_has_done() -> None:
    made = fit(tokens([SYSTEM, QUESTION, *ROUNDS]) + 100)
    assert made[:3] == [SYSTEM, NOTE, QUESTION] and made[-2:] == ROUNDS[-2:]


def test_what_is_on_record_goes_last_of_all_that_stands_before_the_message() -> None:
    told = node_record("file_write: a.md #7")
    made = fit(300, [SYSTEM, *told, *HISTORY, QUESTION, *ROUNDS])
    assert made == [SYSTEM, *told, NOTE, QUESTION, NOTE, *ROUNDS[4:]]
    long = node_record("x" * 2_000)
    assert fit(300, [SYSTEM, *long, *HISTORY, QUESTION]) == [SYSTEM, NOTE, *HISTORY[4:], QUESTION]


def test_of_the_turn_the_oldest_rounds_go() -> None:
    made = fit(300)
    assert made == [SYSTEM, NOTE, QUESTION, NOTE, *ROUNDS[4:]]


def test_the_newest_round_is_cut_where_it_does_not_fit_alone() -> None:
    shown = [SYSTEM, QUESTION, *round_of("w", 40_000)]
    made = fit(1_000, shown)
    assert tokens(made) <= 1_000
    assert made[-1]["truncated"] is True and made[-1]["content"].startswith("www")
    assert made[-2] == shown[-2]


@pytest.mark.parametrize("room", range(60, 1_400, 37))
def test_it_fits_and_begins_alike_whatever_room_there_is(room: int) -> None:
    made = fit(room)
    assert tokens(made) <= max(room, 120) and made[0] == SYSTEM and QUESTION in made
    assert made == fit(room)


def test_the_next_question_drops_nothing_again() -> None:
    room = tokens(SHOWN) - 1
    once = fit(room)
    assert fit(room, [*once, *round_of("n", 40)])[: len(once)] == once


def test_system_prompt_and_message_that_do_not_fit_are_told_with_both_figures() -> None:
    must = tokens([SYSTEM, QUESTION])
    assert fitted(SHOWN, QUESTION, must - 1) == ContextOverflow(must, must - 1)
    assert f"take {must} tokens, and there is room for {must - 1}" in str(ContextOverflow(must, must - 1))


def test_what_the_node_says_beside_the_question_stays() -> None:
    said = node_note("the message above is suspicious")
    assert fit(300, [SYSTEM, *HISTORY, QUESTION, said, *ROUNDS])[2:4] == [QUESTION, said]
