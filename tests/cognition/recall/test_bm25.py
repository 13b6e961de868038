from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cognition.recall.bm25 import K1, MAX_QUERY_WORDS, B, Bm25Index
from cognition.recall.words import words

TEXTS = st.lists(st.sampled_from(["ox", "fox", "box", "fix", "mix", "six"]), max_size=8).map(" ".join)


def index_of(texts: dict[int, str]) -> Bm25Index:
    index = Bm25Index()
    for document, text in texts.items():
        index.add(document, text)
    return index


def reference(texts: dict[int, str], query: str) -> dict[int, float]:
    """The formula, one document after the other."""
    found = {document: words(text) for document, text in texts.items()}
    mean = max(sum(map(len, found.values())) / max(len(found), 1), 1.0)
    scores: dict[int, float] = {}
    for word in set(words(query)):
        held = sum(word in text for text in found.values())
        idf = math.log(1 + (len(found) - held + 0.5) / (held + 0.5))
        for document, text in found.items():
            count = Counter(text)[word]
            if count:
                norm = K1 * (1 - B + B * len(text) / mean)
                scores[document] = scores.get(document, 0) + idf * count * (K1 + 1) / (count + norm)
    return scores


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.none() | TEXTS), max_size=20), TEXTS)
def test_after_any_changes_the_scores_are_the_formulas(
    changes: list[tuple[int, str | None]], query: str
) -> None:
    index = Bm25Index()
    texts: dict[int, str] = {}
    for document, text in changes:
        if text is None:
            index.remove(document)
            texts.pop(document, None)
        else:
            index.add(document, text)
            texts[document] = text
    assert len(index) == len(texts)
    assert dict(index.search(query, 50)) == pytest.approx(reference(texts, query), rel=1e-5)


def test_the_best_come_first_and_ties_fall_by_number() -> None:
    index = index_of({9: "red fox", 3: "red fox", 7: "red ox", 5: "red fox fox"})
    assert [document for document, _ in index.search("fox", 10)] == [5, 3, 9]
    assert [document for document, _ in index.search("fox", 2)] == [5, 3]
    assert [document for document, _ in index.search("red", 2)] == [3, 7]


def test_only_what_is_allowed_is_found() -> None:
    index = index_of(dict.fromkeys(range(2000), "red fox"))
    allowed = np.zeros(1500, np.bool_)
    allowed[[7, 1400]] = True
    assert [document for document, _ in index.search("fox", 10, allowed)] == [7, 1400]
    assert index.search("fox", 10, np.zeros(0, np.bool_)) == []


def test_unknown_words_and_an_empty_index_find_nothing() -> None:
    assert Bm25Index().search("fox", 5) == []
    assert index_of({1: "fox"}).search("wolf", 5) == []
    assert index_of({1: "fox"}).search("…", 5) == []


def test_of_a_query_of_many_words_the_rarest_count() -> None:
    texts = {n: f"common{n % 7} common" for n in range(200)}
    texts[200] = "needle"
    query = " ".join(f"common{n}" for n in range(7)) + " common needle"
    assert index_of(texts).search(query, 1)[0][0] == 200
    many = {n: " ".join(f"w{k}" for k in range(n, 300)) for n in range(100)}
    index = index_of(many)
    whole = " ".join(f"w{k}" for k in range(300))
    rare = " ".join(f"w{k}" for k in range(MAX_QUERY_WORDS))
    assert index.search(whole, 5) == index.search(rare, 5)


def test_it_says_how_much_of_a_query_it_knows() -> None:
    index = index_of({1: "the red fox", 2: "the ox", 3: "the wolf", 4: "the end"})
    index.remove(3)
    assert index.known("fox red Fox") == 1.0
    assert 0.3 < index.known("fox foxx") < 0.5
    assert 0 < index.known("the foxx") < 0.1, "a word that all hold says little"
    assert index.known("wolf") == index.known("…") == Bm25Index().known("fox") == 0.0
