"""The page of OTP's behaviours is what its table and the tests say."""

from tools.supervision_conformance import BEHAVIOURS, TARGET, proofs_of, render


def test_the_page_is_what_the_table_and_the_tests_say() -> None:
    assert TARGET.read_text() == render(), "stale: run python -m tools.supervision_conformance"


def test_each_behaviour_has_a_test() -> None:
    assert list(BEHAVIOURS) == list(range(1, 67))
    assert [number for number in BEHAVIOURS if not list(proofs_of(number))] == []
