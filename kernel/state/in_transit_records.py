"""The state records that say what was decided on the messages of peers, and how those for them are numbered."""

from __future__ import annotations

import msgpack

from chain.entry.draft import StateChange
from kernel.state.record_forms import INBOX, NUMBERING


def decision_record(origin: str, number: int, ident: str, why: str) -> StateChange:
    """The record that keeps a decision on a peer's message."""
    return StateChange(INBOX, f"{origin}\n{number}", msgpack.packb([ident, why]))


def forgetting_record(origin: str, number: int) -> StateChange:
    """The record that drops one which the peer has settled."""
    return StateChange(INBOX, f"{origin}\n{number}", None)


def numbering_record(origin: str, offset: int) -> StateChange:
    """The record by which later messages for a peer have their sequence number and ``offset`` for a number."""
    return StateChange(NUMBERING, origin, msgpack.packb(offset))
