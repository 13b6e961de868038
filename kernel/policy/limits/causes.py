"""Causes: how much agents may do because of one message from outside. Those that keep each other busy, with nobody
asking, are stopped.
"""

from __future__ import annotations

from kernel.model.makers import AGENT
from kernel.policy.proposal import Facts, Proposal, SendMessage, SpawnProcess, Verdict, deny


def causes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """So many messages, so many processes, whoever sends and makes them."""
    asker, traces, bounds = proposal.asker, facts.state.traces, facts.bounds
    match proposal.operation:
        case SendMessage() if (
            asker.rights is not None and traces.messages(asker.trace) >= bounds.messages_per_trace
        ):
            limit = bounds.messages_per_trace
            return deny(f"more than {limit} messages came of one message from outside; nobody asked for more")
        case SpawnProcess() if (
            asker.maker == AGENT and traces.processes(asker.trace) >= bounds.agent_spawns_per_trace
        ):
            limit = bounds.agent_spawns_per_trace
            return deny(
                f"{limit} processes came of one message from outside, the limit; nobody asked for more"
            )
    return None
