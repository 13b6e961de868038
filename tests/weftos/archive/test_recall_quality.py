from __future__ import annotations

from pathlib import Path

import pytest

from tests.prove.recall import ALL, FLOORS, MODES, faults, measured
from tests.prove.recall_set import FORMS, make_set


@pytest.mark.slow
def test_hybrid_reaches_its_floors_and_is_the_best_of_the_three(tmp_path: Path) -> None:
    assert faults(measured(tmp_path)) == []


def test_a_recall_below_its_floor_is_a_fault_and_so_is_a_part_that_beats_the_whole() -> None:
    shares = {(mode, form): floor for mode in MODES for form, floor in FLOORS.items()}
    assert faults(shares) == []
    assert faults({**shares, ("hybrid", "misspelt"): 0.5}) == [
        "hybrid finds 50.0% of the misspelt queries, must be 80%"
    ]
    assert faults({**shares, ("bm25", ALL): 1.0}) == ["BM25 only finds more than hybrid over all queries"]


def test_the_set_is_the_same_each_time_and_asks_in_three_forms() -> None:
    notes, queries = make_set()
    assert (notes, queries) == make_set()
    assert len({note.text for note in notes}) == 1000
    assert {query.form for query in queries} == set(FORMS)
    assert len({query.note for query in queries}) == len(queries) == 200
