"""What people may ask of messages: to send them, and to watch what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.abi import Inbound
from kernel.control.asked import Asked
from kernel.control.mail.admission import Admission
from kernel.control.mail.chat_commands import ChatCommands
from kernel.errors import Busy, Invalid, KernelError, Refused, TimedOut
from kernel.kernel import Kernel
from kernel.message.chat_commands import Command
from kernel.message.messaging import OPERATOR, Accepted, Outgoing
from kernel.message.watch import WatchQueue
from kernel.model.inbound import inbound_of as said_inbound
from kernel.model.inbound import inbound_text, session_key
from kernel.operations.messages import Messages, Said, Send, Sent, Watch
from kernel.operations.operation import Handler
from kernel.slices.feed.reply_metadata import metadata_of
from kernel.slices.mail.keyed import Keyed
from kernel.state.recorder import ledger_errors
from kernel.state.unit import Unit
from kernel.upkeep.erasure import DEFAULT_SESSION
from kernel.values import canonical, clean, sha256_hex

MAX_SESSION = 64


class MessageControl:
    """Messages of people, to processes of this node and of others."""

    def __init__(self, kernel: Kernel, providers: Container[str]) -> None:
        self._kernel = kernel
        self._admission = Admission(kernel)
        self._commands = ChatCommands(kernel, providers)

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.send.by(self.send),
            Messages.watch.by(self.watch),
        )

    async def send(self, asked: Asked, request: Send) -> Sent:
        inbound = inbound_of(request)
        await self._prepare(request, inbound)
        key = _key(request, inbound)
        if key and (earlier := self._earlier(request, key)) is not None:
            return await self._again(asked, request, earlier)
        if (command := self._commands.command_in(request, inbound)) is not None:
            return await self._obey(asked, request, inbound, command, key)
        unit, accepted = self._put(asked, request, inbound, request.wait_s is not None)
        if key:
            unit.add(_keyed(accepted, key, request))
        with ledger_errors():
            ticket = self._kernel.recorder.commit(unit)
        answer: Sent = {"message": accepted.id, "address": accepted.address, "seq": accepted.seq}
        answer = _answer_to(request, answer)
        return await self._answered(request, answer, ticket.durable)

    async def _obey(
        self, asked: Asked, request: Said, inbound: Inbound | None, command: Command, key: str
    ) -> Sent:
        """Do what a message asks of the node, if its sender is heard at all."""
        target = self._here(request.named)
        if inbound is None or self._is_abroad(request.named):
            raise Refused(f"{request.named} is on another node: commands of chats are for those of this")
        heard, _ = self._admission.admitted(self._kernel.messaging.resolve(target), inbound)
        known = (key, _digest(request) if key else "")
        done = await self._commands.obey(asked, request, heard or inbound, target, command, known)
        return _answer_to(request, done)

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
            return cast(Sent, {**answer, **self._with_metadata(await asyncio.wait_for(end, wait_s))})
        except TimeoutError:
            raise TimedOut(
                f"{answer['address']} has not answered {ident} within {wait_s:g} s; it may still do so"
            ) from None
        finally:
            if end is not None:
                end.cancel()

    def _earlier(self, request: Said, key: str) -> Keyed | None:
        """What was sent under that key. Raises Refused when it was something else."""
        now_us = self._kernel.recorder.ledger.now_us()
        earlier = self._kernel.state.keyed.known(key, now_us)
        if earlier is not None and earlier.request != _digest(request):
            which = (
                f"with the id {request.id} of channel {request.channel}" if request.id else "under this key"
            )
            raise Refused(
                f"another message was sent {which}, {earlier.id}: it is for one request, to one target and "
                "with one text and session; give this one another"
            )
        return earlier

    async def _again(self, asked: Asked, request: Send, earlier: Keyed) -> Sent:
        """Answer a request that was made before, as the record has it."""
        asked.record(**_said(request), again=earlier.id)
        answer: Sent = {"message": earlier.id, "address": earlier.to, "seq": earlier.seq, "again": True}
        answer = _answer_to(request, answer)
        barrier = self._kernel.recorder.barrier
        if not earlier.status:
            return await self._answered(request, answer, barrier)
        with ledger_errors():
            await barrier()
        return {**answer, "status": earlier.status, "turn": earlier.turn}

    async def watch(self, asked: Asked, request: Watch) -> AsyncIterator[dict[str, Any]]:
        if self._kernel.watchers.count >= self._kernel.env.bounds.watchers:
            raise Busy(f"{self._kernel.env.bounds.watchers} messages are being watched, the limit")
        inbound = inbound_of(request)
        await self._prepare(request, inbound)
        key = _key(request, inbound)
        if key and (earlier := self._earlier(request, key)) is not None:
            asked.record(**_said(request), again=earlier.id)
            async for event in self._watched_again(earlier):
                yield _addressed(event, request)
            return
        if (command := self._commands.command_in(request, inbound)) is not None:
            done = await self._obey(asked, request, inbound, command, key)
            yield {"event": "accepted", **{name: done[name] for name in ("message", "address", "seq")}}
            reply = {"event": "reply", **{name: done[name] for name in ("status", "reply", "turn")}}
            yield _addressed(reply, request)
            return
        unit, accepted = self._put(asked, request, inbound, True)
        if key:
            unit.add(_keyed(accepted, key, request))
        told = {"event": "accepted", "message": accepted.id, "address": accepted.address, "seq": accepted.seq}
        queue = self._kernel.watchers.watch(accepted.id)  # before it is written: nothing of it is missed
        with self._leaving(accepted.id, queue):
            with ledger_errors():
                ticket = self._kernel.recorder.commit(unit)
            async for event in self._watched(told, ticket.durable, queue):
                yield _addressed(event, request)

    async def _watched_again(self, earlier: Keyed) -> AsyncIterator[dict[str, Any]]:
        """What comes from now on of a message that was sent before; its end, where that has come already."""
        told = {
            "event": "accepted",
            "message": earlier.id,
            "address": earlier.to,
            "seq": earlier.seq,
            "again": True,
        }
        if earlier.status:
            yield told
            yield {"event": "ended", "status": earlier.status, "turn": earlier.turn}
            return
        queue = self._kernel.watchers.watch(earlier.id)
        with self._leaving(earlier.id, queue):
            async for event in self._watched(told, self._kernel.recorder.barrier, queue):
                yield event

    async def _watched(
        self,
        told: dict[str, Any],
        durable: Callable[[], Awaitable[object]],
        queue: WatchQueue,
    ) -> AsyncIterator[dict[str, Any]]:
        with ledger_errors():
            await durable()
        yield told
        while (event := await queue.get())["event"] != "end":
            yield event
        if event["status"] == "dead":
            yield {"event": "dead", "why": event["reply"]}
        else:
            reply = {key: event[key] for key in ("status", "reply", "turn")}
            yield {"event": "reply", **self._with_metadata(reply)}

    def _with_metadata(self, end: dict[str, Any]) -> dict[str, Any]:
        """What a reply is told with, where its turn is of this node."""
        metadata = metadata_of(self._kernel.state.turn_logs.trace_of(end.get("turn", "")))
        return end if metadata is None else {**end, "metadata": metadata}

    @contextmanager
    def _leaving(self, ident: str, queue: WatchQueue) -> Iterator[None]:
        try:
            yield
        finally:
            self._kernel.watchers.unwatch(ident, queue)

    def _put(
        self, asked: Asked, request: Said, inbound: Inbound | None, wants_reply: bool
    ) -> tuple[Unit, Accepted]:
        """The message in a unit, to be committed at once. ``wants_reply`` matters to another node alone: here every
        reply can be waited for.
        """
        target, session = request.named, session_of(request.session, inbound)
        abroad, rights = self._is_abroad(target), None
        if not abroad:
            address = self._kernel.messaging.resolve(self._here(target))
            self._check_chat(address, inbound)
            inbound, rights = self._admission.admitted(address, inbound)
        seq, trace = asked.record(**{**_said(request), "session": session})
        now_us = self._kernel.recorder.ledger.now_us()
        expires_s = request.expires_s if isinstance(request, Send) else None
        out = Outgoing(
            OPERATOR,
            target,
            clean(request.text),
            clean(session),
            trace,
            seq,
            wants_reply=wants_reply and abroad,
            deadline_us=0 if expires_s is None else now_us + int(expires_s * 1e6),
            rights=rights,
            inbound=inbound,
        )
        unit = self._kernel.recorder.unit()
        with refusal_recorded(self._kernel, target, trace, seq):
            if abroad or inbound is None or not inbound.chat:
                return unit, self._kernel.router.put(unit, out)
            return unit, self._kernel.chats.put(unit, replace(out, target=self._here(target)), inbound)

    def _check_chat(self, address: str, inbound: Inbound | None) -> None:
        """What a channel brings without a chat is no word of somebody else's: a session answers its own chat alone."""
        of = self._kernel.state.slots[address].spec.session
        if of and inbound is not None and inbound.channel and not inbound.chat:
            raise Refused(f"{address} is the session of chat {of}: a message of a channel says its chat")

    async def _prepare(self, request: Said, inbound: Inbound | None) -> None:
        """See that the session of a chat can take a message, if it is heard at all. What is checked after it is so
        until that is written.
        """
        if inbound is None or not inbound.chat or self._is_abroad(request.named):
            return
        key, target = _key(request, inbound), self._here(request.named)
        if key and self._earlier(request, key) is not None:
            return
        self._admission.admitted(self._kernel.messaging.resolve(target), inbound)
        await self._kernel.chats.prepare(target, inbound)

    def _is_abroad(self, target: str) -> bool:
        return "@" in target and self._kernel.remote.split(target)[1] is not None

    def _here(self, target: str) -> str:
        """A target of this node, without its name."""
        return target.rpartition("@")[0] if "@" in target else target


def inbound_of(request: Said) -> Inbound | None:
    """How a message came, as its request says; None for not a word. Raises Invalid."""
    names = (request.channel, request.chat, request.user, request.id)
    if "" in names:
        raise Invalid("channel, chat, user and id are not empty: leave out what is not known")
    channel, chat, user, ident = (name or "" for name in names)
    return said_inbound(channel, chat, user, ident, request.options or {}, request.attachments)


def _where(request: Said) -> dict[str, str]:
    """Where the answer to a message belongs."""
    return {name: said for name in ("channel", "chat") if (said := getattr(request, name))}


def _answer_to(request: Said, answer: Sent) -> Sent:
    return cast(Sent, {**answer, **_where(request)})


def _addressed(event: dict[str, Any], request: Said) -> dict[str, Any]:
    """What ends a message says where that belongs."""
    ends = event["event"] in ("reply", "dead", "ended")
    return {**event, **_where(request)} if ends else event


def _said(request: Said) -> dict[str, Any]:
    """What a request says, for the record of who asked."""
    return {"target": request.named, "session": request.session, "text": request.text}


def session_of(asked: str, inbound: Inbound | None = None) -> str:
    """The session that a person means; that of its chat, where a message is of one. Raises Invalid."""
    if inbound is not None and inbound.chat:
        if asked:
            raise Invalid("a message of a chat is of the session of that chat: leave session out")
        return session_key(inbound)
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


def _key(request: Said, inbound: Inbound | None) -> str:
    """The digest under which a request is known when it is made again; empty where it is not. Raises Invalid."""
    key = request.key if isinstance(request, Send) else ""
    if inbound is None or not inbound.id:
        return sha256_hex(clean(key)) if key else ""
    if key:
        raise Invalid(
            f"a message with an id of its channel is known by that ({inbound.channel}, {inbound.id}): "
            "leave the key out"
        )
    return sha256_hex(f"channel:{sha256_hex(canonical([inbound.channel, inbound.id]))}")


def _keyed(accepted: Accepted, key: str, request: Said) -> Draft:
    """The entry that has a message known under its key, behind that which accepts it."""
    body = {
        "id": accepted.id,
        "to": accepted.address,
        "key": key,
        "request": _digest(request),
        "by": "",
        "status": "",
    }
    return Draft("message.keyed", body, 0, accepted.id, b"", PREVIOUS)


def _digest(request: Said) -> str:
    """What a key stands for; how long somebody waits is none of it. With the key in it nobody who does not have that
    can try texts against it.
    """
    key = request.key if isinstance(request, Send) else ""
    parts = [key, request.named, request.session or DEFAULT_SESSION, request.text]
    inbound = inbound_text(inbound_of(request))
    return sha256_hex(canonical([clean(part) for part in (*parts, *filter(None, [inbound]))]))
