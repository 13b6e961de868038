"""Where a message goes: to a process of this node, or to another node; accepted here, and sent again from the dead."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from chain.ledger.ledger import Draft, Ticket
from kernel.errors import NotFound
from kernel.message.mail import Outgoing, Post
from kernel.peer.remote import Remote
from kernel.state.recorder import Recorder
from kernel.state.state import Mail


class Router:
    """Takes messages for any target."""

    def __init__(self, recorder: Recorder, post: Post, remote: Remote) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._post = post
        self._remote = remote

    def draft(self, out: Outgoing, seq: int) -> tuple[Draft, str, str]:
        """As :meth:`Post.draft`, for a target that may name a node."""
        if "@" not in out.target:
            return self._post.draft(out, seq)
        self._post.check_trace(out)
        local, peer = self._remote.split(out.target)
        if peer is None:
            return self._post.draft(replace(out, target=local), seq)
        return self._remote.outboxes.draft(out, local, peer, seq)

    def arrived(self, address: str) -> None:
        """Say that an accepted message was written."""
        self._post.arrived(address)

    def accept(self, out: Outgoing) -> tuple[Mail, Ticket]:
        """Accept one message. It may be told to the sender once the ticket is durable.

        It is delivered at the loop's next round at the earliest, so that the caller can watch it from the start.
        """
        draft, ident, address = self.draft(out, self._recorder.ledger.next_seq)
        ticket = self._recorder.commit([draft], durable=True)
        mail = self._state.find_mail(ident)
        assert mail is not None
        asyncio.get_running_loop().call_soon(self.arrived, address)
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
        seq = self._recorder.ledger.next_seq
        draft, new, address = self.draft(out, seq)
        gone = Draft("message.replayed", {"id": ident, "as": new}, subject=ident, trace=old.trace, cause=seq)
        ticket = self._recorder.commit([draft, gone], durable=True)
        mail = self._state.find_mail(new)
        assert mail is not None
        self.arrived(address)
        await ticket.durable()
        return mail
