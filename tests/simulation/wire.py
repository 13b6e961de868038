"""What joins two simulated nodes: a link that comes and goes, and takes along what is on its way when it goes.

Each node has a loop of its own; what one says is a timer in that of the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import msgpack

from mesh.errors import LinkDown
from mesh.identity.peers import DEFAULT_MAY, Peer
from tests.kernel.twins.mesh_twin import Op, TwinMesh, link, unlink
from tests.simulation.virtual_loop import VirtualLoop

NAMES = ("one", "two")
ORIGINS = {name: TwinMesh(name, number).origin for number, name in enumerate(NAMES)}


class WiredMesh(TwinMesh):
    """The mesh of one boot of a node."""

    def __init__(
        self, name: str, loop: VirtualLoop, boot: int, tools: frozenset[str], chance: Random
    ) -> None:
        super().__init__(name, NAMES.index(name))
        self.identity = replace(self.identity, boot=f"{boot:016x}")
        self.loop = loop
        self._chance = chance
        self.on_the_way: deque[tuple[TwinMesh, int, Op]] = deque()
        self._arrives_s = 0.0  # the last of them: nothing overtakes
        for other in NAMES:
            if other != name:
                self.add_peer(Peer(other, ORIGINS[other], "", DEFAULT_MAY, tools))

    def remove_peer(self, name: str) -> Peer:
        peer, why = super().remove_peer(name), "no longer a peer"
        other = self.links.get(peer.origin)
        if other is not None:
            unlink(self, other, why)
            self.remote.on_down(peer, why)
        return peer

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None:
        other = self.links.get(origin)
        if not isinstance(other, WiredMesh):
            raise LinkDown(f"there is no link to {origin}")
        self.on_the_way.append((other, self.number, msgpack.unpackb(msgpack.packb(op))))
        takes_s = self._chance.choice((0.0, 0.0, 0.0005, 0.003, 0.05))
        self._arrives_s = max(self._arrives_s, self.now_s() + takes_s)
        other.loop.call_at(self._arrives_s, self._next)

    def _next(self) -> None:
        """The oldest that is on the way is there."""
        if self.on_the_way:
            self._arrive(*self.on_the_way.popleft())

    def processes_changed(self) -> None:
        """Nobody is shown anything."""

    def now_s(self) -> float:
        return self.loop.time()

    def hear(self, call: Callable[..., None], *words: object) -> None:
        self.loop.call_soon(call, *words)


class Wire:
    """Between the newest boots of two nodes."""

    def __init__(self, chance: Random, tools: frozenset[str]) -> None:
        self._chance, self._tools = chance, tools
        self._boots: dict[str, WiredMesh] = {}
        self._count = 0
        self.lost = 0  # how often it went with something on its way

    def mesh(self, name: str, loop: VirtualLoop) -> WiredMesh:
        """A node boots: what its last boot was linked with loses it."""
        self.unlink(f"{name} boots")
        self._count += 1
        made = self._boots[name] = WiredMesh(name, loop, self._count, self._tools, self._chance)
        return made

    @property
    def is_up(self) -> bool:
        return any(mesh.links for mesh in self._boots.values())

    def link(self) -> None:
        """A link, where both allow it; a new one when there was one."""
        one, two = self._ends()
        if one.peer(two.name) is not None and two.peer(one.name) is not None:
            link(one, two)

    def unlink(self, why: str) -> None:
        if self.is_up:
            self.lost += any(mesh.on_the_way for mesh in self._boots.values())
            unlink(*self._ends(), why)

    def _ends(self) -> tuple[WiredMesh, WiredMesh]:
        return self._boots[NAMES[0]], self._boots[NAMES[1]]
