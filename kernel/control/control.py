"""What people may ask of a running node: the table of operations, each row with what answers it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from kernel.control.applications import ApplicationControl
from kernel.control.archive import ArchiveControl
from kernel.control.asked import Asked
from kernel.control.decisions import DecisionControl
from kernel.control.erasure import ErasureControl
from kernel.control.facts import NodeFacts, NodeServices
from kernel.control.keys import KeyControl
from kernel.control.mail.cancels import CancelControl
from kernel.control.mail.letters import LetterControl
from kernel.control.mail.messages import MessageControl
from kernel.control.mail.sessions import SessionControl
from kernel.control.mail.topics import TopicControl
from kernel.control.mail.trajectories import TrajectoryControl
from kernel.control.mail.transcripts import TranscriptControl
from kernel.control.mail.turn_events import TurnControl
from kernel.control.memory import MemoryControl
from kernel.control.node import NodeControl
from kernel.control.nodes.cluster import ClusterControl
from kernel.control.nodes.peer_services import PeerServices
from kernel.control.nodes.peers import PeerControl
from kernel.control.processes import ProcessControl
from kernel.control.rights.budgets import BudgetControl
from kernel.control.rights.policy import PolicyControl
from kernel.control.spawning import SpawnControl
from kernel.kernel import Kernel
from kernel.operations.operation import Answer, Operator, P, Request, Row, handlers_of
from kernel.operations.table import TABLE
from kernel.peer.remote_calls import PeerAsked
from kernel.process.process_signals import SlotGone
from kernel.process.workspaces import Workspaces
from kernel.signals import Handlers
from kernel.turn.turn_signals import SessionRead


class Control:
    """Answers operations. What is to be recorded is, before it is done."""

    def __init__(self, kernel: Kernel, facts: NodeFacts, services: NodeServices) -> None:
        since_s, self._log = kernel.env.clock.now_s(), kernel.env.log
        self._recorder = kernel.recorder
        cluster, cancels = ClusterControl(kernel), CancelControl(kernel)
        self.workspaces = Workspaces(facts.data, kernel.state.slots, facts.protected, facts.way_fault)
        spawning = SpawnControl(kernel, facts, self.workspaces, cluster.spawn)
        parts = (
            NodeControl(kernel, facts, services, self.workspaces, since_s),
            spawning,
            ApplicationControl(kernel, spawning),
            ProcessControl(kernel, services, cluster.kill, since_s),
            cancels,
            MessageControl(kernel, facts.providers),
            TurnControl(kernel.feed),
            TrajectoryControl(kernel, services.archive),
            TranscriptControl(kernel),
            SessionControl(kernel),
            TopicControl(kernel),
            LetterControl(kernel, services.archive),
            DecisionControl(kernel),
            PolicyControl(kernel),
            BudgetControl(kernel),
            MemoryControl(kernel),
            ErasureControl(kernel, services.erasures),
            ArchiveControl(kernel.recorder, services.archive),
            KeyControl(services.rotate),
            cluster,
            PeerControl(kernel),
        )
        self._handlers = handlers_of((part.handlers() for part in parts), TABLE)
        self._peer_services = PeerServices(kernel, spawning.make, cancels.end)

    def hears(self) -> Handlers:
        """What is done here when peers ask for it, when a process has gone, and when a turn begins."""
        return {
            PeerAsked: (self._peer_services.asked,),
            SlotGone: (self.workspaces.gone,),
            SessionRead: (self._make_workspace,),
        }

    def _make_workspace(self, said: SessionRead) -> None:
        """The turn goes on without: what works there says of each call that it cannot."""
        try:
            self.workspaces.needed(said.address)
        except OSError as error:
            why = f"{error.strerror}: {error.filename}; make room for it, or take away what is in its place"
            self._log("the directory of a process could not be made", address=said.address, why=why)

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
