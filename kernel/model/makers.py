"""Who has a process made: ``operator``, ``agent``, or ``peer:ORIGIN``, as principals are written in the ledger."""

from __future__ import annotations

MadeBy = str
OPERATOR: MadeBy = "operator"
AGENT: MadeBy = "agent"
_PEER = "peer:"


def peer_maker(origin: str) -> MadeBy:
    """The node of this origin, as a maker."""
    return _PEER + origin


def is_peer(made_by: MadeBy) -> bool:
    """Whether it is another node."""
    return made_by.startswith(_PEER)
