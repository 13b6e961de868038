"""What people may ask of messages: to send them, to watch what comes of them, and what could not be delivered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any, cast

from chain.ledger.ledger import Draft
from kernel.control.asked import Asked
from kernel.control.processes import SHOWN_CHARS
from kernel.errors import Busy, Invalid, KernelError, NotFound, TimedOut
from kernel.kernel import Kernel
from kernel.message.messaging import OPERATOR, Accepted, Outgoing
from kernel.operations.messages import DeadLetter, Messages, OfLetter, Replayed, Send, Sent, Watch
from kernel.operations.operation import Handler, Page
from kernel.slices.dead_letters import DeadLetter as Letter
from kernel.state.recorder import ledger_errors
from kernel.state.unit import Unit
from kernel.upkeep.erasure import DEFAULT_SESSION
from kernel.values import clean

MAX_SESSION = 64


class MessageControl:
    """Messages of people, to processes of this node and of others."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._letters = kernel.state.dead

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.send.by(self.send),
            Messages.watch.by(self.watch),
            Messages.deadletters.by(self.deadletters),
            Messages.deadletter.by(self.deadletter),
            Messages.replay.by(self.replay),
        )

    async def send(self, asked: Asked, request: Send) -> Sent:
        wait_s = request.wait_s
        unit, accepted = self._put(asked, request.named, request.text, request.session, wait_s is not None)
        with ledger_errors():
            ticket = self._kernel.recorder.commit(unit)
        # No later: an end is told when it is on the disk, which nothing of this round of the loop is.
        end = self._kernel.watchers.wait(accepted.id) if wait_s is not None else None
        try:
            with ledger_errors():
                await ticket.durable()
            answer: Sent = {"message": accepted.id, "address": accepted.address, "seq": accepted.seq}
            if end is None:
                return answer
            return cast(Sent, {**answer, **await asyncio.wait_for(end, wait_s)})
        except TimeoutError:
            raise TimedOut(
                f"{accepted.address} has not answered {accepted.id} within {wait_s:g} s; it may still do so"
            ) from None
        finally:
            if end is not None:
                end.cancel()

    async def watch(self, asked: Asked, request: Watch) -> AsyncIterator[dict[str, Any]]:
        if self._kernel.watchers.count >= self._kernel.env.bounds.watchers:
            raise Busy(f"{self._kernel.env.bounds.watchers} messages are being watched, the limit")
        unit, accepted = self._put(asked, request.named, request.text, request.session, True)
        queue = self._kernel.watchers.watch(accepted.id)  # before it is written: nothing of it is missed
        try:
            with ledger_errors():
                await self._kernel.recorder.commit(unit).durable()
            yield {
                "event": "accepted",
                "message": accepted.id,
                "address": accepted.address,
                "seq": accepted.seq,
            }
            while True:
                event = await queue.get()
                if event["event"] != "end":
                    yield event
                    continue
                if event["status"] == "dead":
                    yield {"event": "dead", "why": event["reply"]}
                else:
                    yield {"event": "reply", **{key: event[key] for key in ("status", "reply", "turn")}}
                return
        finally:
            self._kernel.watchers.unwatch(accepted.id, queue)

    def _put(
        self, asked: Asked, target: str, text: str, session: str, wants_reply: bool
    ) -> tuple[Unit, Accepted]:
        """The message in a unit, to be committed at once. ``wants_reply`` matters to another node alone: here every
        reply can be waited for.
        """
        session = session or DEFAULT_SESSION
        if len(session) > MAX_SESSION or not session.isprintable() or "\n" in session:
            raise Invalid(f"session must be at most {MAX_SESSION} printable characters")
        abroad = "@" in target and self._kernel.remote.split(target)[1] is not None
        if "@" not in target:
            self._kernel.messaging.resolve(target)
        seq, trace = asked.record(target=target, session=session, text=text)
        asks = wants_reply and abroad
        out = Outgoing(OPERATOR, target, clean(text), clean(session), trace, seq, wants_reply=asks)
        unit = self._kernel.recorder.unit()
        try:
            return unit, self._kernel.router.put(unit, out)
        except KernelError as error:
            body = {"to": target[:200], "sender": OPERATOR, "why": str(error)[:500]}
            with ledger_errors():
                self._kernel.recorder.commit([Draft("message.refused", body, 0, "", trace, seq)])
            raise

    async def deadletters(self, asked: Asked, request: Page) -> list[DeadLetter]:
        found = (letter for letter in self._letters.values() if letter.seq > request.after)
        rows = (_letter_row(letter) for letter in islice(found, request.limit))
        return [{**row, "text": row["text"][:SHOWN_CHARS]} for row in rows]

    async def deadletter(self, asked: Asked, request: OfLetter) -> DeadLetter:
        return _letter_row(self._must(request.id))

    async def replay(self, asked: Asked, request: OfLetter) -> Replayed:
        self._must(request.id)
        seq, _ = asked.record(id=request.id)
        with ledger_errors():
            new = await self._kernel.router.replay(request.id, seq)
        return {"message": new.id, "address": new.address, "seq": new.seq}

    def _must(self, ident: str) -> Letter:
        letter = self._letters.get(ident)
        if letter is None:
            raise NotFound(f"no dead letter {ident}; weftos deadletters list shows them")
        return letter


def _letter_row(letter: Letter) -> DeadLetter:
    mail = letter.mail
    return {
        "id": mail.id,
        "sender": mail.sender,
        "to": mail.to,
        "session": mail.session,
        "text": mail.text,
        "why": letter.why,
        "seq": letter.seq,
        "time_us": letter.time_us,
    }
