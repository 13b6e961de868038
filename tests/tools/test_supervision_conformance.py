"""The page of OTP's behaviours is what its table says and what was recorded of the tests."""

from __future__ import annotations

import pytest

from tests.supervision_seen import differences
from tools.supervision_behaviours import BEHAVIOURS, LINKS
from tools.supervision_conformance import (
    NUMBERED,
    TARGET,
    Outcome,
    of_behaviour,
    of_link,
    record,
    render,
    wanted,
)

ANEW = "stale: run python -m tools.supervision_conformance"


def by_name(substrate: str) -> dict[str, Outcome]:
    return {each.partition("::")[2]: seen for each, seen in record()[substrate]["results"].items()}


def test_the_page_is_what_the_table_says_and_what_was_recorded() -> None:
    assert TARGET.read_text() == render(), f"{ANEW} --on"


@pytest.mark.parametrize("substrate", NUMBERED, ids="on_{}".format)
def test_what_was_recorded_are_the_tests_that_there_are(substrate: str) -> None:
    assert sorted(record()[substrate]["results"]) == wanted()[substrate], f"{ANEW} --on {substrate}"


def test_what_was_recorded_on_ray_is_what_came_of_the_same_bodies_with_the_local_engine() -> None:
    local, ray = by_name("local"), by_name("ray")
    assert {name: local[name] for name in ray} == ray, f"{ANEW} --on local ray"


def test_each_row_has_tests_that_passed_or_says_why_it_has_none() -> None:
    assert list(BEHAVIOURS) == list(range(1, 67))
    rows = [(each.says, each.alone, of_behaviour(number)) for number, each in BEHAVIOURS.items()]
    rows += [(each.says, each.alone, of_link(number)) for number, each in enumerate(LINKS)]
    for says, alone, row in rows:
        assert row["memory"], says
        for substrate, tests in row.items():
            passed = [record()[substrate]["results"][test]["passed"] for test in tests]
            assert sum(passed) or alone, (says, substrate)


def test_what_goes_otherwise_than_is_recorded_is_told_of_files_that_were_run() -> None:
    once: Outcome = {"passed": 1, "skipped": {}}
    twice: Outcome = {"passed": 2, "skipped": {}}
    skipped: Outcome = {"passed": 0, "skipped": {"why": 1}}
    recorded = {"a.py::one": once, "a.py::two": once, "a.py::three": once, "b.py::other": once}
    assert differences({"a.py::one": once, "a.py::two": once, "a.py::three": once}, recorded) == []
    told = differences({"a.py::one": twice, "a.py::two": skipped, "a.py::new": once}, recorded)
    names = ["a.py::new", "a.py::one", "a.py::three", "a.py::two"]
    assert [line.partition(": ")[0] for line in told] == names
    assert differences({}, recorded) == []
