"""Confirmation: a tool that wants a person's word."""

from __future__ import annotations

from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict


def confirmation_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """Its call is escalated; while nobody can be asked, that is a refusal."""
    match proposal.operation:
        case UseTool(declaration) if declaration.confirmation:
            return Verdict("escalate", (f"confirmation: {declaration.name} wants a person's approval",))
    return None
