"""What is said to many at once: published to a topic, or told to all below an address.

A publication and all the messages that it becomes are one unit of records, so all of them are there or none is. For
whom there is no room in his mailbox his subscription decides (:mod:`kernel.slices.mail.subscriptions`); who is down
until somebody starts him, or may not be spoken to by the sender, is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.bounds import Bounds
from kernel.errors import CapabilityError, Invalid, MailboxFull, NotFound, Refused
from kernel.message.message_signals import LettersCame, MessageArrived
from kernel.message.messaging import Messaging, Outgoing
from kernel.policy.asker import Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import Broadcast, Deliver, Publish, Subscribe
from kernel.slices.mail.subscriptions import BACK_PRESSURE, DEAD_LETTER, DROP_OLDEST, OVERFLOWS
from kernel.slices.mail.topic_names import is_telemetry, validate_pattern, validate_topic
from kernel.slices.mailboxes import PUBLICATION, Mail, turn_id
from kernel.slices.tally import BY_POLICY
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit

LEAVE_OUT = "leave_out"
"""What is told to all below an address and finds no room is not accepted for that one, and counted."""
GAVE_WAY = "gave way to a newer publication"


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication became, in numbers as in ``topic.published``, which is entry ``seq``."""

    seq: int
    accepted: int
    dead: int
    dropped: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Copy:
    """One message of a publication: who gives way to it, and whether it is a dead letter at once."""

    address: str
    gives_way: tuple[Mail, ...] = ()
    dead: str = ""


class Publications:
    """Adds to units what they need; what is refused raises before anything is added."""

    def __init__(self, recorder: Recorder, messaging: Messaging, policy: Policy, bounds: Bounds) -> None:
        self._state = recorder.state
        self._messaging = messaging
        self._policy = policy
        self._bounds = bounds

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(
        self, unit: Unit, asker: Asker, address: str, pattern: str, overflow: str, origin: Draft
    ) -> None:
        """Have what is published to the topics of ``pattern`` go to ``address``. ``origin``: a draft that has pid,
        trace and cause. Raises Invalid, Refused, Busy.
        """
        validate_pattern(pattern)
        if overflow not in OVERFLOWS:
            raise Invalid(f"overflow is {overflow[:80]!r}, must be one of {', '.join(OVERFLOWS)}")
        if overflow == DROP_OLDEST and not is_telemetry(pattern):
            raise Invalid(
                f"{DROP_OLDEST} is for telemetry topics alone, whose names begin with telemetry; {pattern} is none: "
                f"use {BACK_PRESSURE} or {DEAD_LETTER}"
            )
        if self._state.slots[address].spec.type != "worker":
            raise Refused(f"{address} is a supervisor: it takes no messages")
        self._policy.require(asker, Subscribe(address, pattern))
        body = {"address": address, "pattern": pattern, "overflow": overflow}
        unit.add(replace(origin, kind="topic.subscribed", body=body, subject=""))

    def unsubscribe(self, unit: Unit, address: str, pattern: str, origin: Draft) -> None:
        """Take a subscription back. Raises NotFound."""
        if address not in self._state.subscriptions.get(pattern, {}):
            raise NotFound(
                f"{address} has not subscribed to {pattern[:200]}; weftos topics list shows who has"
            )
        body = {"address": address, "pattern": pattern}
        unit.add(replace(origin, kind="topic.unsubscribed", body=body, subject=""))

    # -- what is said --------------------------------------------------------------------------------------------

    def publish(self, unit: Unit, out: Outgoing, topic: str) -> Published:
        """Publish ``out`` to ``topic``; its sender gets no copy. Raises Invalid, MailboxFull, and what policy has
        against it.
        """
        out = replace(out, kind=PUBLICATION, topic=validate_topic(topic))
        receivers = {
            one.address: one.overflow
            for one in self._state.subscriptions.to(topic)
            if one.address != out.sender
        }
        asked = Publish(topic, len(receivers), out.text_bytes, out.size_bytes * len(receivers))
        self._policy.require(out.asked_by(), asked)
        return self._write(unit, out, receivers, "")

    def broadcast(self, unit: Unit, out: Outgoing, above: str) -> Published:
        """Say ``out`` to every worker below ``above``. Raises Refused, and what policy has against it."""
        limit, slots = self._bounds.publication_receivers, self._state.slots
        below = islice(slots.tree(above), 1, None)
        workers = (address for address in below if slots[address].spec.type == "worker")
        receivers = dict.fromkeys(islice(workers, limit + 1), LEAVE_OUT)
        if not receivers:
            raise Refused(f"nobody is below {above}; weftos tree shows who is below whom")
        asked = Broadcast(above, len(receivers), out.text_bytes, out.size_bytes * len(receivers))
        self._policy.require(out.asked_by(), asked)
        return self._write(unit, out, receivers, above)

    def _write(self, unit: Unit, out: Outgoing, receivers: Mapping[str, str], below: str) -> Published:
        found = [self._copy(out, *receiver) for receiver in receivers.items()]
        copies = [copy for copy in found if copy is not None]
        counts = {
            "accepted": len(copies),
            "dead": sum(bool(copy.dead) for copy in copies),
            "dropped": sum(len(copy.gives_way) for copy in copies),
            "left_out": len(receivers) - len(copies),
        }
        seq = unit.next_seq
        body = {"topic": out.topic, "below": below, "sender": out.sender, **counts}
        unit.add(Draft("topic.published", body, out.pid, "", out.trace, out.cause))
        for copy in copies:
            self._add(unit, replace(out, cause=seq), copy)
        if counts["dead"]:
            unit.say(LettersCame())
        return Published(seq, **counts)

    def _copy(self, out: Outgoing, address: str, overflow: str) -> Copy | None:
        """The message for ``address``; None when it is left out. Raises what policy has against it."""
        if self._state.slots.down(address) is not None:
            return None
        verdict = self._policy.judge(
            out.asked_by(), Deliver(address, out.topic, out.text_bytes, out.size_bytes)
        )
        if verdict.decision == "allow":
            return Copy(address)
        if verdict.error is CapabilityError:
            return None
        why = "; ".join(verdict.reasons)
        if verdict.error is not MailboxFull or overflow == BACK_PRESSURE:
            raise verdict.error(f"{why}; nobody has got it" if len(out.topic) else why)
        if overflow == DEAD_LETTER:
            return Copy(address, dead=why)
        older = self._giving_way(address, out.size_bytes) if overflow == DROP_OLDEST else ()
        return Copy(address, older) if older else None

    def _giving_way(self, address: str, size_bytes: int) -> tuple[Mail, ...]:
        """The oldest publications to telemetry topics whose going makes room; none when all of them do not."""
        mail, bounds = self._state.mail, self._bounds
        count = len(mail.get(address, ())) + 1 - bounds.mailbox_messages
        held = mail.box_bytes[address] + size_bytes - bounds.mailbox_bytes
        found: list[Mail] = []
        for ident in mail.telemetry.get(address, ()):
            if count <= 0 and held <= 0:
                break
            older = mail.find(ident)
            if older is not None and turn_id(ident) not in self._state.turns:
                found.append(older)
                count, held = count - 1, held - older.size_bytes
        return tuple(found) if count <= 0 and held <= 0 else ()

    def _add(self, unit: Unit, out: Outgoing, copy: Copy) -> None:
        for older in copy.gives_way:
            dead = {"id": older.id, "to": older.to, "why": GAVE_WAY, "reason": "gave_way"}
            dropped = {"id": older.id, "why": GAVE_WAY, "by": BY_POLICY}
            unit.add(
                Draft("message.dead", dead, 0, older.id, older.trace, older.seq),
                Draft("message.dropped", dropped, 0, older.id, older.trace, PREVIOUS),
            )
        accepted = self._messaging.accept(unit, out, copy.address)
        if copy.dead:
            dead = {"id": accepted.id, "to": copy.address, "why": copy.dead, "reason": "overflow"}
            unit.add(Draft("message.dead", dead, 0, accepted.id, out.trace, accepted.seq))
        else:
            unit.say(MessageArrived(copy.address))
