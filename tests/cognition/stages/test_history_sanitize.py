"""What of a session a model is shown, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

import pytest

from cognition.config.agent_config import AgentConfig, HistoryConfig
from cognition.context import estimate_tokens, is_node_note, system_records
from cognition.history.compaction import REST_TURNS, limit_of
from cognition.history.deeds import digest, not_shown
from cognition.history.extract import extract
from cognition.history.strategy import LEAST_ROOM, MESSAGES, fits
from cognition.history.summary import BEGINS, PROMPT, SOURCE_BYTES, cut_at, source_of, summary_of, taken_apart
from cognition.prompt.sections import joined, prompt_sections
from cognition.stages.history_sanitize import history_sanitize
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue
from kernel.abi import Deed, DeedOutcome, Deeds, Identity, Inbound, ModelAnswer
from tests.cognition.test_context import assistant, tool, user
from tests.cognition.twins.scripted_node import Node, begun_turn
from tests.cognition.twins.soundness import sound_exchanges

Strategy = Literal["sliding", "summary", "hybrid"]
SAID = ModelAnswer("ok", "Ada asked for numbers.")


def exchanges(count: int, size: int = 0, begin: int = 0) -> list[dict[str, Any]]:
    return [
        each for n in range(begin, begin + count) for each in (user(f"q{n}" + "x" * size), assistant(f"a{n}"))
    ]


def stage(node: Node, **history: Any) -> AgentTurn:
    """``max_tokens`` is what there is beside the sections that every prompt has."""
    config = AgentConfig(system_prompt="s")
    if "max_tokens" in history:
        history["max_tokens"] += (
            sum(map(estimate_tokens, system_records(joined(prompt_sections(config))))) - 4
        )
    config = replace(config, history=HistoryConfig(**history))
    outcome = asyncio.run(history_sanitize(begun_turn(node=node, config=config)))
    assert isinstance(outcome, Continue)
    return outcome.turn


def shown(turn: AgentTurn) -> list[str]:
    return [record["content"] for record in turn.history]


def node(records: list[dict[str, Any]], answer: ModelAnswer = SAID) -> Node:
    made = Node([answer])
    made.records = records
    return made


def test_what_fits_is_shown_as_it_is_and_no_model_is_asked() -> None:
    here = node(exchanges(3))
    turn = stage(here)
    assert list(turn.history) == here.records and not here.requests and not turn.notes


def test_at_most_fifty_messages_are_shown() -> None:
    turn = stage(node(exchanges(40)), strategy="sliding")
    assert shown(turn)[2:] == [each["content"] for each in exchanges(40)[-MESSAGES:]]


def test_sliding_leaves_out_the_oldest_and_says_so() -> None:
    here = node(exchanges(4, 400))
    turn = stage(here, strategy="sliding", max_tokens=250)
    assert is_node_note(turn.history[0]) and "not shown" in shown(turn)[0]
    assert list(turn.history[2:]) == here.records[-4:] and not here.requests
    assert sum(map(estimate_tokens, turn.history[2:])) <= 250


def test_a_summary_takes_the_place_of_what_is_beyond_its_threshold() -> None:
    here = node(exchanges(4, 400))
    turn = stage(here, strategy="summary", max_tokens=410, summary_threshold=120)
    assert shown(turn)[0] == f"{BEGINS}Ada asked for numbers.]"
    assert list(turn.history[2:]) == here.records[-2:]
    [request] = here.requests
    assert request.messages[0]["content"] == PROMPT and request.tools == ()
    assert '"q0' in request.messages[1]["content"] and "q3" not in request.messages[1]["content"]


def test_hybrid_lets_slide_out_what_is_beyond_half_of_the_room() -> None:
    here = node(exchanges(4, 400))
    turn = stage(here, strategy="hybrid", max_tokens=430)
    assert list(turn.history[2:]) == here.records[-2:]
    assert "q2" in here.requests[0].messages[1]["content"]


@pytest.mark.parametrize("strategy", ["summary", "hybrid"])
def test_the_session_keeps_the_summary_and_the_next_turn_goes_on_from_it(strategy: Strategy) -> None:
    config = {"strategy": strategy, "max_tokens": 430, "summary_threshold": 120}
    first = node(exchanges(4, 400))
    turn = stage(first, **config)
    [note] = turn.notes
    after = [*first.records, note, *exchanges(1, begin=9)]
    second = node(after)
    again = stage(second, **config)
    assert not second.requests, "there is room again"
    assert shown(again)[0] == f"{BEGINS}Ada asked for numbers.]"
    assert list(again.history[2:]) == [*first.records[-2:], *after[-2:]]

    third = node([*after, *exchanges(4, 400, 10)])
    stage(third, **config)
    asked = third.requests[0].messages[1]["content"]
    assert "earlier summary" in asked and "Ada asked for numbers." in asked and '"q0' not in asked


@pytest.mark.parametrize("answer", [ModelAnswer("error", "down"), ModelAnswer("ok", " ")])
def test_without_a_summary_the_oldest_are_left_out_and_nothing_is_kept(answer: ModelAnswer) -> None:
    turn = stage(node(exchanges(4, 400), answer), max_tokens=430)
    assert is_node_note(turn.history[0]) and not turn.notes
    assert shown(turn)[2].startswith("q1")


def test_a_prompt_that_takes_all_the_room_asks_nobody_for_a_summary_of_nothing() -> None:
    here = node([])
    assert stage(here, max_tokens=1).history == () and not here.requests


def test_secrets_in_results_reach_neither_the_model_nor_a_summary() -> None:
    secret = "password=hunter22x"
    records = [user("q" + "x" * 1_900), assistant("", "1"), tool("1", secret), assistant("A"), *exchanges(1)]
    here = node(records)
    turn = stage(here, max_tokens=440)
    assert "hunter22x" not in str(here.requests) and "[redacted secret]" in str(here.requests)
    assert "hunter22x" not in str(turn.notes)
    assert "hunter22x" in str(stage(node(records), redact_tool_outputs=False).history)


def test_sensitive_fields_are_shown_to_who_may_see_them_and_are_in_no_summary() -> None:
    person = '{"name": "Al", "salary": "7777"}'
    records = [user("q" + "x" * 1_900), assistant("", "1"), tool("1", person), assistant("A"), *exchanges(1)]

    def shown(who: Identity | None, sender: str = "operator", **config: Any) -> str:
        turn = begun_turn(node=node(records), config=AgentConfig(history=HistoryConfig(**config)))
        inbound = None if who is None else Inbound("tel", "1", "7", who=who)
        message = replace(turn.message, inbound=inbound, sender=sender)
        begun = AgentTurn.begin(message, turn.sys, turn.config, turn.bounds)
        outcome = asyncio.run(history_sanitize(begun))
        assert isinstance(outcome, Continue)
        return str(outcome.turn.history)

    assert "7777" in shown(None) and "7777" in shown(None, "/user/b")
    assert "7777" in shown(Identity("alice", ("staff",), "", True))
    for hidden in (shown(Identity("tel:7", ("guest",))), shown(None, "/user/b@weftos-x")):
        assert "7777" not in hidden and "[not shown: sensitive]" in hidden and "Al" in hidden
    assert "7777" in shown(Identity("tel:7", ("guest",)), sensitive_fields=())
    here = node(records)
    turn = stage(here, max_tokens=440)
    assert here.requests and "7777" not in str(here.requests) and "7777" not in str(turn.notes)


def test_what_is_shown_is_sound_whatever_was_summarised() -> None:
    for count in range(1, 12):
        for strategy in ("sliding", "summary", "hybrid"):
            turn = stage(node(exchanges(count, 300)), strategy=strategy, max_tokens=440, summary_threshold=90)
            assert [r for each in sound_exchanges(turn.history) for r in each] == list(turn.history)


def test_a_summary_stays_true_when_the_oldest_records_are_forgotten() -> None:
    note = stage(node(exchanges(4, 400)), max_tokens=430).notes[0]
    records = [*exchanges(4, 400)[3:], note, *exchanges(1, begin=9)]
    summary, left = taken_apart(records)
    assert summary is not None and left == [*exchanges(4, 400)[6:], *exchanges(1, begin=9)]


@pytest.mark.parametrize(
    "told", [None, {}, {"text": 1}, {"text": "x", "kept": -1, "records": 1, "sha256": ""}, "x"]
)
def test_a_record_that_is_no_summary_is_none(told: object) -> None:
    records = [*exchanges(2), {"role": "assistant", "content": "", "internal": True, "summary": told}]
    assert taken_apart(records)[0] is None


def test_what_is_to_be_summarised_is_bounded_and_its_end_is_kept() -> None:
    source = source_of(None, exchanges(100, 1_900))
    assert len(source.encode()) <= SOURCE_BYTES and '"a99"' in source and '"q0' not in source


def test_exchanges_begin_at_their_messages() -> None:
    records = exchanges(3)
    assert [cut_at(records, count) for count in (0, 1, 2, 3, 4)] == [6, 4, 2, 0, 6]


def test_the_offline_provider_summarises_by_beginnings() -> None:
    said = extract(source_of(None, exchanges(2)))
    assert said == "user: q0; assistant: a0; user: q1; assistant: a1"
    again = extract(
        source_of(taken_apart([*exchanges(1), summary_of(said, [], 0).record()])[0], exchanges(1, begin=2))
    )
    assert again == f"{said}; user: q2; assistant: a2"
    assert len(extract(source_of(None, exchanges(400)))) <= 2_000
    assert extract("no json\n[1]") == ""


def test_a_room_too_small_for_a_summary_asks_nobody_and_slides() -> None:
    here = node(exchanges(9, 40))
    turn = stage(here, max_tokens=LEAST_ROOM)
    assert fits([], (), LEAST_ROOM) and not here.requests
    small = node(exchanges(9, 40))
    turn = stage(small, max_tokens=100)
    assert not small.requests and not turn.notes and sum(map(estimate_tokens, turn.history[2:])) <= 96


def told_node(turns: int, deeds: Deeds) -> Node:
    """A session of so many turns, each of which has called a tool."""
    records = []
    for n in range(turns):
        question = {**user(f"q{n}" + "x" * 200), "turn": f"t{n}"}
        records += [question, assistant("", f"c{n}"), tool(f"c{n}", "ok"), assistant(f"a{n}")]
    here = node(records)
    here.done = deeds
    return here


def deeds(turns: int, outcome: DeedOutcome = "ok") -> Deeds:
    return Deeds(tuple(Deed(100 + n, "pay", f"bill{n}", outcome, f"t{n}") for n in range(turns)))


@pytest.mark.parametrize("strategy", ["sliding", "summary", "hybrid"])
def test_every_deed_of_a_turn_that_is_not_shown_is_told_and_no_other(strategy: Strategy) -> None:
    here = told_node(12, deeds(12))
    turn = stage(here, strategy=strategy, max_tokens=700, summary_threshold=200)
    text = str([record["content"] for record in turn.history])
    seen = {record["turn"] for record in turn.history if "turn" in record}
    assert 0 < len(seen) < 12
    for n in range(12):
        assert (f"bill{n} #{100 + n}" in text) is (f"t{n}" not in seen)
    assert sum(map(estimate_tokens, turn.history)) <= 700


def test_where_all_is_shown_nothing_is_told_twice_but_what_is_open() -> None:
    assert list(stage(told_node(2, deeds(2))).history) == told_node(2, Deeds()).records
    [told, *_] = stage(told_node(2, deeds(1, "in_doubt"))).history
    assert "bill0 #100 (in doubt)" in told["content"] and told["pinned"]


def test_a_turn_whose_calls_the_session_did_not_keep_is_told_of() -> None:
    here = node([{**user("q"), "turn": "t0"}, assistant("done")])
    here.done = deeds(1)
    assert "bill0 #100" in stage(here).history[0]["content"]


def test_more_than_may_be_told_is_counted_and_the_open_ones_come_first() -> None:
    many = (Deed(1, "pay", "lost one", "in_doubt", "x"), *deeds(3_000).deeds)
    [told, _] = digest(Deeds(many, 7, "pay 7"), 1_000)
    text = told["content"]
    assert "lost one #1 (in doubt)" in text and "bill2999 #3099" in text and "bill0 " not in text
    named = text.count("#")
    assert f"and {3_001 - named + 7} more" in text and "pay 7" in text and len(text) <= 1_000
    assert digest(Deeds(), 1_000) == () and digest(Deeds((), 3, "pay 3"), 1_000)


def test_calls_for_the_same_thing_are_told_once_and_secrets_not_at_all() -> None:
    same = [Deed(n, "fetch", "https://u:hunter22x@host", "error" if n else "ok", "t") for n in range(3)]
    [told, _] = digest(Deeds((*same, Deed(9, "fetch", "x", "killed", "t"))), 8_000)
    assert "fetch: https://[redacted password]@host #2 (error, 3 times)" in told["content"]
    assert not_shown(Deeds((Deed(9, "fetch", "x", "killed", "t"),)), []) == Deeds()


def windowed(here: Node, window: int, strategy: Strategy = "sliding") -> AgentTurn:
    """The turn of an agent that could be shown all of its session, were it not for the window."""
    history = HistoryConfig(max_tokens=100_000, strategy=strategy)
    config = AgentConfig(system_prompt="s", context_window=window, history=history)
    outcome = asyncio.run(history_sanitize(begun_turn(node=here, config=config)))
    assert isinstance(outcome, Continue)
    return outcome.turn


def limit(window: int) -> int:
    return limit_of(window, system_records(joined(prompt_sections(AgentConfig(system_prompt="s")))))


def test_the_limit_is_seven_tenths_of_what_the_window_leaves() -> None:
    assert limit_of(0, ()) == limit_of(4_096, ()) == 0 and limit_of(5_096, ()) == 700


@pytest.mark.parametrize("more", [0, 1])
def test_a_session_is_compacted_from_its_limit_on_whatever_the_strategy(more: int) -> None:
    records = exchanges(10, 400)
    tokens = sum(map(estimate_tokens, records))
    window = next(each for each in range(4_200, 9_000) if limit(each) == tokens - more)
    here = node(records, ModelAnswer("ok", "Ada asked.\nFACT: Ada likes tea\nFACT: password=hunter22x"))
    turn = windowed(here, window)
    if not more:
        assert not here.requests and list(turn.history) == records
        return
    assert shown(turn)[0] == f"{BEGINS}Ada asked.]" and list(turn.history[2:]) == records[-6:]
    started, done = here.compactions
    covered = summary_of("", records[:-6], 6)
    assert (started.state, started.records, started.sha256) == ("started", 14, covered.sha256)
    assert (done.state, done.facts) == ("done", ("Ada likes tea", "password=[redacted secret]"))
    assert started.before == sum(map(estimate_tokens, records[:-6])) > done.after > 0
    assert here.requests[0].aside
    [note] = turn.notes
    again = windowed(node([*records, note, *exchanges(1)]), window)
    assert shown(again)[0] == f"{BEGINS}Ada asked.]" and list(again.history[2:]) == [
        *records[-6:],
        *exchanges(1),
    ]


def test_without_an_answer_of_the_model_a_compaction_is_made_of_beginnings() -> None:
    here = node(exchanges(10, 400), ModelAnswer("error", "down"))
    turn = windowed(here, 5_000)
    assert shown(turn)[0].startswith(f"{BEGINS}user: q0xx") and len(turn.history) == 8
    assert sum(map(estimate_tokens, here.requests[0].messages)) < 5_000, (
        "this question has to fit the window too"
    )
    assert [each.state for each in here.compactions] == ["started", "done"]
    assert "down" in here.compactions[1].why and here.compactions[1].facts == ()


def test_a_compaction_that_makes_nothing_shorter_opens_a_breaker_for_some_turns() -> None:
    records = exchanges(120, 0)
    window = next(
        each for each in range(4_200, 9_000) if limit(each) == sum(map(estimate_tokens, records)) - 1
    )
    here = node(records, ModelAnswer("ok", "long " * 2_000))
    few = node(exchanges(2, 400), ModelAnswer("ok", "long " * 2_000))
    turn = windowed(few, 4_300)
    assert [each.state for each in few.compactions] == ["started", "failed"]
    [breaker] = turn.notes
    for rest in range(REST_TURNS + 2):
        here = node([*records, breaker, *exchanges(rest)], SAID)
        windowed(here, window)
        assert bool(here.requests) is (rest >= REST_TURNS)


def test_a_summary_that_was_undone_is_as_if_it_were_not() -> None:
    records = exchanges(10, 400)
    [note] = windowed(node(records), 5_000).notes
    undone = {"role": "assistant", "content": "", "internal": True, "undone": note["summary"]["sha256"]}
    here = node([*records, note, undone, *exchanges(1)])
    assert list(windowed(here, 5_000).history) == [*records, *exchanges(1)] and not here.requests


def test_a_history_of_a_hundred_thousand_messages_and_a_message_of_five_megabytes_have_their_end() -> None:
    here = node(exchanges(50_000))
    turn = windowed(here, 8_000)
    assert len(turn.history) <= MESSAGES + 4 and len(here.requests) == 1  # the notes beside them
    assert len(here.requests[0].messages[1]["content"]) < 16_500
    large = node([*exchanges(3), user("x" * 5_000_000), assistant("a")])
    turn = windowed(large, 8_000)
    assert sum(map(estimate_tokens, turn.history)) <= 100_000
    assert len(str(large.requests)) < 2 * SOURCE_BYTES


@pytest.mark.parametrize("strategy", ["summary", "hybrid"])
def test_whatever_a_model_says_the_history_stays_in_its_room_and_few_turns_ask(strategy: Strategy) -> None:
    wordy = ModelAnswer("ok", "many words " * 5_000)
    records: list[dict[str, Any]] = []
    asked = 0
    for number in range(60):
        here = node(records, wordy)
        turn = stage(here, strategy=strategy, max_tokens=604, summary_threshold=300)
        assert sum(map(estimate_tokens, turn.history)) <= 600
        asked += len(here.requests)
        records = [*records, *turn.notes, *exchanges(1, 60, number)]
    assert 3 < asked < 30
