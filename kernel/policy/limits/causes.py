"""Causes: how much agents may do because of one message from outside. Those that keep each other busy, with nobody
asking, are stopped.
"""

from __future__ import annotations

from kernel.model.makers import AGENT
from kernel.policy.asker import Asker
from kernel.policy.proposal import (
    Broadcast,
    Facts,
    Proposal,
    Publish,
    SendMessage,
    SpawnProcess,
    Verdict,
    WatchProcess,
    deny,
)


def causes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """So many messages, so many processes, whoever sends and makes them; a monitor ends with a message."""
    match proposal.operation:
        case SendMessage() | WatchProcess():
            return _messages(proposal.asker, facts, 1)
        case Publish(receivers=many) | Broadcast(receivers=many):
            return _messages(proposal.asker, facts, many)
        case SpawnProcess():
            return _processes(proposal.asker, facts)
    return None


def _messages(asker: Asker, facts: Facts, more: int) -> Verdict | None:
    limit = facts.bounds.messages_per_trace
    if asker.rights is None or facts.state.traces.messages(asker.trace) + more <= limit:
        return None
    return deny(f"more than {limit} messages came of one message from outside; nobody asked for more")


def _processes(asker: Asker, facts: Facts) -> Verdict | None:
    limit = facts.bounds.agent_spawns_per_trace
    if asker.maker != AGENT or facts.state.traces.processes(asker.trace) < limit:
        return None
    return deny(f"{limit} processes came of one message from outside, the limit; nobody asked for more")
