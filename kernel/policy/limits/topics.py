"""Topics: how many subscriptions there may be, and to how many, and how much, one publication may go."""

from __future__ import annotations

from kernel.errors import Busy, Invalid
from kernel.policy.proposal import Broadcast, Facts, Proposal, Publish, Subscribe, Verdict, deny


def topics_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A pattern has a bound, so that nobody can fill a topic with subscribers until it takes no publication more."""
    match proposal.operation:
        case Subscribe() as wanted:
            return _subscription(wanted, facts)
        case Publish() | Broadcast() as said:
            return _publication(said, facts)
    return None


def _subscription(wanted: Subscribe, facts: Facts) -> Verdict | None:
    there, bounds = facts.state.subscriptions, facts.bounds
    subscribers = there.get(wanted.pattern, {})
    if wanted.address in subscribers:
        return None
    for held, limit, what in (
        (len(subscribers), bounds.pattern_subscribers, f"{wanted.pattern} has {{}} subscribers"),
        (
            len(there.of(wanted.address)),
            bounds.process_subscriptions,
            f"{wanted.address} has {{}} subscriptions",
        ),
        (len(there.in_order), bounds.subscriptions, "the node has {} subscriptions"),
    ):
        if held >= limit:
            return deny(f"{what.format(held)}, the limit; weftos topics unsubscribe takes one back", Busy)
    return None


def _publication(said: Publish | Broadcast, facts: Facts) -> Verdict | None:
    bounds = facts.bounds
    if said.receivers > bounds.publication_receivers:
        return deny(f"it would go to more than {bounds.publication_receivers} processes, the limit", Invalid)
    if said.size_bytes > bounds.publication_bytes:
        return deny(
            f"to {said.receivers} processes it would be {said.size_bytes} bytes, limit {bounds.publication_bytes}; "
            "say less, or to fewer",
            Invalid,
        )
    return None
