"""The page of what a turn does is what its table says, and each test that it names is there."""

from __future__ import annotations

import pytest

from tools.named_tests import named
from tools.turn_behaviours import PARTS
from tools.turn_conformance import TARGET, held_by, render


def test_the_page_is_what_the_table_says() -> None:
    assert TARGET.read_text() == render(), "stale: run python -m tools.turn_conformance"


def test_each_behaviour_stands_once_and_has_tests_or_says_what_it_lacks() -> None:
    for part, rows in PARTS.items():
        assert len({each.says for each in rows}) == len(rows), part
        for each in rows:
            assert held_by(each) or each.lacks, each.says


def test_a_test_that_is_not_there_is_told() -> None:
    with pytest.raises(KeyError, match="test_nobody"):
        named("tests/tools/test_turn_conformance.py", "test_nobody")
