"""Memory: how many documents there may be, and how large; sooner for a process that writes than for a person."""

from __future__ import annotations

from kernel.errors import Busy
from kernel.policy.proposal import Facts, Proposal, Verdict, WriteMemory, deny

KEPT_FOR_PERSONS = 10
"""One part in so many of the node's memory is filled by no process."""


def memory_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """Whether there is room for one more document."""
    match proposal.operation:
        case WriteMemory(owner, size):
            documents, bounds = facts.state.documents, facts.bounds
            for what, held, limit, shared in (
                (f"documents of {owner}", documents.count_of(owner) + 1, bounds.documents_per_owner, False),
                ("documents of this node", len(documents) + 1, bounds.documents, True),
                ("bytes of all documents", documents.bytes + size, bounds.documents_bytes, True),
            ):
                kept = limit // KEPT_FOR_PERSONS if shared and proposal.asker.process else 0
                if held > limit - kept:
                    whose = f" less {kept} that are kept for persons" if kept else ""
                    return deny(
                        f"memory is full: this would make {held} {what}, limit {limit}{whose}; forget some first",
                        Busy,
                    )
    return None
