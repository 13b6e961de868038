"""Gates: plain functions that look at a proposed call and say allow, deny or escalate, with a reason.

The cheapest come first and the first that does not allow decides. A gate that raises denies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernel.abi import ToolDeclaration

Decision = Literal["allow", "deny", "escalate"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a gate sees: the tool, its parsed arguments, and the rights in force for this turn.

    ``doubts``: why no further call may come to be in doubt, empty when one may.
    """

    tool: ToolDeclaration
    arguments: dict[str, Any]
    rights: frozenset[str]
    writable: bool
    doubts: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reasons: tuple[str, ...]


Gate = Callable[[Proposal], Verdict | None]


def capability_gate(proposal: Proposal) -> Verdict | None:
    """The rights of agent and sender, intersected, must hold the tool."""
    if proposal.tool.name in proposal.rights:
        return None
    held = ", ".join(sorted(proposal.rights)) or "none"
    return Verdict(
        "deny", (f"capability: {proposal.tool.name} is not among the rights of this turn ({held})",)
    )


def journal_gate(proposal: Proposal) -> Verdict | None:
    """Without a writable journal nothing with effects runs."""
    if proposal.writable or proposal.tool.effects == "none":
        return None
    return Verdict("deny", ("journal: the node is read-only, so tools with effects do not run",))


def doubt_gate(proposal: Proposal) -> Verdict | None:
    """While too many calls wait for a person's word, none is made that could join them. One that is only records,
    written by the node with its outcome, is never in doubt.
    """
    if not proposal.doubts or proposal.tool.effects == "none" or proposal.tool.sandbox == "node":
        return None
    return Verdict("deny", (f"doubts: {proposal.doubts}",))


def confirmation_gate(proposal: Proposal) -> Verdict | None:
    """A tool that wants a person's word is escalated; while nobody can be asked, that is a refusal."""
    if not proposal.tool.confirmation:
        return None
    return Verdict("escalate", (f"confirmation: {proposal.tool.name} wants a person's approval",))


GATES: tuple[Gate, ...] = (capability_gate, journal_gate, doubt_gate, confirmation_gate)


def judge(proposal: Proposal, gates: Sequence[Gate] = GATES) -> Verdict:
    """Walk the gates. Fails closed: a gate that raises is a denial that names it."""
    for gate in gates:
        try:
            verdict = gate(proposal)
        except Exception as error:  # a broken gate must never open
            return Verdict("deny", (f"{gate.__name__} failed: {type(error).__name__}",))
        if verdict is not None:
            return verdict
    return Verdict("allow", ("capability",))
