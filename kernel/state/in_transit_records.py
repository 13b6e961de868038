"""The state records that say what was decided on the messages of peers."""

from __future__ import annotations

import msgpack

from chain.entry.draft import StateChange
from kernel.state.record_forms import INBOX


def decision_record(origin: str, number: int, ident: str, why: str) -> StateChange:
    """The record that keeps a decision on a peer's message."""
    return StateChange(INBOX, f"{origin}\n{number}", msgpack.packb([ident, why]))


def forgetting_record(origin: str, number: int) -> StateChange:
    """The record that drops one which the peer has settled."""
    return StateChange(INBOX, f"{origin}\n{number}", None)
