"""This node among others: targets on other nodes, what their nodes say, and what becomes of it here.

The :class:`mesh.gossip.events.MeshEvents` of the node. A target on another node is ``PID@node``, ``NAME@node`` or
``/address@node``, where node is the petname of a peer or its origin; the message carries the text before the ``@``,
which the other node resolves when it takes it.

A peer gets what its ``may`` grants and nothing more: ``send`` messages to processes, ``ps`` adverts and monitors,
``spawn``, ``kill``. Each of its words is checked behind this door; one that breaks the rules of the protocol ends the
link, one that asks for too much is refused. Both are recorded, as ``peer.refused``, at most once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chain.journal.group import Group
from chain.merkle.head import TreeHead
from kernel.bounds import Bounds
from kernel.clock import Clock, Timer
from kernel.errors import Invalid, KernelError, Refused, Unavailable
from kernel.message.message_signals import QuestionDropped
from kernel.message.messaging import Messaging
from kernel.message.wire_message import channel_rights
from kernel.model.states import NOCONNECTION
from kernel.peer.inboxes import Inboxes, Local, Replied, chain_of
from kernel.peer.lost_questions import LostQuestions
from kernel.peer.mesh_port import MeshPort
from kernel.peer.monitors import Monitors
from kernel.peer.outboxes import DeliveryParts, Outboxes, carried_id, must_peer
from kernel.peer.peer_records import PeerRecords, line
from kernel.peer.remote_calls import CALLS, RemoteCalls, read_withdrawal
from kernel.policy.pipeline import Policy
from kernel.process.live import LiveTable
from kernel.process.processes import Processes
from kernel.signals import Signals
from kernel.slices.turns import Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from mesh.delivery.delivery import read_answer, read_envelope
from mesh.errors import MeshError
from mesh.gossip.adverts import MAX_PROCESSES, ProcessAdvert
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import Peer
from mesh.membership.membership import PeerState

TICK_S = 0.25
ALONE_S = 1.0  # between two looks at the clock while nothing was ever said to another node


@dataclass(frozen=True, slots=True)
class RemoteParts:
    """What the node's own parts are to :class:`Remote`.

    ``effects`` says of each tool there is which it has; ``replied(unit, question, status, text)`` ends an ask of this
    node; ``ended(message, end)`` tells whoever watches a message; ``name`` is the node's own petname, ``boot`` the
    number of this run.
    """

    recorder: Recorder
    messaging: Messaging
    processes: Processes
    live: LiveTable
    bounds: Bounds
    policy: Policy
    signals: Signals
    clock: Clock
    effects: Mapping[str, str]
    replied: Replied
    ended: Callable[[str, dict[str, Any]], None]
    name: str
    boot: int


class Remote:
    """The kernel's side of the cluster. ``mesh`` is the node's own; a node without one has :class:`NoMesh`."""

    def __init__(self, parts: RemoteParts, mesh: MeshPort) -> None:
        self._parts = parts
        self.mesh = mesh
        ledger = parts.recorder.ledger
        after = AfterDurable(ledger)
        delivery = DeliveryParts(
            parts.recorder, parts.messaging, parts.bounds, parts.clock, after, mesh, parts.policy
        )
        self.outboxes = Outboxes(delivery)
        local = Local(parts.effects, parts.replied, self.outboxes.settled, parts.ended)
        self._inboxes = Inboxes(delivery, local)
        self.calls = RemoteCalls(mesh, parts.policy, parts.signals, parts.boot)
        self.monitors = Monitors(parts.live, parts.messaging, mesh, parts.policy)
        self._lost = LostQuestions(parts.recorder, self.outboxes, local, after)
        self._records = PeerRecords(parts.recorder, parts.clock)
        self.address = ""
        self._shown_size = ledger.next_seq  # a head of an earlier boot may be behind what peers hold
        self._timer: Timer | None = None
        self._closed = False

    async def open(self, listen: str | None) -> None:
        """Have the mesh call the peers, listen (None: not at all) at what is ``address`` then, and be told what changes
        from now on. Raises TransportError.
        """
        self.address = await self.mesh.open(self, listen)
        self._parts.recorder.ledger.on_group(self._durable)
        self._tick()

    async def close(self) -> None:
        """Stop serving; what is in the outboxes waits for the next boot."""
        self._closed = True
        self._lost.close()
        if self._timer is not None:
            self._timer.cancel()
        await self.calls.close()

    # -- targets -------------------------------------------------------------------------------------------------

    def split(self, target: str) -> tuple[str, Peer | None]:
        """A target with an ``@``: what it names there, and the peer; None for this node itself. Raises NotFound, and
        Refused for a name that is both this node's and a peer's.
        """
        local, _, node = target.rpartition("@")
        if node == self.mesh.origin:
            return local, None
        if node != self._parts.name:
            return local, must_peer(self.mesh, node)
        if (peer := self.mesh.peer(node)) is not None:
            raise Refused(
                f"{node} is this node ({self.mesh.origin}) and a peer ({peer.origin}): name it by its origin"
            )
        return local, None

    def must_be_up(self, peer: Peer) -> None:
        """An ask has no use for a node that is not there. Raises Unavailable."""
        view = next((view for view in self.mesh.peers() if view.peer.origin == peer.origin), None)
        if view is None or view.member.state is not PeerState.UP:
            raise Unavailable(f"{NOCONNECTION}: there is no link to {peer.name}")

    def chain(self, turn: Turn) -> tuple[str, ...]:
        """Who waits for the end of ``turn``, as ``ADDRESS@ORIGIN``, over nodes, as far as it is known."""
        return chain_of(self._parts.recorder.state.turns, turn.mail, self.mesh.origin)

    def left_to(self, sender: str) -> frozenset[str] | None:
        """The tools that ``sender`` may have used here now, whatever it could when its message came; None: it is no
        process of another node. None at all are left to one whose node is no peer any more.
        """
        _, abroad, origin = sender.rpartition("@")
        if not abroad:
            return None
        peer = self.mesh.peer(origin)
        return channel_rights(peer.may, None, peer.ceiling(self._parts.effects)) if peer else frozenset()

    def dropped(self, dropped: QuestionDropped) -> None:
        """Nobody waits any more for the answer to a message that went to another node. One that it has not acknowledged
        may have come all the same: it is told in any case, behind that, unless the link is lost.
        """
        question = dropped.question
        if self._parts.recorder.state.in_transit.find(question.id) is not None:
            self.outboxes.withdraw(question, dropped.why)
        told: dict[str, object] = {"op": "withdraw", "id": carried_id(question), "sender": question.sender}
        self.outboxes.tell(question.peer, told)

    # -- MeshEvents ----------------------------------------------------------------------------------------------

    def processes(self) -> Iterable[ProcessAdvert]:
        return map(ProcessAdvert._make, self._parts.processes.listing.first(MAX_PROCESSES))

    def process_count(self) -> int:
        return len(self._parts.processes.listing)

    def on_up(self, peer: Peer, identity: PeerIdentity) -> None:
        self._records.up(peer, identity)
        self._forget(peer, "another link took the place of the one before")
        self.outboxes.up(peer.origin)

    def on_down(self, peer: Peer, why: str) -> None:
        if self._closed:  # the node stops: what waits goes on waiting at the next boot
            return
        why = line(why)
        self._records.down(peer, why)
        self.outboxes.down(peer.origin)
        self._forget(peer, why)
        self._lost.lose(peer, why)

    def on_op(self, peer: Peer, op: dict[str, Any]) -> None:
        if self._closed:
            return
        try:
            self._handle(peer, op)
        except (MeshError, KernelError) as error:
            self.on_refused(peer.origin, str(error))
            self.mesh.cut(peer.origin, str(error))

    def _handle(self, peer: Peer, op: Mapping[str, Any]) -> None:
        match op["op"]:
            case "message":
                self._inboxes.receive(peer, read_envelope(op))
            case "ack" | "refused":
                self.outboxes.answered(peer, read_answer(op))
            case "result":
                self.calls.answered(peer, op)
            case "withdraw":
                self._parts.signals.say(read_withdrawal(peer, op))
            case "monitor" | "demonitor" | "down":
                self.monitors.op(peer, op)
            case name if name in CALLS:
                self.calls.asked(peer, op)
            case name:
                raise Invalid(f"no operation {name[:40]!r}")

    def on_refused(self, who: str, why: str) -> None:
        self._records.refused(who, why)

    def on_added(self, peer: Peer, how: str) -> None:
        self._records.added(peer, how)

    def on_head(self, peer: Peer, head: TreeHead) -> None:
        self._records.head(peer, head)

    def on_conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        self._records.conflict(peer, conflict)

    async def prove(self, size1: int, size2: int) -> list[bytes]:
        return await self._parts.recorder.ledger.consistency(size1, size2)

    def removed(self, peer: Peer) -> None:
        """``peer`` is none any more: what was for it is given up, and what is done for it here has no rights left."""
        self._records.removed(peer)
        state, live = self._parts.recorder.state, self._parts.live
        for process in live.all():
            turn = state.turns.get(process.turn)
            if turn is not None and turn.mail.sender.endswith(f"@{peer.origin}"):
                process.rights = frozenset()
        why = f"{peer.name} is no longer a peer"
        self._forget(peer, why)
        self._lost.removed(peer, why)
        self.outboxes.clear(peer.origin, why)

    def _forget(self, peer: Peer, why: str) -> None:
        """The link is over, though maybe not the node: what lives as long as a link is told so, and is not repeated."""
        self.calls.down(peer, why)
        self.monitors.lost(peer)

    # -- the clock -----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.outboxes.expire()
        self._lost.expire()
        self._publish_head()
        delay_s = TICK_S if self.outboxes.used else ALONE_S
        self._timer = self._parts.clock.later(delay_s, self._tick)

    def _durable(self, group: Group) -> None:
        if any(written.entry.kind.startswith("process.") for written in group.entries):
            self.mesh.processes_changed()
        self._publish_head()

    def _publish_head(self) -> None:
        """Give the newest full head to the peers."""
        ledger = self._parts.recorder.ledger
        if ledger.full_size > self._shown_size:
            self._shown_size = ledger.full_size
            self.mesh.publish_head(ledger.full_note)
