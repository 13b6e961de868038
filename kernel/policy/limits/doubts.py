"""Doubts: how many calls may wait for a person to say what became of them."""

from __future__ import annotations

from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny


def doubts_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """While too many wait, no call is made that could join them. One that is only records, written by the node with its
    outcome, is never in doubt.
    """
    match proposal.operation:
        case UseTool(declaration) if declaration.effects != "none" and declaration.sandbox != "node":
            intents, bounds = facts.state.intents, facts.bounds
            count, held = intents.doubts_count, intents.doubts_bytes
            if count >= bounds.doubts or held >= bounds.doubts_bytes:
                return deny(
                    f"doubts: {count} calls, of {held} bytes, wait for a person to say what became of them, limit "
                    f"{bounds.doubts} and {bounds.doubts_bytes} bytes; nothing that may have effects is done until "
                    "some are decided (weftos doubts list)"
                )
    return None
