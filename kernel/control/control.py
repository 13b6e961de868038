"""What people may ask of a running node: the table of operations, each row with what answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from kernel.control.archive import ArchiveControl
from kernel.control.asked import Asked
from kernel.control.decisions import DecisionControl
from kernel.control.erasure import ErasureControl
from kernel.control.facts import NodeFacts, NodeServices
from kernel.control.keys import KeyControl
from kernel.control.memory import MemoryControl
from kernel.control.messages import MessageControl
from kernel.control.node import NodeControl
from kernel.control.nodes.cluster import ClusterControl
from kernel.control.nodes.peer_services import PeerServices
from kernel.control.nodes.peers import PeerControl
from kernel.control.processes import ProcessControl
from kernel.control.spawning import SpawnControl
from kernel.kernel import Kernel
from kernel.operations.operation import Answer, Operator, P, Request, Row, handlers_of
from kernel.operations.table import TABLE
from kernel.peer.remote_calls import PeerAsked
from kernel.process.process_signals import SlotGone
from kernel.process.workspaces import Workspaces
from kernel.signals import Handlers


class Control:
    """Answers operations. What is to be recorded is, before it is done."""

    def __init__(self, kernel: Kernel, facts: NodeFacts, services: NodeServices) -> None:
        since_s = kernel.env.clock.now_s()
        self._recorder = kernel.recorder
        cluster = ClusterControl(kernel)
        self.workspaces = Workspaces(facts.data, kernel.state.slots, facts.protected, facts.way_fault)
        spawning = SpawnControl(kernel, facts, self.workspaces, cluster.spawn)
        parts = (
            NodeControl(kernel, facts, services, self.workspaces, since_s),
            spawning,
            ProcessControl(kernel, services, cluster.kill, since_s),
            MessageControl(kernel),
            DecisionControl(kernel),
            MemoryControl(kernel),
            ErasureControl(kernel, services.erasures),
            ArchiveControl(kernel.recorder, services.archive),
            KeyControl(services.rotate),
            cluster,
            PeerControl(kernel),
        )
        self._handlers = handlers_of((part.handlers() for part in parts), TABLE)
        self._peer_services = PeerServices(kernel, spawning.make)

    def hears(self) -> Handlers:
        """What is done here when peers ask for it, or when a process has gone."""
        return {PeerAsked: (self._peer_services.asked,), SlotGone: (self.workspaces.gone,)}

    async def ask(self, op: Operator, row: Row[P, Request, Answer], request: Request) -> Answer:
        """Answer ``request`` of ``op``. Raises KernelError."""
        asked = Asked(op, row, self._recorder)
        answer = await self._handlers[row](asked, request)
        asked.check()
        return cast(Answer, answer)

    async def stream(
        self, op: Operator, row: Row[P, Request, Answer], request: Request
    ) -> AsyncIterator[Answer]:
        """The same for what is answered by objects as they come. Who leaves closes it."""
        asked = Asked(op, row, self._recorder)
        async with aclosing(cast(Any, self._handlers[row](asked, request))) as items:
            async for item in items:
                asked.check()
                yield item
