"""Mailboxes: how many messages may wait for a process, and for another node."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.errors import Busy, MailboxFull
from kernel.policy.proposal import Facts, Proposal, SendMessage, Verdict, deny
from kernel.slices.mailboxes import Mail


def mailboxes_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A message has to find room where it waits. An answer to another node is taken though its outbox is full: whoever
    asked is waiting for it.
    """
    match proposal.operation:
        case SendMessage(origin=origin) as send:
            return _outbox(send, facts) if origin else _mailbox(send, facts)
    return None


def _mailbox(send: SendMessage, facts: Facts) -> Verdict | None:
    bounds = facts.bounds
    box: Mapping[str, Mail] = facts.state.mail.get(send.to, {})
    if len(box) >= bounds.mailbox_messages:
        return deny(
            f"mailbox of {send.to} is full ({len(box)} messages, limit {bounds.mailbox_messages})",
            MailboxFull,
        )
    may_be_full = (len(box) + 1) * bounds.message_bytes > bounds.mailbox_bytes
    held = sum(mail.size_bytes for mail in box.values()) if may_be_full else 0
    if held + send.size_bytes > bounds.mailbox_bytes:
        return deny(f"mailbox of {send.to} is full ({held} bytes, limit {bounds.mailbox_bytes})", MailboxFull)
    return None


def _outbox(send: SendMessage, facts: Facts) -> Verdict | None:
    in_transit, bounds, times = facts.state.in_transit, facts.bounds, 2 if send.answers else 1
    waiting, limit = len(in_transit.outbox.get(send.origin, ())), bounds.outbox_messages * times
    if waiting >= limit:
        return deny(f"{waiting} messages wait for {send.peer}, limit {limit}", Busy)
    held = in_transit.held_bytes[send.origin]
    if held + send.size_bytes > bounds.outbox_bytes * times:
        return deny(f"{held} bytes wait for {send.peer}, limit {bounds.outbox_bytes}", Busy)
    return None
