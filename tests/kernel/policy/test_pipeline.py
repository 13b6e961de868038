"""What the gates say together, with plain values."""

from __future__ import annotations

import pytest

from kernel.bounds import Bounds
from kernel.errors import Busy, Refused
from kernel.policy.asker import PERSON
from kernel.policy.pipeline import ALLOWED, judge
from kernel.policy.proposal import Facts, Gate, Proposal, ReadMemory, Verdict, deny
from kernel.state.state import State

PROPOSAL = Proposal(PERSON, ReadMemory(query="what"))
FACTS = Facts(State(1, 1), Bounds(), True)


def says(verdict: Verdict | None) -> Gate:
    return lambda proposal, facts: verdict


FULL, SHUT = deny("full", Busy), deny("shut")
ASKS = Verdict("escalate", ("ask somebody",))
KNOWN = Verdict("allow", ("approved for an hour",))


@pytest.mark.parametrize(
    ("gates", "together"),
    [
        ((), ALLOWED),
        ((None, None), ALLOWED),
        ((None, KNOWN), KNOWN),
        ((KNOWN, ASKS), ASKS),
        ((FULL, None, SHUT), Verdict("deny", ("full", "shut"), Busy)),
        ((SHUT, FULL), Verdict("deny", ("shut", "full"), Refused)),
        ((ASKS, KNOWN, FULL), Verdict("deny", ("ask somebody", "full"), Busy)),
    ],
)
def test_the_strictest_decides_and_every_reason_against_is_kept(
    gates: tuple[Verdict | None, ...], together: Verdict
) -> None:
    assert judge([says(verdict) for verdict in gates], PROPOSAL, FACTS) == together


def test_a_gate_that_fails_denies_and_does_not_keep_the_others_from_saying_why() -> None:
    def broken(proposal: Proposal, facts: Facts) -> Verdict | None:
        raise KeyError("x")

    class Broken:
        def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
            raise ValueError("y")

    assert judge([broken], PROPOSAL, FACTS) == deny("broken failed: KeyError")
    assert judge([Broken(), says(KNOWN), says(FULL)], PROPOSAL, FACTS) == Verdict(
        "deny", ("Broken failed: ValueError", "full"), Refused
    )


def test_a_gate_is_shown_what_is_asked_and_the_facts() -> None:
    seen: list[tuple[Proposal, Facts]] = []

    def looks(proposal: Proposal, facts: Facts) -> Verdict | None:
        seen.append((proposal, facts))
        return None

    assert judge([looks], PROPOSAL, FACTS) is ALLOWED
    assert seen == [(PROPOSAL, FACTS)]
