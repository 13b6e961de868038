"""What kind of work a message asks for, and how much: by whole words, in bounds, and with its reasons."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.classification.classifier import classify
from cognition.classification.complexity import PARTS
from cognition.classification.features import HEAD_CHARS, TAIL_CHARS, counted, looked_at, seen_in
from cognition.classification.structure import structure_of
from cognition.classification.task_types import TASK_TYPES
from cognition.classification.weights import BASES, BIAS, WEIGHTS
from cognition.classification.weights import PARTS as WEIGHED_PARTS

PLAIN = {
    "code_generation": "Write a Python function that parses a date",
    "code_review": "Is there anything wrong with this function?\n\ndef f(x):\n    return x + y",
    "research": "Who invented the telescope and when?",
    "creative": "Write a poem about the sea in four verses",
    "analysis": 'Compare these survey results for me: "good", "too loud", "too slow". What stands out?',
    "math": "Solve x^2 - 3x + 2 = 0",
    "tool_use": "Send Anna an email and put the meeting into my calendar",
    "chat": "hi, how are you today",
}
OTHER_LANGUAGES = [
    ("Schreibe eine Python-Funktion, die zwei Listen vergleicht", "code_generation"),
    ("Écris un poème sur la mer", "creative"),
    ("Envía el archivo a mi jefa por correo", "tool_use"),
    ("докажи, что сумма двух чётных чисел чётна", "math"),
    ("Was ist der Unterschied zwischen einem Wal und einem Fisch?", "research"),
]


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_plain_message_of_each_type_is_known(task_type: str) -> None:
    assert classify(PLAIN[task_type]).type == task_type


@pytest.mark.parametrize(("text", "task_type"), OTHER_LANGUAGES)
def test_messages_of_other_languages_are_known(text: str, task_type: str) -> None:
    assert classify(text).type == task_type


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("the classic film", "code_thing"),
        ("a prefix", "change"),
        ("a debugger", "review"),
        ("poetics", "creative_thing"),
    ],
)
def test_a_part_of_a_word_is_no_word(text: str, group: str) -> None:
    assert group not in seen_in(text).words


@pytest.mark.parametrize(
    ("text", "group", "word"),
    [
        ("my CLASS", "code_thing", "class"),
        ("une Fonction", "code_thing", "fonction"),
        ("a unit test.", "code_thing", "unit"),
        ("does C++ do that", "technology", "c++"),
        ("СОЧИНИ", "creative_thing", "сочини"),
    ],
)
def test_a_word_is_found_whatever_its_case_and_alphabet(text: str, group: str, word: str) -> None:
    assert seen_in(text).words[group] == word


def test_a_phrase_counts_where_its_words_stand_together_alone() -> None:
    assert seen_in("the square root").words["math"] == "square"
    assert "quantity" in seen_in("how many").words and "quantity" not in seen_in("many ask how").words


def test_words_in_code_and_in_long_quotations_are_not_counted() -> None:
    code = seen_in("look\n\ndef poem(x):\n    return haiku;")
    quoted = seen_in('look: "a poem and a haiku and a sonnet"')
    assert "creative_thing" not in code.words and "creative_thing" not in quoted.words
    assert code.features["code_lines"] and quoted.features["quotation"]


def test_a_line_that_says_something_before_its_code_is_read() -> None:
    assert "please port this to rust" in structure_of("please port this to rust: for (;;) { x() }").prose


def test_what_a_message_begins_with_is_found_behind_politeness() -> None:
    assert "begins:make" in seen_in("hi, could you please write it").features
    assert "begins:other" in seen_in("").features


def test_of_a_long_message_its_beginning_and_its_end_are_looked_at() -> None:
    limit = HEAD_CHARS + TAIL_CHARS
    assert looked_at("x" * limit) == "x" * limit
    assert len(looked_at("x" * (limit + 1))) == limit + 1
    assert "sonnet" not in looked_at("x " * HEAD_CHARS + "sonnet" + " x" * TAIL_CHARS)
    long = classify("Write a poem. " + "la " * 1_700_000 + "in four verses")
    assert long.type == "creative" and len(long.words) < 500


def test_each_further_word_of_a_group_counts_less() -> None:
    worth = [counted(count) for count in range(6)]
    assert worth == sorted(worth) and worth[3] == worth[5]
    assert all(later <= earlier for earlier, later in pairwise(b - a for a, b in pairwise(worth)))


def test_the_decision_explains_itself() -> None:
    task = classify(PLAIN["creative"])
    assert any(reason.startswith("creative_thing: poem") for reason in task.why)
    assert sum(task.parts.values()) == pytest.approx(task.complexity, abs=0.006)
    assert task.words.startswith("creative (") and f"complexity {task.complexity:.2f}" in task.words


def test_more_that_is_asked_for_is_more_complex() -> None:
    one = classify("Send Anna the file")
    several = classify(
        "Send Anna the file, then delete the copy in every folder, book a room for each team, and write a summary that "
        "must list all steps without names"
    )
    assert one.complexity < several.complexity


def test_every_weight_has_its_types_and_its_parts() -> None:
    assert all(len(row) == len(TASK_TYPES) for row in (*WEIGHTS.values(), BIAS))
    assert tuple(BASES) == TASK_TYPES and len(WEIGHED_PARTS) == len(PARTS)


@given(st.text())
def test_any_text_has_a_type_and_a_complexity_and_always_the_same(text: str) -> None:
    task = classify(text)
    assert task.type in TASK_TYPES and 0.0 <= task.complexity <= 1.0
    assert classify(text) == task


@pytest.mark.parametrize(
    "text",
    ["\x00", "\ud800", "(" * 5_000, "'" * 5_000, " " * 5_000, "a_" * 5_000, "🙂" * 5_000, "1," * 9_000],
)
def test_text_that_is_no_language_is_classified_all_the_same(text: str) -> None:
    assert classify(text).type in TASK_TYPES
