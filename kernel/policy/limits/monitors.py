"""Monitors: how many a process may have set, and how many there may be in a node."""

from __future__ import annotations

from kernel.errors import Busy
from kernel.policy.proposal import Facts, Proposal, Verdict, WatchProcess, deny


def monitors_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """Each needs room for the message that it ends with: what waits in the watcher's mailbox counts with them."""
    match proposal.operation:
        case WatchProcess():
            state, bounds, watcher = facts.state, facts.bounds, proposal.asker.process
            held = state.monitors.count_of(watcher) + len(state.mail.get(watcher, ()))
            if held >= bounds.process_monitors:
                return deny(
                    f"{watcher} has {held} monitors and messages, the limit for a new monitor is "
                    f"{bounds.process_monitors}",
                    Busy,
                )
            if len(state.monitors) >= bounds.monitors:
                return deny(f"there are {len(state.monitors)} monitors in this node, the limit", Busy)
    return None
