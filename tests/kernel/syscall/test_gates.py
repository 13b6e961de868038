"""Each gate by itself, with plain values: what a later line would catch too is still this gate's to refuse."""

from __future__ import annotations

import pytest

from kernel.abi import Effects, Sandbox, ToolDeclaration
from kernel.policy.gates import (
    GATES,
    Proposal,
    Verdict,
    capability_gate,
    confirmation_gate,
    doubt_gate,
    journal_gate,
    judge,
)

HELD = frozenset({"pay", "other"})


def proposal(
    *,
    effects: Effects = "external",
    confirmation: bool = False,
    rights: frozenset[str] = HELD,
    writable: bool = True,
) -> Proposal:
    tool = ToolDeclaration("pay", "Pay.", {"type": "object"}, effects=effects, confirmation=confirmation)
    return Proposal(tool, {"amount": 5}, rights, writable)


def test_the_capability_gate_lets_pass_what_is_held_and_names_what_is_not() -> None:
    assert capability_gate(proposal(rights=frozenset({"pay"}))) is None
    verdict = capability_gate(proposal(rights=frozenset({"ask", "other"})))
    assert verdict == Verdict("deny", ("capability: pay is not among the rights of this turn (ask, other)",))
    verdict = capability_gate(proposal(rights=frozenset()))
    assert verdict == Verdict("deny", ("capability: pay is not among the rights of this turn (none)",))


@pytest.mark.parametrize(
    ("effects", "writable", "passes"),
    [
        ("none", True, True),
        ("none", False, True),
        ("local", True, True),
        ("local", False, False),
        ("external", True, True),
        ("external", False, False),
    ],
)
def test_the_journal_gate_stops_effects_while_nothing_can_be_recorded(
    effects: Effects, writable: bool, passes: bool
) -> None:
    verdict = journal_gate(proposal(effects=effects, writable=writable))
    if passes:
        assert verdict is None
    else:
        assert verdict == Verdict(
            "deny", ("journal: the node is read-only, so tools with effects do not run",)
        )


def test_the_confirmation_gate_escalates_what_wants_a_persons_word() -> None:
    assert confirmation_gate(proposal()) is None
    verdict = confirmation_gate(proposal(confirmation=True))
    assert verdict == Verdict("escalate", ("confirmation: pay wants a person's approval",))


def test_the_gates_in_force_are_these_in_this_order() -> None:
    assert (capability_gate, journal_gate, doubt_gate, confirmation_gate) == GATES
    assert judge(proposal()) == Verdict("allow", ("capability",))
    nothing = proposal(rights=frozenset(), writable=False, confirmation=True)
    assert judge(nothing).reasons[0].startswith("capability: ")
    assert judge(proposal(writable=False, confirmation=True)).reasons[0].startswith("journal: ")
    assert judge(proposal(confirmation=True)).decision == "escalate"


def test_a_gate_that_fails_denies_and_those_behind_it_are_not_asked() -> None:
    asked = []

    def broken(one: Proposal) -> Verdict | None:
        raise KeyError("x")

    def behind(one: Proposal) -> Verdict | None:
        asked.append(one)
        return None

    assert judge(proposal(), [broken, behind]) == Verdict("deny", ("broken failed: KeyError",))
    assert asked == []
    assert judge(proposal(), [behind]) == Verdict("allow", ("capability",))
    assert judge(proposal(), []).decision == "allow"


@pytest.mark.parametrize(
    ("effects", "sandbox", "doubts", "passes"),
    [
        ("external", "thirdparty", "", True),
        ("external", "thirdparty", "too many", False),
        ("local", "builtin", "too many", False),
        ("local", "node", "too many", True),
        ("none", "thirdparty", "too many", True),
    ],
)
def test_the_doubt_gate_stops_what_could_leave_another_doubt(
    effects: Effects, sandbox: Sandbox, doubts: str, passes: bool
) -> None:
    tool = ToolDeclaration("pay", "Pay.", {"type": "object"}, effects=effects, sandbox=sandbox)
    verdict = doubt_gate(Proposal(tool, {}, HELD, True, doubts))
    assert verdict == (None if passes else Verdict("deny", ("doubts: too many",)))
