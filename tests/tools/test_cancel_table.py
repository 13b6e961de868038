"""The page of what cancelling does is what its table and the tests say."""

from tools.cancel_table import STATES, TARGET, render, states_tested


def test_the_page_is_what_the_table_says() -> None:
    assert TARGET.read_text() == render(), "stale: run python -m tools.cancel_table"


def test_each_state_has_a_test() -> None:
    assert states_tested() == list(STATES)
