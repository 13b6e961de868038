"""Journal: without a writable one nothing with effects runs."""

from __future__ import annotations

from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny


def journal_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """While the node is read-only, tools without effects alone are used."""
    match proposal.operation:
        case UseTool(declaration) if declaration.effects != "none" and not facts.writable:
            return deny("journal: the node is read-only, so tools with effects do not run")
    return None
