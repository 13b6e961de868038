"""Where a message goes: to a process of this node, or to another node; accepted here, and sent again from the dead."""

from __future__ import annotations

from dataclasses import replace

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.errors import NotFound, Refused
from kernel.message.message_signals import MessageArrived
from kernel.message.messaging import Accepted, Messaging, Outgoing
from kernel.peer.remote import Remote
from kernel.slices.mailboxes import MESSAGE
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit


class Router:
    """Takes messages for any target."""

    def __init__(self, recorder: Recorder, messaging: Messaging, remote: Remote) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._messaging = messaging
        self._remote = remote

    def put(self, unit: Unit, out: Outgoing) -> Accepted:
        """As :meth:`Messaging.put`, for a target that may name a node; that it has arrived is said when it is written.
        Who watches it from the start begins before that.
        """
        if "@" not in out.target:
            return self._put_here(unit, out)
        local, peer = self._remote.split(out.target)
        if peer is None:
            return self._put_here(unit, replace(out, target=local))
        if out.inbound is not None:
            raise Refused(
                f"{out.target} is on another node: a message with a channel, options or attachments is for one of this"
            )
        return self._remote.outboxes.put(unit, out, local, peer)

    def _put_here(self, unit: Unit, out: Outgoing) -> Accepted:
        accepted = self._messaging.put(unit, out)
        unit.say(MessageArrived(accepted.address))
        return accepted

    def check_replay(self, ident: str, target: str = "", again: bool = False) -> None:
        """Raises what :meth:`replay` would."""
        self.put(self._recorder.unit(), self._once_more(ident, -1, target, again))

    async def replay(self, ident: str, cause: int, target: str = "", again: bool = False) -> Accepted:
        """Send a dead letter again, as a new message with the old sender's rights: to ``target``, or where it went. One
        unit says so with it, and a letter that was sent again is not once more without ``again``. Raises NotFound,
        Refused, and what policy has against it.
        """
        out, unit = self._once_more(ident, cause, target, again), self._recorder.unit()
        new = self.put(unit, out)
        body = {"id": ident, "to": new.address, "as": new.id}
        unit.add(Draft("message.replayed", body, 0, ident, out.trace, PREVIOUS))
        await self._recorder.commit(unit).durable()
        return new

    def _once_more(self, ident: str, cause: int, target: str, again: bool) -> Outgoing:
        """What a dead letter is sent again as. Raises NotFound, Refused."""
        letter = self._state.dead.get(ident)
        if letter is None:
            raise NotFound(f"no dead letter {ident}; weftos deadletters list shows them")
        if letter.replays and not again:
            raise Refused(f"{ident} was replayed as {letter.replayed_as} already; --again sends it once more")
        old = letter.mail
        out = Outgoing(
            sender=old.sender,
            target=old.to,
            text=old.text,
            session=old.session,
            trace=old.trace,
            cause=cause,
            rights=old.rights,
            answers=old.answers,
            status=old.status,
            kind=old.kind,
            topic=old.topic,
            inbound=old.inbound,
        )
        if target:
            out = replace(out, target=target, answers="", status="", kind=MESSAGE, topic="")
        return out

    async def drop(self, ident: str, why: str, by: str, cause: int) -> None:
        """Discard a dead letter, for good. Raises NotFound."""
        if ident not in self._state.dead:
            raise NotFound(f"no dead letter {ident}; weftos deadletters list shows them")
        trace = self._state.dead[ident].mail.trace
        draft = Draft("message.dropped", {"id": ident, "why": why, "by": by}, 0, ident, trace, cause)
        await self._recorder.commit([draft], durable=True).durable()
