"""What people may ask of messages: to send them, and to watch what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.control.asked import Asked
from kernel.errors import Busy, Invalid, KernelError, Refused, TimedOut
from kernel.kernel import Kernel
from kernel.message.messaging import OPERATOR, Accepted, Outgoing
from kernel.operations.messages import Messages, Send, Sent, Watch
from kernel.operations.operation import Handler
from kernel.slices.mail.keyed import Keyed
from kernel.state.recorder import ledger_errors
from kernel.state.unit import Unit
from kernel.upkeep.erasure import DEFAULT_SESSION
from kernel.values import canonical, clean, sha256_hex

MAX_SESSION = 64


class MessageControl:
    """Messages of people, to processes of this node and of others."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.send.by(self.send),
            Messages.watch.by(self.watch),
        )

    async def send(self, asked: Asked, request: Send) -> Sent:
        if request.key and (earlier := self._earlier(request)) is not None:
            return await self._again(asked, request, earlier)
        unit, accepted = self._put(asked, request, request.wait_s is not None)
        if request.key:
            body = {
                "id": accepted.id,
                "to": accepted.address,
                "key": sha256_hex(clean(request.key)),
                "request": _digest(request),
                "by": "",
            }
            unit.add(Draft("message.keyed", body, 0, accepted.id, b"", PREVIOUS))
        with ledger_errors():
            ticket = self._kernel.recorder.commit(unit)
        answer: Sent = {"message": accepted.id, "address": accepted.address, "seq": accepted.seq}
        return await self._answered(request, answer, ticket.durable)

    async def _answered(self, request: Send, answer: Sent, durable: Callable[[], Awaitable[object]]) -> Sent:
        """The answer to a request, with the end of its message when that is waited for. To be called in the round of
        the loop in which the message was seen to be open: an end is told when it is on the disk, which nothing of this
        round is.
        """
        ident, wait_s = answer["message"], request.wait_s
        end = self._kernel.watchers.wait(ident) if wait_s is not None else None
        try:
            with ledger_errors():
                await durable()
            if end is None:
                return answer
            return cast(Sent, {**answer, **await asyncio.wait_for(end, wait_s)})
        except TimeoutError:
            raise TimedOut(
                f"{answer['address']} has not answered {ident} within {wait_s:g} s; it may still do so"
            ) from None
        finally:
            if end is not None:
                end.cancel()

    def _earlier(self, request: Send) -> Keyed | None:
        """What was sent under the key of a request. Raises Refused when that was something else."""
        now_us = self._kernel.recorder.ledger.now_us()
        earlier = self._kernel.state.keyed.known(sha256_hex(clean(request.key)), now_us)
        if earlier is not None and earlier.request != _digest(request):
            raise Refused(
                f"another message was sent under this key, {earlier.id}: a key is for one request, to one target and "
                "with one text and session; give this one a key of its own"
            )
        return earlier

    async def _again(self, asked: Asked, request: Send, earlier: Keyed) -> Sent:
        """Answer a request that was made before, as the record has it."""
        asked.record(target=request.named, session=request.session, text=request.text, again=earlier.id)
        answer: Sent = {"message": earlier.id, "address": earlier.to, "seq": earlier.seq, "again": True}
        barrier = self._kernel.recorder.barrier
        if not earlier.status:
            return await self._answered(request, answer, barrier)
        with ledger_errors():
            await barrier()
        return {**answer, "status": earlier.status, "turn": earlier.turn}

    async def watch(self, asked: Asked, request: Watch) -> AsyncIterator[dict[str, Any]]:
        if self._kernel.watchers.count >= self._kernel.env.bounds.watchers:
            raise Busy(f"{self._kernel.env.bounds.watchers} messages are being watched, the limit")
        unit, accepted = self._put(asked, request, True)
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

    def _put(self, asked: Asked, request: Send | Watch, wants_reply: bool) -> tuple[Unit, Accepted]:
        """The message in a unit, to be committed at once. ``wants_reply`` matters to another node alone: here every
        reply can be waited for.
        """
        target, text, session = request.named, request.text, session_of(request.session)
        abroad = "@" in target and self._kernel.remote.split(target)[1] is not None
        if "@" not in target:
            self._kernel.messaging.resolve(target)
        seq, trace = asked.record(target=target, session=session, text=text)
        now_us = self._kernel.recorder.ledger.now_us()
        expires_s = request.expires_s if isinstance(request, Send) else None
        out = Outgoing(
            OPERATOR,
            target,
            clean(text),
            clean(session),
            trace,
            seq,
            wants_reply=wants_reply and abroad,
            deadline_us=0 if expires_s is None else now_us + int(expires_s * 1e6),
        )
        unit = self._kernel.recorder.unit()
        with refusal_recorded(self._kernel, target, trace, seq):
            return unit, self._kernel.router.put(unit, out)


def session_of(asked: str) -> str:
    """The session that a person means. Raises Invalid."""
    session = asked or DEFAULT_SESSION
    if len(session) > MAX_SESSION or not session.isprintable() or "\n" in session:
        raise Invalid(f"session must be at most {MAX_SESSION} printable characters")
    return session


@contextmanager
def refusal_recorded(kernel: Kernel, to: str, trace: bytes, cause: int) -> Iterator[None]:
    """What a person says and is refused is an entry."""
    try:
        yield
    except KernelError as error:
        body = {"to": to[:200], "sender": OPERATOR, "why": str(error)[:500]}
        with ledger_errors():
            kernel.recorder.commit([Draft("message.refused", body, 0, "", trace, cause)])
        raise


def _digest(request: Send) -> str:
    """What a key stands for; how long somebody waits is none of it. With the key in it nobody who does not have that
    can try texts against it.
    """
    parts = (request.key, request.named, request.session or DEFAULT_SESSION, request.text)
    return sha256_hex(canonical([clean(part) for part in parts]))
