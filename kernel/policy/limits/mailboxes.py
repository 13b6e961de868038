"""Mailboxes: how many messages may wait for a process, and for another node; and what all of them may hold."""

from __future__ import annotations

from kernel.bounds import Bounds
from kernel.errors import Busy, MailboxFull
from kernel.operations.mailboxes import Mailbox, MailboxInForce
from kernel.policy.asker import Asker
from kernel.policy.proposal import Broadcast, Deliver, Facts, Proposal, Publish, SendMessage, Verdict, deny
from kernel.slices.mailboxes import origin_of

PEOPLES_PART = 8
"""One in so many bytes of all mail is for people alone."""

_AS_ALLOWED = Mailbox()

Sized = SendMessage | Publish | Broadcast | Deliver


def mailboxes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A message has to find room where it waits, however large it is beside others: where none waits, one finds room.
    An answer to another node is taken though its outbox is full, or the node: whoever asked is waiting for it.
    """
    match proposal.operation:
        case SendMessage(origin="") as send:
            return (
                _mailbox(send, facts)
                or _share(send, proposal.asker, facts)
                or _node(send, proposal.asker, facts)
            )
        case SendMessage() as send:
            return _outbox(send, facts) or (None if send.answers else _node(send, proposal.asker, facts))
        case Publish() | Broadcast() as said:
            return _node(said, proposal.asker, facts)
        case Deliver() as copy:
            return _mailbox(copy, facts)
    return None


def _mailbox(send: SendMessage | Deliver, facts: Facts) -> Verdict | None:
    mail, slot = facts.state.mail, facts.state.slots.get(send.to)
    limits = in_force(None if slot is None else slot.spec.mailbox, facts.bounds)
    messages = len(mail.get(send.to, ()))
    if messages >= limits["messages"]:
        return deny(
            f"mailbox of {send.to} is full ({messages} messages, limit {limits['messages']})", MailboxFull
        )
    held = mail.box_bytes[send.to]
    if _is_over(held, send, limits["bytes"]):
        return deny(f"mailbox of {send.to} is full ({held} bytes, limit {limits['bytes']})", MailboxFull)
    return None


def in_force(mailbox: Mailbox | None, bounds: Bounds) -> MailboxInForce:
    """What holds of a process that wants this: never more than the node allows, which may allow less by now."""
    wanted = mailbox or _AS_ALLOWED
    return {
        "messages": min(wanted.messages or bounds.mailbox_messages, bounds.mailbox_messages),
        "bytes": min(wanted.bytes or bounds.mailbox_bytes, bounds.mailbox_bytes),
        "overflow": wanted.overflow,
    }


def _share(send: SendMessage, asker: Asker, facts: Facts) -> Verdict | None:
    """What a peer's own messages hold here; what agents send because of them counts to no peer."""
    origin = "" if asker.process else origin_of(asker.principal)
    held, limit = facts.state.mail.origin_bytes[origin], facts.bounds.peer_mail_bytes
    if origin and _is_over(held, send, limit):
        return deny(f"{held} bytes of messages of your node wait here, limit {limit}", Busy)
    return None


def _node(send: Sized, asker: Asker, facts: Facts) -> Verdict | None:
    held, limit = facts.state.mail_bytes, facts.bounds.mail_bytes
    if asker.rights is not None:
        limit -= limit // PEOPLES_PART
    if _is_over(held, send, limit):
        return deny(f"{held} bytes of messages wait in this node, limit {limit}", Busy)
    return None


def _outbox(send: SendMessage, facts: Facts) -> Verdict | None:
    in_transit, bounds, times = facts.state.in_transit, facts.bounds, 2 if send.answers else 1
    waiting, limit = len(in_transit.outbox.get(send.origin, ())), bounds.outbox_messages * times
    if waiting >= limit:
        return deny(f"{waiting} messages wait for {send.peer}, limit {limit}", Busy)
    held = in_transit.held_bytes[send.origin]
    if _is_over(held, send, bounds.outbox_bytes * times):
        return deny(f"{held} bytes wait for {send.peer}, limit {bounds.outbox_bytes}", Busy)
    return None


def _is_over(held: int, send: Sized, limit: int) -> bool:
    return held > 0 and held + send.size_bytes > limit
