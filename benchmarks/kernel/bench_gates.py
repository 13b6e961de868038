"""What it costs to judge one operation: all gates of a node, and of that what capabilities and budgets add.

Pure functions over a state of plain values, so processor time is all there is to it. Each figure is the median of the
means of many rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor, time_each
from kernel.operations.rights.budgets import Budget
from kernel.operations.rights.capabilities import UNRESTRICTED, Capabilities
from kernel.policy.asker import Asker
from kernel.policy.limits.budgets import budgets_gate
from kernel.policy.pipeline import judge
from kernel.policy.proposal import Gate, Operation, Proposal, SendMessage
from kernel.policy.scope import scope_gate
from tests.kernel.policy.test_gates import Told, facts, tool
from weftos.node.gates import GATES

ROUNDS, PER_ROUND = 300, 100
NEWEST = (scope_gate, budgets_gate)
HELD = Capabilities(
    deny=("shell_*",), messages="subtree", topics=("news.*",), memory=("own",), paths=("notes",)
)
PLENTY = 10**9
ASKER = Asker(
    "operator", "control", process="/user/boss/child", turn="t1", trace=b"t" * 16, rights=frozenset({"pay"})
)
OPERATIONS: dict[str, Operation] = {
    "a tool call": tool(),
    "a message": SendMessage("/user/boss/child/kid", 100, 400),
}


def state(*, limited: bool) -> Told:
    """An agent, one below it, and one below that; where ``limited``, each with capabilities and a budget of its own."""
    told = Told()
    for depth, address in enumerate(("/user/boss", "/user/boss/child", "/user/boss/child/kid")):
        given = PLENTY >> depth  # each comes out of the one above
        budget = Budget(tool_calls=given, messages=given, tokens=given) if limited else None
        held = HELD if limited else UNRESTRICTED
        told.spawned(address, tools=("pay",), capabilities=held, budget=budget)
    return told


def means(gates: Sequence[Gate], operation: Operation, *, limited: bool) -> list[float]:
    """Seconds for one judgement, by rounds."""
    known, proposal = facts(state(limited=limited)), Proposal(ASKER, operation)
    assert judge(gates, proposal, known).decision == "allow", judge(gates, proposal, known).reasons

    def some() -> None:
        for _ in range(PER_ROUND):
            judge(gates, proposal, known)

    return [took / PER_ROUND for took in time_each(some, ROUNDS)]


def floor(gates: Sequence[Gate], operation: Operation, name: str) -> Floor:
    took = sorted(means(gates, operation, limited=False))
    return Floor(name, took[len(took) // 2])


@pytest.mark.parametrize("what", OPERATIONS)
@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
def test_judgement(report: Report, what: str, limited: bool) -> None:
    older = tuple(gate for gate in GATES if gate not in NEWEST)
    operation = OPERATIONS[what]
    floors = [
        floor(older, operation, "without capabilities and budgets"),
        floor((), operation, "the loop over no gate"),
    ]
    held = "with capabilities and budgets of its own" if limited else "of a process without either"
    report(f"to judge {what}, {held}", means(GATES, operation, limited=limited), floors)


@pytest.mark.parametrize("gate", NEWEST, ids=lambda gate: gate.__name__)
def test_newest_gates(report: Report, gate: Gate) -> None:
    operation = OPERATIONS["a tool call"]
    floors = [floor((gate,), operation, "of a process without either")]
    report(f"{gate.__name__}, a tool call", means((gate,), operation, limited=True), floors)
