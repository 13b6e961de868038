from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cognition.recall.lexical import BATCH_CHARACTERS, DIMENSIONS, SIZES, embed
from cognition.recall.words import words
from tests.patience import HANG_S


def similarity(one: str, other: str) -> float:
    first, second = embed([one, other])
    return float(first @ second)


def reference(text: str) -> np.ndarray:
    """The definition, word by word and piece by piece, with whole numbers of any size."""
    base = 0x9E3779B97F4A7C15
    sums = np.zeros(DIMENSIONS)

    def add(piece: str) -> None:
        hashed = sum((ord(c) + 1) * base**i for i, c in enumerate(piece)) % 2**64
        hashed = (hashed ^ (hashed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        hashed = (hashed ^ (hashed >> 27)) * 0x94D049BB133111EB % 2**64
        hashed ^= hashed >> 31
        sums[hashed % DIMENSIONS] += 1 if hashed >> 63 else -1

    for word in words(text):
        add(word)
        bounded = f" {word} "
        for size in SIZES:
            for start in range(len(bounded) - size + 1):
                add(bounded[start : start + size])
    damped = np.sign(sums) * np.sqrt(np.abs(sums))
    length = np.linalg.norm(damped)
    return damped / length if length else damped


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_a_batch_is_what_the_definition_says_of_each_text(texts: list[str]) -> None:
    np.testing.assert_allclose(embed(texts), [reference(text) for text in texts], atol=1e-6)


def test_a_text_is_near_its_misspelling_and_far_from_another() -> None:
    text = "the harbour crane lifts containers at night"
    assert similarity(text, "the harbor crain lifts containrs at nigth") > 0.5
    assert similarity(text, "a recipe for lentil soup with cumin") < 0.2


def test_it_knows_nothing_of_meaning() -> None:
    assert similarity("automobile", "car") < 0.2
    assert similarity("physician", "doctor") < 0.2


def test_case_and_spelling_forms_are_the_same() -> None:
    assert similarity("Straße ﬁne CAFE\u0301", "STRASSE fine café") == pytest.approx(1.0)


def test_rows_have_length_one_or_are_zero_without_words() -> None:
    rows = embed(["one word", "", " \n\t…!?", "x"])
    assert rows.shape == (4, DIMENSIONS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 0, 0, 1], atol=1e-6)
    assert embed([]).shape == (0, DIMENSIONS)


def test_half_a_character_pair_is_survived() -> None:
    assert embed(["broken \ud800 text"])[0].any()


def test_a_text_longer_than_a_batch_gets_the_vector_it_has_alone() -> None:
    long = "word " * (BATCH_CHARACTERS // 5 + 10)
    rows = embed(["first", long, "last"])
    np.testing.assert_array_equal(rows[2], embed(["last"])[0])
    np.testing.assert_allclose(rows[1], embed(["word word"])[0], atol=1e-5)


def test_another_process_computes_the_same_bytes() -> None:
    program = "import sys; from cognition.recall.lexical import embed; " \
              "sys.stdout.buffer.write(embed(['the same everywhere']).tobytes())"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=HANG_S)
    assert done.stdout == embed(["the same everywhere"]).tobytes()
