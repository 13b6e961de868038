"""How many processes agents and peers may make, so that a person always finds room.

A person is held to what the node can take. What an agent makes is held to a quota for each process, for each tree of
agents (all that is below the uppermost agent), and for each message from outside that led to it (``causes``); what a
peer makes, with all that is below, to a share for each peer; what peers and agents make together, to all but a reserve,
which is for the node's operator alone. All are counted from the node's state, and so hold after a restart too.
"""

from __future__ import annotations

from kernel.errors import Busy
from kernel.model.address import ancestors
from kernel.model.makers import AGENT, OPERATOR, MadeBy, is_peer
from kernel.policy.proposal import Facts, Proposal, SpawnProcess, Verdict, deny
from kernel.slices.tree.slots import Slots


def processes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """Whether there is room for one more child."""
    match proposal.operation:
        case SpawnProcess(parent=parent) as spawn:
            maker = proposal.asker.maker
            why = _no_room(spawn, maker, facts)
            if not why and maker == AGENT:
                why = _agent_has_enough(parent, facts)
            if not why and maker != OPERATOR:
                why = _share_is_used(maker if is_peer(maker) else facts.state.slots.maker(parent), facts)
            return deny(why, Busy) if why else None
    return None


def _no_room(spawn: SpawnProcess, maker: MadeBy, facts: Facts) -> str:
    slots, bounds, parent = facts.state.slots, facts.bounds, spawn.parent
    for held, limit, what in (
        (len(slots) + spawn.before, bounds.processes, "the node has {} slots"),
        (slots.child_count(parent) + spawn.before_there, bounds.children, f"{parent} has {{}} children"),
    ):
        reserve = 0 if maker == OPERATOR else min(bounds.operator_reserve, limit // 2)
        if held >= limit - reserve:
            kept = f"; the last {reserve} of {limit} are for its operator" if reserve else ", the limit"
            return f"{what.format(held)}{kept}; weftos rm takes away what is stopped"
    return ""


def _share_is_used(maker: MadeBy, facts: Facts) -> str:
    held = facts.state.slots.count_of(maker) if is_peer(maker) else 0
    if held >= facts.bounds.peer_processes:
        return f"{held} processes here count to {maker}, the limit for one peer"
    return ""


def _agent_has_enough(parent: str, facts: Facts) -> str:
    """What a peer made among them does not count: it has a share of its own. Nor do others below what a peer made."""
    slots, bounds = facts.state.slots, facts.bounds
    maker = slots.maker(parent)
    children = slots.directly_below(parent, maker)
    if children >= bounds.agent_children:
        return f"{parent} has {children} children, the limit for an agent"
    top = _uppermost_worker(parent, maker, slots)
    below = slots.below(top, maker)
    if below >= bounds.agent_subtree:
        return f"{below} processes are below {top}, the limit for what agents make"
    return ""


def _uppermost_worker(address: str, maker: MadeBy, slots: Slots) -> str:
    """At or above ``address``; when it counts to a peer, the uppermost of those that count to the same."""
    line = [slots.get(at) for at in (address, *ancestors(address))]
    workers = [slot.address for slot in line if slot is not None and slot.spec.type == "worker"]
    return next(at for at in reversed(workers) if not is_peer(maker) or slots.maker(at) == maker)
