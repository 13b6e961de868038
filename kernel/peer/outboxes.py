"""Messages to other nodes: recorded, carried, answered for.

``mesh.delivery.delivery`` decides what goes out and when something is given up; here that is joined to the journal.
Three rules keep a crash at any moment from losing or doubling a message:

- A message goes out only once its entry is on the disk, since its number is that entry's sequence, or above it by what
  was recorded before that entry.
- An answer is recorded, and on the disk, before the outbox knows of it: what the outbox has settled the other node
  forgets.
- What is given up is on the disk as a dead letter before anything else goes out.

What waits to go out when a link ends is not sent over the next one: there everything goes out again, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from hashlib import sha256

from chain.entry.draft import StateChange
from chain.errors import LedgerUnavailable
from chain.journal.group import Group
from chain.ledger.ledger import Draft
from kernel.bounds import Bounds
from kernel.clock import Clock
from kernel.errors import KernelError, NotFound
from kernel.message.messaging import Accepted, Messaging, Outgoing
from kernel.message.wire_message import write_wire_message
from kernel.model.address import parse_target
from kernel.peer.mesh_port import MeshPort
from kernel.peer.peer_records import PeerRefused
from kernel.policy.asker import Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import SendMessage
from kernel.slices.mailboxes import Mail
from kernel.state.after_durable import AfterDurable
from kernel.state.in_transit_records import numbering_record
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.values import cut_bytes
from mesh.delivery.delivery import Answer, Effect, GivenUp, Outbox, Parcel, Send, offset_above
from mesh.errors import LinkDown, LinkFull
from mesh.identity.peers import Peer

MAYBE = "maybe delivered"
_MARK_CHARS = 16
MOST_WAITING = 8_192  # for the disk; with more, another link is not yet filled with what is unanswered
EFFECTS_AT_ONCE = 100  # between two rounds of the event loop: a full outbox is given up without holding it up


@dataclass(frozen=True, slots=True)
class DeliveryParts:
    """What both directions of the way to other nodes work with."""

    recorder: Recorder
    messaging: Messaging
    bounds: Bounds
    clock: Clock
    after: AfterDurable
    mesh: MeshPort
    policy: Policy

    def send(self, origin: str, op: dict[str, object]) -> None:
        """Send, or lose: what is lost with a link is sent again over the next."""
        try:
            self.mesh.send_op(origin, op)
        except LinkDown:
            return
        except LinkFull as error:
            self.mesh.cut(origin, str(error))

    def name_of(self, origin: str) -> str:
        """A peer's petname, or its origin when it is none any more."""
        peer = self.mesh.peer(origin)
        return origin if peer is None else peer.name


class Outboxes:
    """One :class:`mesh.delivery.delivery.Outbox` a peer, over the outbox in the durable state."""

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts
        self._state = parts.recorder.state
        self._boxes: dict[str, Outbox] = {}
        self._newest: dict[str, int] = {}
        self._links: dict[str, int] = {}
        self._effects: deque[tuple[str, int | None, Effect]] = deque()
        self._resumes = False
        self._given_up: set[str] = set()  # and not dead letters yet
        for peer, box in self._state.in_transit.outbox.items():
            self._boxes[peer] = Outbox(peer, [self._parcel(mail) for mail in box.values()])
            self._newest[peer] = max(mail.seq for mail in box.values())
        parts.recorder.ledger.on_group(self._durable)

    def _parcel(self, mail: Mail) -> Parcel:
        wire = write_wire_message(mail, self._parts.recorder.ledger.now_us())
        return Parcel(self._state.in_transit.number(mail), carried_id(mail), mail.deadline_us, wire)

    # -- in ------------------------------------------------------------------------------------------------------

    def put(self, unit: Unit, out: Outgoing, local: str, peer: Peer) -> Accepted:
        """Check a message for the process ``local`` of ``peer`` and add its entry, as :meth:`Messaging.put` does."""
        parse_target(local)
        asked = SendMessage(local, out.text_bytes, out.size_bytes, peer.name, peer.origin, bool(out.answers))
        self._parts.policy.require(out.asked_by(), asked)
        due_us = self._parts.recorder.ledger.now_us() + int(self._parts.bounds.carriage_s * 1e6)
        accepted = Accepted(unit.next_seq, f"{local}@{peer.origin}")
        body = {
            "id": accepted.id,
            "sender": out.sender,
            "to": accepted.address,
            "peer": peer.origin,
            "text": out.text,
            "session": out.session,
            "reply_to": out.reply_to,
            "wants_reply": out.wants_reply,
            "deadline_us": min(out.deadline_us, due_us) if out.deadline_us else due_us,
            "answer_by_us": out.deadline_us,
            "rights": None if out.rights is None else sorted(out.rights),
            "waiting": list(out.waiting),
            "answers": out.answers,
            "status": out.status,
        }
        unit.add(
            Draft("message.sent", body, pid=out.pid, subject=accepted.id, trace=out.trace, cause=out.cause)
        )
        return accepted

    def reply(self, unit: Unit, mail: Mail, status: str, reply: str, pid: int) -> None:
        """The answer to a message of another node, given by ``pid``: add the record that sends it."""
        ident, _, origin = mail.reply_to.rpartition("@")
        peer = self._parts.mesh.peer(origin)
        if peer is None:
            return
        out = Outgoing(
            sender=mail.to,
            target=mail.sender,
            text=cut_bytes(reply, self._parts.bounds.message_bytes)[0],
            session=mail.session.rpartition("@")[0],
            trace=mail.trace,
            cause=unit.next_seq - 1,
            rights=frozenset(),
            deadline_us=mail.deadline_us,
            pid=pid,
            answers=ident,
            status="ok" if status == "ok" else "error",
            asker=Asker(mail.to, "node"),
        )
        try:
            self.put(unit, out, mail.sender.rpartition("@")[0], peer)
        except KernelError as error:
            unit.say(PeerRefused(origin, f"the answer to {ident} cannot be carried: {error}"))

    def reply_dead(self, mail: Mail, why: str) -> None:
        """The message of another node died here: its asker is told, by the kernel."""

        def reply() -> None:
            unit = self._parts.recorder.unit()
            self.reply(unit, mail, "error", f"dead letter: {why}", pid=0)
            self._parts.recorder.commit(unit)

        self._parts.recorder.until_writable(("reply", mail.id), reply)

    def _durable(self, group: Group) -> None:
        """Put what has become durable into the outboxes."""
        for peer in list(self._state.in_transit.outbox):
            for mail in self._fresh(peer):
                if mail.seq < group.size:
                    self._newest[peer] = mail.seq
                    if mail.id not in self._given_up:
                        self._perform(peer, self._box(peer).put(self._parcel(mail)))

    def _fresh(self, peer: str) -> list[Mail]:
        """What the disk had yet to take when it was last looked at, in its order."""
        newest, fresh = self._newest.get(peer, -1), []
        for mail in reversed(self._state.in_transit.outbox.get(peer, {}).values()):
            if mail.seq <= newest:
                break
            fresh.append(mail)
        return fresh[::-1]

    def _box(self, peer: str) -> Outbox:
        box = self._boxes.get(peer)
        if box is None:
            box = self._boxes[peer] = Outbox(peer)
        return box

    # -- out -----------------------------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """There is a new link: all that is unanswered goes out again."""
        self._links[peer] = self._links.get(peer, 0) + 1
        self._begin(peer)

    def _begin(self, peer: str) -> None:
        """Send, unless what was to go out over links that are gone still waits for the disk: then behind that."""
        if len(self._parts.after) + len(self._effects) >= MOST_WAITING:
            self._parts.recorder.when_writable(("begin", peer), lambda: self._begin(peer))
            return
        self._perform(peer, self._box(peer).up())

    def down(self, peer: str) -> None:
        """The link is gone."""
        self._parts.recorder.not_any_more(("begin", peer))
        self._links[peer] = self._links.get(peer, 0) + 1
        self._box(peer).down()

    def answered(self, peer: Peer, answer: Answer) -> None:
        """The other node has taken a message, or refused it."""
        self._parts.recorder.until_writable(
            ("answered", own_id(answer.id)), lambda: self._answered(peer, answer)
        )

    def _answered(self, peer: Peer, answer: Answer) -> None:
        mail = self._state.in_transit.find(own_id(answer.id))
        if mail is None or mail.peer != peer.origin or carried_id(mail) != answer.id:
            return
        if self._state.in_transit.number(mail) != answer.number:
            return
        if answer.why:
            why = _with_doubt(f"refused by {peer.name}: {answer.why}", answer.unknown)
            ticket = self._parts.messaging.dead_letter(
                mail.id, why, self._going_on(peer.origin, answer), "undeliverable"
            )
        else:
            ticket = self._parts.recorder.commit([acknowledgement(mail)])
        self._parts.after.do(lambda: self.settled(peer.origin, answer), ticket)

    def _going_on(self, peer: str, answer: Answer) -> tuple[StateChange, ...]:
        """The record that has later messages numbered above what the other node has seen, when that is more than this
        one has sent: its data was put back from an older copy.
        """
        offset = self._state.in_transit.offset.get(peer, 0)
        above = offset_above(answer.newest, self._parts.recorder.ledger.next_seq, offset)
        return (numbering_record(peer, above),) if above > offset else ()

    def settled(self, peer: str, answer: Answer) -> None:
        """The answer is on the disk: the outbox may know of it."""
        effects = self._box(peer).answer(answer)
        self._perform(peer, [effect for effect in effects if isinstance(effect, Send)])

    @property
    def used(self) -> bool:
        """Whether there was a link, or anything to be carried, since the node began."""
        return bool(self._boxes)

    # -- giving up -----------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Give up what is past its deadline; not while that cannot be recorded."""
        if self._parts.recorder.ledger.read_only is None:
            now_us = self._parts.recorder.ledger.now_us()
            for peer, box in list(self._boxes.items()):
                due_us = box.next_deadline_us
                if due_us is not None and due_us <= now_us:
                    self._perform(peer, box.expire(now_us))

    def withdraw(self, mail: Mail, why: str) -> None:
        """Nobody waits any more for a question that was not acknowledged."""
        effects = self._box(mail.peer).withdraw(self._state.in_transit.number(mail), why)
        self._perform(mail.peer, effects or self._give_up([mail], why))

    def tell(self, peer: str, op: dict[str, object]) -> None:
        """Say something behind all messages that have gone out, once all that is written now is on the disk."""
        self._parts.after.do(lambda: self._parts.send(peer, op), self._parts.recorder.ledger.newest)

    def clear(self, peer: str, why: str) -> None:
        """Give up everything for a peer that is none any more."""
        self._perform(peer, [*self._box(peer).clear(why), *self._give_up(self._fresh(peer), why)])

    def _give_up(self, fresh: list[Mail], why: str) -> list[Effect]:
        """Of what is not on the disk yet: never sent, also when the disk takes it before its dead letter."""
        return [GivenUp(self._parcel(mail), why, False) for mail in fresh if mail.id not in self._given_up]

    def _perform(self, peer: str, effects: list[Effect]) -> None:
        link = self._links.get(peer)
        self._given_up.update(own_id(effect.parcel.id) for effect in effects if isinstance(effect, GivenUp))
        self._effects.extend((peer, link, effect) for effect in effects)
        if not self._resumes:
            self._go_on()

    def _go_on(self) -> None:
        """Carry out some of what waits, in its order, and the rest in the next rounds of the loop: also when one fails,
        or others follow from it, as when a link that is full is cut. What is behind a dead letter waits with it.
        """
        self._resumes, waits = True, False
        try:
            for _ in range(min(EFFECTS_AT_ONCE, len(self._effects))):
                peer, link, effect = self._effects.popleft()
                if isinstance(effect, Send):
                    self._send(peer, link, effect)
                elif isinstance(effect, GivenUp) and not self._dead_letter(effect):
                    self._effects.appendleft((peer, link, effect))
                    self._parts.recorder.when_writable(("given up", self), self._go_on)
                    waits = True
                    break
        finally:
            self._resumes = bool(self._effects)
            if self._resumes and not waits:
                asyncio.get_running_loop().call_soon(self._go_on)

    def _send(self, peer: str, link: int | None, send: Send) -> None:
        def go() -> None:
            if self._links.get(peer) == link:
                self._parts.send(peer, send.op)

        self._parts.after.do(go)

    def _dead_letter(self, lost: GivenUp) -> bool:
        """Whether it is recorded: False while the ledger refuses."""
        why = _with_doubt(lost.why, lost.maybe_delivered)
        ident = own_id(lost.parcel.id)
        try:
            ticket = self._parts.messaging.dead_letter(ident, why, reason="undeliverable")
        except LedgerUnavailable:
            return False
        self._parts.after.do(lambda: None, ticket)
        self._given_up.discard(ident)
        return True


def _with_doubt(why: str, maybe_delivered: bool) -> str:
    return f"{why} ({MAYBE})" if maybe_delivered else why


def carried_id(mail: Mail) -> str:
    """What the other node knows a message by. Its number and its own id come again in a node whose data was restored
    from an older copy, and then mean another message; when it was recorded, and of what it came, do not.
    """
    mark = sha256(mail.time_us.to_bytes(8, "big") + mail.trace).hexdigest()[:_MARK_CHARS]
    return f"{mail.id}.{mark}"


def own_id(carried: str) -> str:
    """The message's id in this node."""
    return carried.partition(".")[0]


def acknowledgement(mail: Mail) -> Draft:
    """The entry that says the other node has it."""
    body = {"id": mail.id, "peer": mail.peer}
    return Draft("message.acknowledged", body, 0, mail.id, mail.trace, mail.seq)


def must_peer(mesh: MeshPort, node: str) -> Peer:
    """The peer of that petname or origin. Raises NotFound."""
    peer = mesh.peer(node)
    if peer is None:
        raise NotFound(f"no peer {node[:80]!r}; weftos peer list shows them")
    return peer
