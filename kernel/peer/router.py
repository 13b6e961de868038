"""Where a message goes: to a process of this node, or to another node; accepted here, and sent again from the dead."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from chain.ledger.ledger import PREVIOUS, Draft, Ticket
from kernel.errors import NotFound
from kernel.message.mail import Outgoing, Post
from kernel.message.message_signals import MessageArrived
from kernel.peer.remote import Remote
from kernel.signals import Signals
from kernel.slices.mailboxes import Mail
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit


class Router:
    """Takes messages for any target."""

    def __init__(self, recorder: Recorder, post: Post, remote: Remote, signals: Signals) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._post = post
        self._remote = remote
        self._signals = signals

    def put(self, unit: Unit, out: Outgoing) -> tuple[str, str]:
        """As :meth:`Post.put`, for a target that may name a node; that it has arrived is said when it is written."""
        if "@" not in out.target:
            return self._put_here(unit, out)
        local, peer = self._remote.split(out.target)
        if peer is None:
            return self._put_here(unit, replace(out, target=local))
        return self._remote.outboxes.put(unit, out, local, peer)

    def _put_here(self, unit: Unit, out: Outgoing) -> tuple[str, str]:
        ident, address = self._post.put(unit, out)
        unit.say(MessageArrived(address))
        return ident, address

    def accept(self, out: Outgoing) -> tuple[Mail, Ticket]:
        """Accept one message. It may be told to the sender once the ticket is durable.

        It is delivered at the loop's next round at the earliest, so that the caller can watch it from the start.
        """
        unit = self._recorder.unit()
        ident, _ = self.put(unit, out)
        arrived, unit.written = unit.written, []
        ticket = self._recorder.commit(unit)
        mail = self._state.find_mail(ident)
        assert mail is not None
        for signal in arrived:
            asyncio.get_running_loop().call_soon(self._signals.say, signal)
        return mail, ticket

    async def replay(self, ident: str, cause: int) -> Mail:
        """Send a dead letter again, as a new message with the old sender's rights. Raises NotFound."""
        letter = self._state.dead.get(ident)
        if letter is None:
            raise NotFound(f"no dead letter {ident}; weftos deadletters list shows them")
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
        )
        unit = self._recorder.unit()
        new, _ = self.put(unit, out)
        unit.add(Draft("message.replayed", {"id": ident, "as": new}, 0, ident, old.trace, PREVIOUS))
        ticket = self._recorder.commit(unit)
        mail = self._state.find_mail(new)
        assert mail is not None
        await ticket.durable()
        return mail
