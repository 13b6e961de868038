"""How many processes agents and peers may make, so that a person always finds room.

A person is held to what the node can take. What an agent makes is held to a quota for each process, for each tree of
agents (all that is below the uppermost agent), and for each message from outside that led to it; what peers and agents
make together, to all but a reserve, which is for the node's operator alone. The first two and the reserve count slots,
and so hold after a restart too; those of a message are counted per boot.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from kernel.address import ancestors
from kernel.bounds import Bounds
from kernel.errors import Busy, Refused
from kernel.state import State

Asker = Literal["operator", "peer", "agent"]
REMEMBERED_TRACES = 10_000


class Quotas:
    """Raises Busy or Refused for a child too many."""

    def __init__(self, state: State, bounds: Bounds) -> None:
        self._state = state
        self._bounds = bounds
        self._traces: OrderedDict[bytes, int] = OrderedDict()

    def check(self, parent: str, asker: Asker) -> None:
        """Whether ``asker`` may make one more child of ``parent``."""
        slots, children = len(self._state.slots), self._state.child_count(parent)
        for held, limit, what in (
            (slots, self._bounds.processes, "the node has {} slots"),
            (children, self._bounds.children, f"{parent} has {{}} children"),
        ):
            reserve = 0 if asker == "operator" else min(self._bounds.operator_reserve, limit // 2)
            if held >= limit - reserve:
                kept = f"; the last {reserve} of {limit} are for its operator" if reserve else ", the limit"
                raise Busy(f"{what.format(held)}{kept}; weftos rm takes away what is stopped")
        if asker == "agent":
            self._check_agent(parent, children)

    def _check_agent(self, parent: str, children: int) -> None:
        if children >= self._bounds.agent_children:
            raise Busy(f"{parent} has {children} children, the limit for an agent")
        top = self._top(parent)
        below = self._state.below(top)
        if below >= self._bounds.agent_subtree:
            raise Busy(f"{below} processes are below {top}, the limit for what agents make")

    def _top(self, address: str) -> str:
        """The uppermost worker at or above ``address``."""
        line = (address, *ancestors(address))
        slots = [self._state.slots.get(at) for at in line]
        return next(
            slot.address for slot in reversed(slots) if slot is not None and slot.spec.type == "worker"
        )

    def count(self, trace: bytes) -> None:
        """One more child because of one message from outside. Raises Refused when those are too many."""
        count = self._traces.pop(trace, 0)
        limit = self._bounds.agent_spawns_per_trace
        self._traces[trace] = min(count + 1, limit)
        if len(self._traces) > REMEMBERED_TRACES:
            self._traces.popitem(last=False)
        if count >= limit:
            raise Refused(
                f"{limit} processes came of one message from outside, the limit; nobody asked for more"
            )
