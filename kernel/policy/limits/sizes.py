"""Sizes: how long what is asked may be."""

from __future__ import annotations

from kernel.errors import Invalid
from kernel.policy.proposal import AskModel, Broadcast, Facts, Proposal, Publish, SendMessage, Verdict, deny


def sizes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """Of a message its text, of a question to a model all of it."""
    match proposal.operation:
        case SendMessage(text_bytes=size) | Publish(text_bytes=size) | Broadcast(text_bytes=size):
            what, limit = "message", facts.bounds.message_bytes
        case AskModel(size_bytes=size):
            what, limit = "model request", facts.bounds.model_request_bytes
        case _:
            return None
    return deny(f"{what} of {size} bytes, limit {limit}", Invalid) if size > limit else None
