"""Who has a process made: ``operator``, ``agent``, ``peer:ORIGIN`` as principals are written in the ledger, or
``app:NAME``: the operator, by what an application declares.
"""

from __future__ import annotations

MadeBy = str
OPERATOR: MadeBy = "operator"
AGENT: MadeBy = "agent"
_PEER = "peer:"
_APP = "app:"


def peer_maker(origin: str) -> MadeBy:
    """The node of this origin, as a maker."""
    return _PEER + origin


def is_peer(made_by: MadeBy) -> bool:
    """Whether it is another node."""
    return made_by.startswith(_PEER)


def app_maker(app: str) -> MadeBy:
    """The application of this name, as a maker."""
    return _APP + app


def app_of(made_by: MadeBy) -> str:
    """The name of the application that this is, empty for whoever is none."""
    return made_by.removeprefix(_APP) if made_by.startswith(_APP) else ""
