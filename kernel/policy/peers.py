"""Peers: another node gets what its ``may`` grants it."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.policy.proposal import CallNode, Facts, Proposal, Verdict, deny

NEEDED: Mapping[str, str] = {
    "message": "send",
    "spawn": "spawn",
    "kill": "kill",
    "cancel": "kill",
    "monitor": "ps",
}
"""What a peer can ask for, and the right it needs for it."""


def peers_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """What a node asks that is not granted is refused; what this node asks of others, those judge."""
    may = proposal.asker.may
    match proposal.operation:
        case CallNode(op) if may is not None and NEEDED[op] not in may:
            if op == "message":
                return deny("this node takes no messages from yours: it may not send")
            return deny(f"your node may not {NEEDED[op]} here")
    return None
