"""Calls between nodes: how many of one peer's may be under way here, and of this node's there."""

from __future__ import annotations

from kernel.errors import Busy
from kernel.policy.limits.mailboxes import PEOPLES_PART
from kernel.policy.proposal import CallNode, Facts, Proposal, Verdict, deny


def calls_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A monitor is under way until what it watches has ended, a call until it is answered. Messages have mailboxes. The
    last of the monitors on one peer are for people alone.
    """
    match proposal.operation:
        case CallNode("monitor", count, to) if count >= _monitors(proposal, facts):
            whose = f"of {to}" if to else "of this node"
            return deny(f"{count} processes {whose} are monitored, the limit", Busy)
        case CallNode("spawn" | "kill", count, to) if count >= facts.bounds.peer_calls:
            if to:
                return deny(f"{count} calls to {to} are unanswered, the limit", Busy)
            return deny(f"{count} calls of your node are under way, the limit", Busy)
    return None


def _monitors(proposal: Proposal, facts: Facts) -> int:
    limit = facts.bounds.peer_monitors
    return limit - limit // PEOPLES_PART if proposal.asker.process else limit
