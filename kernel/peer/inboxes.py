"""Messages from other nodes: decided once, recorded with the decision, answered when that is on the disk.

What a peer says is hostile until it is checked here. Who it is the session has proved; everything else, the sender's
address, its rights, which question it answers, counts for no more than that peer's word does: the sender is shown as
``ADDRESS@ORIGIN``, its sessions are apart from everybody else's, it can answer only what went to it, and its rights
are cut down to the ceiling that this node gives the peer. What it may not do it is refused, with the reason; a flood
of that ends its link.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chain.entry.draft import StateChange
from chain.errors import ChainError
from chain.ledger.ledger import Draft
from kernel.errors import Busy, KernelError, NotFound, Refused, Unavailable
from kernel.message.message_signals import MessageArrived
from kernel.message.messaging import Outgoing
from kernel.message.wire_message import MAX_WAITING, WireMessage, channel_rights, read_wire_message
from kernel.peer.askers import asker_of
from kernel.peer.outboxes import DeliveryParts, acknowledgement, carried_id, own_id
from kernel.policy.proposal import CallNode
from kernel.slices.mailboxes import Mail
from kernel.slices.sessions import Key
from kernel.state.in_transit_records import decision_record, forgetting_record
from kernel.state.record_forms import SESSION
from kernel.state.unit import Unit
from kernel.values import clean, cut_bytes, sha256_hex
from mesh.delivery.delivery import MAX_OPEN, Again, Answer, Envelope, Inbox, New
from mesh.identity.peers import Peer
from mesh.rate import Bucket

Replied = Callable[[Unit, Mail, str, str], None]
Durable = Callable[[], None]


@dataclass(slots=True)
class Local:
    """What an arriving message meets in this node.

    ``effects`` says of each tool there is which it has; ``replied(unit, question, status, text)`` ends an ask;
    ``settled`` tells an outbox of an answer; ``ended`` is told the end of a message that somebody watches.
    """

    effects: Mapping[str, str]
    replied: Replied
    settled: Callable[[str, Answer], None]
    ended: Callable[[str, dict[str, Any]], None]


class Inboxes:
    """One :class:`mesh.delivery.delivery.Inbox` a peer, over the decisions in the durable state."""

    def __init__(self, parts: DeliveryParts, local: Local) -> None:
        self._parts = parts
        self._local = local
        self._state = parts.recorder.state
        self._boxes: dict[str, Inbox] = {}
        self._spoilt: set[str] = set()
        self._refusals: dict[str, Bucket] = {}
        self._sessions: dict[str, set[Key]] = {}
        self._repeats: dict[str, set[Answer]] = {}

    def receive(self, peer: Peer, message: Envelope) -> None:
        """Take a message, once. Raises :class:`DeliveryError`, :class:`Refused` or :class:`Unavailable` when the link
        has to end: then it is as if the message had not come.
        """
        inbox = self._inbox(peer.origin)
        match inbox.receive(message):
            case Again(answer):
                self._repeat(peer.origin, answer)
            case New():
                self._decide(peer, inbox, message)

    def _repeat(self, origin: str, answer: Answer) -> None:
        """Give an answer once more, behind those that wait for the disk; asked for again meanwhile, it is given once.

        Raises :class:`Unavailable` when more of them wait than any correct sender asks for.
        """
        waiting = self._repeats.setdefault(origin, set())
        if answer in waiting:
            return
        if len(waiting) >= MAX_OPEN:
            raise Unavailable(f"{len(waiting)} answers to your node wait for the disk")
        waiting.add(answer)

        def give() -> None:
            waiting.discard(answer)
            self._parts.send(origin, answer.op())

        self._parts.after.do(give)

    def _inbox(self, origin: str) -> Inbox:
        inbox = self._boxes.get(origin)
        if inbox is None:
            if origin in self._spoilt and len(self._parts.after):
                raise Unavailable("what was decided is not on the disk yet")
            kept = self._state.in_transit.inbox.get(origin, {})
            inbox = Inbox(origin, [Answer(number, ident, why) for number, (ident, why) in kept.items()])
            self._boxes[origin] = inbox
            self._spoilt.discard(origin)
        return inbox

    def _decide(self, peer: Peer, inbox: Inbox, message: Envelope) -> None:
        unit, why, and_then = self._parts.recorder.unit(), "", _nothing
        try:
            and_then = self._take(unit, peer, message)
        except KernelError as error:
            why = cut_bytes(str(error), 500)[0]
            self._count_refusal(peer, inbox)
            body = {"to": "", "sender": f"@{peer.origin}", "why": why}
            unit = self._parts.recorder.unit()
            unit.add(Draft("message.refused", body))
        decision = inbox.decide(message.number, why)
        unit.add(decision_record(peer.origin, message.number, message.id, decision.answer.why))
        unit.add(*(forgetting_record(peer.origin, number) for number in decision.forget))
        try:
            ticket = self._parts.recorder.commit(unit, durable=True)
        except ChainError as error:
            del self._boxes[peer.origin]  # it knows a decision that is not recorded: made anew from the state
            self._sessions.pop(peer.origin, None)
            self._spoilt.add(peer.origin)
            raise Unavailable(f"the journal takes nothing: {error}") from error

        def durable() -> None:
            and_then()
            if self._boxes.get(peer.origin) is inbox:
                self._parts.send(peer.origin, inbox.stored(message.number).op())

        self._parts.after.do(durable, ticket)

    def _count_refusal(self, peer: Peer, inbox: Inbox) -> None:
        """A refusal costs a record; more of them than any mistake makes end the link."""
        bounds = self._parts.bounds
        bucket = self._refusals.get(peer.origin)
        if bucket is None:
            bucket = self._refusals[peer.origin] = Bucket(bounds.peer_refusals, bounds.peer_refusals_per_s)
        if not bucket.take(self._parts.clock.now_s()):
            inbox.forfeit()
            raise Refused(f"{peer.name} sends what is refused, again and again")

    # -- what a message does -------------------------------------------------------------------------------------

    def _take(self, unit: Unit, peer: Peer, message: Envelope) -> Durable:
        """Add what accepting a message means; gives what to do once that is durable. Raises KernelError for a message
        that is refused.
        """
        wire = read_wire_message(message.body, self._parts.bounds.message_bytes)
        if wire.answers:
            return self._answer(unit, peer, wire)
        self._parts.policy.require(asker_of(peer), CallNode("message"))
        address = self._parts.messaging.resolve(wire.to)
        here = f"{address}@{self._parts.mesh.origin}"
        if here in wire.waiting:
            path = " -> ".join((*wire.waiting[wire.waiting.index(here) :], here))
            raise Refused(f"asking {address} would wait for itself: {path}")
        out = self._outgoing(peer, message, wire, address)
        self._parts.messaging.put(unit, out)
        self._open_session(unit, peer, (address, out.session))
        unit.say(MessageArrived(address))
        return _nothing

    def _outgoing(self, peer: Peer, message: Envelope, wire: WireMessage, address: str) -> Outgoing:
        sender = f"{wire.sender}@{peer.origin}"
        return Outgoing(
            sender=sender,
            target=address,
            text=clean(wire.text),
            session=f"{clean(wire.session)}@{peer.origin}",
            trace=wire.trace or os.urandom(16),  # it came of nothing else
            cause=-1,
            rights=channel_rights(peer.may, wire.rights, peer.ceiling(self._local.effects)),
            wants_reply=wire.wants_reply,
            reply_to=f"{message.id}@{peer.origin}" if wire.wants_reply else "",
            deadline_us=self._parts.recorder.ledger.now_us() + wire.ttl_us if wire.ttl_us else 0,
            waiting=wire.waiting,
        )

    def _open_session(self, unit: Unit, peer: Peer, key: Key) -> None:
        """A peer can make up sessions; each costs memory once it has been remembered. For one that is too many the one
        goes that was added to longest ago and is not in use.
        """
        known = self._sessions.get(peer.origin)
        if known is None:
            ours = f"@{peer.origin}"
            known = {key for key in self._state.sessions if key[1].endswith(ours)}
            self._sessions[peer.origin] = known
        limit = self._parts.bounds.peer_sessions
        if key not in known and len(known) >= limit:
            known &= {key for key in known if key in self._state.sessions or self._state.mail.get(key[0])}
        if key not in known and len(known) >= limit:
            oldest = self._unused(known)
            if oldest is None:
                raise Busy(f"your node has {len(known)} sessions in use here, the limit")
            known.remove(oldest)
            unit.add(StateChange(SESSION, "\n".join(oldest), None))
        known.add(key)

    def _unused(self, known: set[Key]) -> Key | None:
        """Of these the one that was added to longest ago and in which no message waits or is handled."""
        used: dict[str, set[str]] = {}
        for key in self._state.sessions:
            if key in known:
                if key[0] not in used:
                    waiting = self._state.mail.get(key[0])
                    used[key[0]] = {mail.session for mail in waiting.values()} if waiting else set()
                if key[1] not in used[key[0]]:
                    return key
        return None

    def _answer(self, unit: Unit, peer: Peer, wire: WireMessage) -> Durable:
        """The answer to a question of this node, from the node that was asked."""
        question = self._state.in_transit.questions.get(own_id(wire.answers))
        if question is None or question.peer != peer.origin or carried_id(question) != wire.answers:
            raise NotFound("nobody waits for this answer")
        text = clean(wire.text)
        body = {
            "id": question.id,
            "peer": peer.origin,
            "status": wire.status,
            "reply": text,
            "reply_hash": sha256_hex(text),
        }
        unsettled = self._state.in_transit.find(question.id) is not None
        number = self._state.in_transit.number(question)
        if unsettled:  # whoever answers it has it
            unit.add(acknowledgement(question))
        unit.add(Draft("message.replied", body, 0, question.id, question.trace, question.seq))
        self._local.replied(unit, question, wire.status, text)

        def durable() -> None:
            if unsettled:
                self._local.settled(peer.origin, Answer(number, wire.answers))
            self._local.ended(question.id, {"status": wire.status, "reply": text, "turn": ""})

        return durable


def _nothing() -> None:
    """Nothing follows."""


def chain_of(turns: Mapping[str, Any], mail: Mail, origin: str) -> tuple[str, ...]:
    """Who waits for the answer to ``mail``, as far as it is known: through asks of this node, and as other nodes say.

    ``turns`` are the open turns by id. The first asker comes first. Raises Refused when the chain is too long.
    """
    chain: list[str] = []
    while mail.reply_to and len(chain) <= MAX_WAITING:
        if "@" in mail.reply_to:
            chain = [*mail.waiting, *chain]
            break
        chain.insert(0, f"{mail.sender}@{origin}")
        turn = turns.get(mail.reply_to.partition(":")[0])
        if turn is None:
            break
        mail = turn.mail
    if len(chain) >= MAX_WAITING:
        raise Refused(f"{len(chain)} processes wait for this one already, the limit is {MAX_WAITING}")
    return tuple(chain)
