"""How many processes agents and peers may make, so that a person always finds room.

A person is held to what the node can take. What an agent makes is held to a quota for each process, for each tree of
agents (all that is below the uppermost agent), and for each message from outside that led to it; what a peer makes,
with all that is below, to a share for each peer; what peers and agents make together, to all but a reserve, which is
for the node's operator alone. All are counted from the node's state, and so hold after a restart too.
"""

from __future__ import annotations

from kernel.bounds import Bounds
from kernel.errors import Busy, Refused
from kernel.model.address import ancestors
from kernel.model.makers import AGENT, OPERATOR, MadeBy, is_peer
from kernel.state.state import State


class Quotas:
    """Raises Busy or Refused for a child too many."""

    def __init__(self, state: State, bounds: Bounds) -> None:
        self._state = state
        self._bounds = bounds

    def check(self, parent: str, asker: MadeBy) -> None:
        """Whether ``asker`` may make one more child of ``parent``."""
        slots, children = len(self._state.slots), self._state.slots.child_count(parent)
        for held, limit, what in (
            (slots, self._bounds.processes, "the node has {} slots"),
            (children, self._bounds.children, f"{parent} has {{}} children"),
        ):
            reserve = 0 if asker == OPERATOR else min(self._bounds.operator_reserve, limit // 2)
            if held >= limit - reserve:
                kept = f"; the last {reserve} of {limit} are for its operator" if reserve else ", the limit"
                raise Busy(f"{what.format(held)}{kept}; weftos rm takes away what is stopped")
        if asker == AGENT:
            self._check_agent(parent, children)
        if asker != OPERATOR:
            self._check_share(asker if is_peer(asker) else self._state.slots.maker(parent))

    def _check_share(self, maker: MadeBy) -> None:
        held = self._state.slots.count_of(maker) if is_peer(maker) else 0
        if held >= self._bounds.peer_processes:
            raise Busy(f"{held} processes here count to {maker}, the limit for one peer")

    def _check_agent(self, parent: str, children: int) -> None:
        if children >= self._bounds.agent_children:
            raise Busy(f"{parent} has {children} children, the limit for an agent")
        top = self._top(parent)
        below = self._state.slots.below(top)
        if below >= self._bounds.agent_subtree:
            raise Busy(f"{below} processes are below {top}, the limit for what agents make")

    def _top(self, address: str) -> str:
        """The uppermost worker at or above ``address``."""
        line = (address, *ancestors(address))
        slots = [self._state.slots.get(at) for at in line]
        return next(
            slot.address for slot in reversed(slots) if slot is not None and slot.spec.type == "worker"
        )

    def check_trace(self, trace: bytes) -> None:
        """Whether one more child may come of one message from outside. Raises Refused when there are too many."""
        limit = self._bounds.agent_spawns_per_trace
        if self._state.traces.processes(trace) >= limit:
            raise Refused(
                f"{limit} processes came of one message from outside, the limit; nobody asked for more"
            )
