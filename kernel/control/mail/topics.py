"""What people may ask of messages to many: publish, subscribe a process, tell all below an address."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import cast

from chain.ledger.ledger import Draft
from kernel.control.asked import Asked
from kernel.control.mail.messages import refusal_recorded, session_of
from kernel.kernel import Kernel
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.operations.messages import (
    Broadcast,
    Messages,
    Publish,
    Published,
    Subscribe,
    SubscriptionRow,
    Topics,
    Unsubscribe,
    Unsubscribed,
)
from kernel.operations.operation import Handler, Page
from kernel.policy.asker import PERSON
from kernel.slices.mail.topic_names import validate_topic
from kernel.state.recorder import ledger_errors
from kernel.state.unit import Unit
from kernel.values import clean

NOTHING_YET = Draft("", {})


class TopicControl:
    """Topics of a node, as its operator uses them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._publications = kernel.publications
        self._subscriptions = kernel.state.subscriptions

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.broadcast.by(self.broadcast),
            Topics.publish.by(self.publish),
            Topics.subscribe.by(self.subscribe),
            Topics.unsubscribe.by(self.unsubscribe),
            Topics.list.by(self.list),
        )

    async def publish(self, asked: Asked, request: Publish) -> Published:
        topic, session = validate_topic(request.topic), session_of(request.session)
        seq, trace = asked.record(topic=topic, session=session, text=request.text)
        out = Outgoing(OPERATOR, "", clean(request.text), clean(session), trace, seq)
        unit = self._kernel.recorder.unit()
        with refusal_recorded(self._kernel, topic, trace, seq):
            said = self._publications.publish(unit, out, topic)
        await self._write(unit)
        return cast(Published, asdict(said))

    async def broadcast(self, asked: Asked, request: Broadcast) -> Published:
        above, session = self._kernel.messaging.resolve(request.named), session_of(request.session)
        seq, trace = asked.record(below=above, session=session, text=request.text)
        out = Outgoing(OPERATOR, "", clean(request.text), clean(session), trace, seq)
        unit = self._kernel.recorder.unit()
        with refusal_recorded(self._kernel, above, trace, seq):
            said = self._publications.broadcast(unit, out, above)
        await self._write(unit)
        return cast(Published, asdict(said))

    async def subscribe(self, asked: Asked, request: Subscribe) -> SubscriptionRow:
        address = self._kernel.messaging.resolve(request.named)
        pattern, overflow = request.pattern, request.overflow
        self._publications.subscribe(Unit(), PERSON, address, pattern, overflow, NOTHING_YET)
        seq, trace = asked.record(address=address, pattern=pattern, overflow=overflow)
        unit = self._kernel.recorder.unit()
        at, origin = unit.next_seq, Draft("", {}, trace=trace, cause=seq)
        self._publications.subscribe(unit, PERSON, address, pattern, overflow, origin)
        await self._write(unit)
        return {"address": address, "pattern": pattern, "overflow": request.overflow, "seq": at}

    async def unsubscribe(self, asked: Asked, request: Unsubscribe) -> Unsubscribed:
        address = self._kernel.messaging.resolve(request.named)
        self._publications.unsubscribe(Unit(), address, request.pattern, NOTHING_YET)
        seq, trace = asked.record(address=address, pattern=request.pattern)
        unit = self._kernel.recorder.unit()
        origin = Draft("", {}, trace=trace, cause=seq)
        self._publications.unsubscribe(unit, address, request.pattern, origin)
        await self._write(unit)
        return {"address": address, "pattern": request.pattern}

    async def list(self, asked: Asked, request: Page) -> list[SubscriptionRow]:
        found = (one for seq, one in self._subscriptions.in_order.items() if seq > request.after)
        return [cast(SubscriptionRow, asdict(one)) for one in islice(found, request.limit)]

    async def _write(self, unit: Unit) -> None:
        with ledger_errors():
            await self._kernel.recorder.commit(unit).durable()
