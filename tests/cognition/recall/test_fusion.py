from __future__ import annotations

import itertools

import pytest

from cognition.recall.fusion import Part, reciprocal_rank

WORDS = [(4, 9.0), (2, 5.0), (7, 1.0)]
NEAR = [(2, 0.9), (5, 0.8), (4, 0.2)]


def test_scores_are_summed_from_ranks_and_the_parts_are_kept() -> None:
    fused = reciprocal_rank({"bm25": WORDS, "vector": NEAR})
    assert [one.document for one in fused] == [2, 4, 5, 7]
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 61)
    assert fused[0].parts == {"bm25": Part(2, 5.0), "vector": Part(1, 0.9)}
    assert fused[3].parts == {"bm25": Part(3, 1.0)}


def test_ties_fall_by_number_whatever_the_order_of_the_lists() -> None:
    lists = {"a": [(9, 1.0), (1, 0.5)], "b": [(3, 1.0), (8, 0.5)], "c": [(6, 2.0)]}
    orders = {
        tuple((one.document, one.score) for one in reciprocal_rank(dict(order)))
        for order in itertools.permutations(lists.items())
    }
    assert len(orders) == 1
    assert [document for document, _ in orders.pop()] == [3, 6, 9, 1, 8]


def test_one_list_keeps_its_order_and_none_is_nothing() -> None:
    assert [one.document for one in reciprocal_rank({"bm25": WORDS})] == [4, 2, 7]
    assert reciprocal_rank({}) == []
    assert reciprocal_rank({"bm25": [], "vector": []}) == []


def test_a_list_weighs_as_much_as_is_said() -> None:
    fused = reciprocal_rank({"bm25": WORDS, "vector": NEAR}, {"bm25": 0.5})
    assert [one.document for one in fused] == [2, 4, 5, 7]
    assert fused[1].score == pytest.approx(0.5 / 61 + 1 / 63)
    assert [one.document for one in reciprocal_rank({"bm25": WORDS, "vector": NEAR}, {"bm25": 0.0})[:2]] == [
        2,
        5,
    ]
