"""This node among others: targets on other nodes, what their nodes say, and what becomes of it here.

The :class:`mesh.gossip.events.MeshEvents` of the node. A target on another node is ``PID@node``, ``NAME@node`` or
``/address@node``, where node is the petname of a peer or its origin; the message carries the text before the ``@``,
which the other node resolves when it takes it.

A peer gets what its ``may`` grants and nothing more: ``send`` messages to processes, ``ps`` adverts and monitors,
``spawn``, ``kill``. Each of its words is checked behind this door; one that breaks the rules of the protocol ends the
link, one that asks for too much is refused. Both are recorded, as ``peer.refused``, at most once a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from chain.journal.group import Group
from chain.ledger.ledger import Draft
from chain.merkle.head import TreeHead
from kernel.bounds import Bounds
from kernel.errors import Invalid, KernelError, Unavailable
from kernel.message.letters import channel_rights
from kernel.message.mail import Outgoing, Post
from kernel.peer.inboxes import Inboxes, Local, Replied, chain_of
from kernel.peer.mesh_port import MeshPort, NoMesh
from kernel.peer.monitors import Monitors
from kernel.peer.outboxes import Outboxes, Way, must_peer
from kernel.peer.remote_calls import NOCONNECTION, RIGHTS, RemoteCalls
from kernel.process.live import LiveTable
from kernel.process.processes import Processes
from kernel.signals import Signal, Signals
from kernel.slices.mailboxes import Mail
from kernel.slices.turns import Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.values import clean, cut_bytes
from mesh.delivery.delivery import read_answer, read_message
from mesh.errors import MeshError
from mesh.gossip.adverts import MAX_PROCESSES, ProcessAdvert
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import Peer
from mesh.membership.membership import PeerState
from mesh.rate import Bucket

TICK_S = 0.25
ALONE_S = 1.0  # between two looks at the clock while nothing was ever said to another node
HEAD_ENTRY_S = 60.0
WHY_BYTES = 300
LOST_AT_ONCE = (
    100  # between two rounds of the event loop: who asked a node that is lost is told without holding it up
)


@dataclass(frozen=True, slots=True)
class RemoteParts:
    """What the node's own parts are to :class:`Remote`.

    ``effects`` says of each tool there is which it has; ``replied(unit, question, status, text)`` ends an ask of this
    node; ``ended(message, end)`` tells whoever watches a message.
    """

    recorder: Recorder
    post: Post
    processes: Processes
    live: LiveTable
    bounds: Bounds
    signals: Signals
    effects: Mapping[str, str]
    replied: Replied
    ended: Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class PeerRefused(Signal):
    """Something of, or for, another node was refused."""

    who: str
    why: str


class Remote:
    """The kernel's side of the cluster. ``mesh`` is the node's own, once it has joined one; ``name`` and ``address``
    are what the node is called and where it listens.
    """

    def __init__(self, parts: RemoteParts) -> None:
        self._parts = parts
        self._recorder = parts.recorder
        self._state = parts.recorder.state
        self.mesh: MeshPort = NoMesh()
        self.name = self.address = ""
        way = Way(
            parts.recorder, parts.post, parts.bounds, AfterDurable(parts.recorder.ledger), lambda: self.mesh
        )
        self.outboxes = Outboxes(way)
        self._inboxes = Inboxes(way, Local(parts.effects, parts.replied, self.outboxes.settled, parts.ended))
        self.calls = RemoteCalls(lambda: self.mesh, parts.bounds, parts.signals)
        self.monitors = Monitors(parts.live, parts.post, lambda: self.mesh, parts.bounds)
        self._refusals = Bucket(1, 1.0)
        self._unwritten_refusals = 0
        self._head_entry_at: dict[str, float] = {}
        self._boot_size = parts.recorder.ledger.next_seq
        self._published = b""
        self._lost: dict[str, str] = {}  # questions to lost nodes whose askers are to be told, and what
        self._loses = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def join_mesh(self, mesh: MeshPort, name: str) -> None:
        """Take up the node's mesh, before it is opened. ``name``: the node's own petname."""
        self.mesh, self.name = mesh, name

    def opened(self, address: str) -> None:
        """The mesh is open: tell it what changes from now on."""
        self.address = address
        self._recorder.ledger.on_group(self._durable)
        self._tick()

    async def close(self) -> None:
        """Stop serving; what is in the outboxes waits for the next boot."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self.calls.close()

    # -- targets -------------------------------------------------------------------------------------------------

    def split(self, target: str) -> tuple[str, Peer | None]:
        """A target with an ``@``: what it names there, and the peer; None for this node itself. Raises NotFound."""
        local, _, node = target.rpartition("@")
        if node == self.mesh.origin or (node == self.name and self.mesh.peer(node) is None):
            return local, None
        return local, must_peer(self.mesh, node)

    def must_be_up(self, peer: Peer) -> None:
        """An ask has no use for a node that is not there. Raises Unavailable."""
        view = next((view for view in self.mesh.peers() if view.peer.origin == peer.origin), None)
        if view is None or view.member.state is not PeerState.UP:
            raise Unavailable(f"{NOCONNECTION}: there is no link to {peer.name}")

    def chain(self, turn: Turn) -> tuple[str, ...]:
        """Who waits for the end of ``turn``, as ``ADDRESS@ORIGIN``, over nodes, as far as it is known."""
        return chain_of(self._state.turns, turn.mail, self.mesh.origin)

    def left_to(self, sender: str) -> frozenset[str] | None:
        """The tools that ``sender`` may have used here now, whatever it could when its message came; None: it is no
        process of another node. None at all are left to one whose node is no peer any more.
        """
        _, abroad, origin = sender.rpartition("@")
        if not abroad:
            return None
        peer = self.mesh.peer(origin)
        return channel_rights(peer.may, None, peer.ceiling(self._parts.effects)) if peer else frozenset()

    # -- answers to other nodes ----------------------------------------------------------------------------------

    def reply(self, unit: Unit, mail: Mail, status: str, reply: str) -> None:
        """The answer to a message of another node: add the record that sends it."""
        ident, _, origin = mail.reply_to.rpartition("@")
        peer = self.mesh.peer(origin)
        if peer is None:
            return
        slot = self._state.slots.get(mail.to)
        out = Outgoing(
            sender=mail.to,
            target=mail.sender,
            text=cut_bytes(reply, self._parts.bounds.message_bytes)[0],
            session=mail.session.rpartition("@")[0],
            trace=mail.trace,
            cause=unit.next_seq - 1,
            rights=frozenset(),
            deadline_us=mail.deadline_us,
            pid=slot.pid if slot is not None else 0,
            answers=ident,
            status="ok" if status == "ok" else "error",
        )
        try:
            self.outboxes.put(unit, out, mail.sender.rpartition("@")[0], peer)
        except KernelError as error:
            unit.say(PeerRefused(origin, f"the answer to {ident} cannot be carried: {error}"))

    def reply_dead(self, mail: Mail, why: str) -> None:
        """The message of another node died here: its asker is told."""

        def reply() -> None:
            unit = self._recorder.unit()
            self.reply(unit, mail, "error", f"dead letter: {why}")
            self._recorder.commit(unit, durable=True)

        self._recorder.until_writable(("reply", mail.id), reply)

    # -- MeshEvents ----------------------------------------------------------------------------------------------

    def processes(self) -> Iterable[ProcessAdvert]:
        return map(ProcessAdvert._make, self._parts.processes.listing.first(MAX_PROCESSES))

    def process_count(self) -> int:
        return len(self._parts.processes.listing)

    def on_up(self, peer: Peer, identity: PeerIdentity) -> None:
        body = {"origin": peer.origin, "name": peer.name, "boot": identity.boot}
        self._recorder.must([Draft("peer.up", body)])
        self._forget(peer, "another link took the place of the one before")
        self.outboxes.up(peer.origin)

    def on_down(self, peer: Peer, why: str) -> None:
        if self._closed:  # the node stops: what waits goes on waiting at the next boot
            return
        why = _line(why)
        body = {"origin": peer.origin, "name": peer.name, "why": why}
        self._recorder.must([Draft("peer.down", body)])
        self.outboxes.down(peer.origin)
        self._lose(peer, why)

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
                self._inboxes.receive(peer, read_message(op))
            case "ack" | "refused":
                self.outboxes.answered(peer, read_answer(op))
            case "result":
                self.calls.answered(peer, op)
            case "monitor" | "demonitor" | "down":
                self.monitors.op(peer, op)
            case name if name in RIGHTS:
                self.calls.asked(peer, op)
            case name:
                raise Invalid(f"no operation {name[:40]!r}")

    def on_refused(self, who: str, why: str) -> None:
        if not self._refusals.take(time.monotonic()):
            self._unwritten_refusals += 1
            return
        body = {"who": _line(who), "why": _line(why), "more": self._unwritten_refusals}
        self._unwritten_refusals = 0
        self._recorder.must([Draft("peer.refused", body)])

    def on_added(self, peer: Peer, how: str) -> None:
        body = {
            "origin": peer.origin,
            "name": peer.name,
            "address": peer.address,
            "may": sorted(peer.may),
            "tools": None if peer.tools is None else sorted(peer.tools),
            "how": how,
        }
        self._recorder.must([Draft("peer.added", body)])

    def on_head(self, peer: Peer, head: TreeHead) -> None:
        now = time.monotonic()
        if now - self._head_entry_at.get(peer.origin, float("-inf")) >= HEAD_ENTRY_S:
            self._head_entry_at[peer.origin] = now
            body = {"origin": peer.origin, "size": head.size, "root": head.root.hex()}
            self._recorder.must([Draft("peer.head", body)])

    def on_conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        body = {"origin": peer.origin, "name": peer.name, "why": _line(conflict.why)}
        self._recorder.must([Draft("peer.conflict", {**body, **conflict_body(conflict)})])

    async def prove(self, size1: int, size2: int) -> list[bytes]:
        return await self._recorder.ledger.consistency(size1, size2)

    def removed(self, peer: Peer) -> None:
        """``peer`` is none any more: what was for it is given up."""
        self._recorder.must([Draft("peer.removed", {"origin": peer.origin, "name": peer.name})])
        why = f"{peer.name} is no longer a peer"
        self._lose(peer, why)
        self.outboxes.clear(peer.origin, why)

    def _lose(self, peer: Peer, why: str) -> None:
        """Whoever waits for something of a lost node is told ``noconnection``."""
        self._forget(peer, why)
        words = f"{NOCONNECTION}: {peer.name} was lost ({why})"
        for question in self._state.crossings.questions.values():
            if question.peer == peer.origin and question.reply_to:
                self._lost[question.id] = words
        if not self._loses:
            self._lose_some()

    def _lose_some(self) -> None:
        """Some of them now, and the rest in the next rounds of the loop: also when one fails, or others follow from it.
        At the next boot those that are left wait on.
        """
        if self._closed:
            return
        self._loses = True
        try:
            for ident in list(islice(self._lost, LOST_AT_ONCE)):
                self._lose_question(ident, self._lost.pop(ident))
        finally:
            self._loses = bool(self._lost)
            if self._loses:
                asyncio.get_running_loop().call_soon(self._lose_some)

    def _lose_question(self, ident: str, words: str) -> None:
        question = self._state.crossings.questions.get(ident)
        if question is None:  # it was answered, or given up, meanwhile
            return
        if self._state.crossings.find(ident) is not None:
            self.outboxes.withdraw(question, words)
            return
        body = {"id": ident, "peer": question.peer, "why": words}
        unit = Unit()
        unit.add(Draft("message.unanswered", body, 0, ident, question.trace, question.seq))
        self._parts.replied(unit, question, "error", words)
        self._recorder.must(unit)

    def _forget(self, peer: Peer, why: str) -> None:
        """The link is over, though maybe not the node: what lives as long as a link is told so, and is not repeated."""
        self.calls.down(peer, why)
        self.monitors.lost(peer)

    # -- the clock -----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.outboxes.expire()
        self._publish_head()
        delay_s = TICK_S if self.outboxes.used else ALONE_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _durable(self, group: Group) -> None:
        if any(written.entry.kind.startswith("process.") for written in group.entries):
            self.mesh.processes_changed()
        self._publish_head()

    def _publish_head(self) -> None:
        """Give the newest full head to the peers; not one of an earlier boot, which may be behind what they hold."""
        ledger = self._recorder.ledger
        if ledger.full_note is not self._published and ledger.full_size > self._boot_size:
            self._published = ledger.full_note
            self.mesh.publish_head(ledger.full_note)


def conflict_body(conflict: HeadConflict) -> dict[str, Any]:
    """Both heads of a conflict, with their signatures, for an entry."""
    kept, shown = conflict.kept_head, conflict.shown_head
    return {
        "kept_size": kept.size,
        "kept_root": kept.root.hex(),
        "shown_size": shown.size,
        "shown_root": shown.root.hex(),
        "kept": conflict.kept,
        "shown": conflict.shown,
    }


def _line(text: str) -> str:
    """Foreign text, bounded, for an entry."""
    return cut_bytes(clean(text), WHY_BYTES)[0]
