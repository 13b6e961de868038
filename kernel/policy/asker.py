"""Who asks something of the node: in whose name, by which channel, in which turn, and with what rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernel.abi import NOBODY, Identity, Role
from kernel.model.makers import AGENT, OPERATOR, MadeBy, is_peer

Channel = Literal["control", "process", "mesh", "node"]
"""The control API, a process of this node, another node, or this node itself, which only hands on."""

ROLE_BY_CHANNEL: dict[Channel, Role] = {"control": "operator", "process": "agent", "mesh": "peer"}


@dataclass(slots=True, unsafe_hash=True)
class Asker:
    """Treat as frozen; it is not, because one is made for each proposal.

    ``principal`` as the ledger writes it: ``operator``, an address, ``ADDRESS@ORIGIN``, ``peer:ORIGIN``. In a turn,
    the sender of the message that is handled, and ``channel`` the way by which that came; ``process`` is the address
    that acts. ``trace`` is of the message from outside that led to it.

    ``rights``: the tools in force, None for all of them. ``may``: what a node that asks is granted here, None for who
    needs no grant; ``name``: that node's petname. ``identity``: of who has written the message that is handled, or is
    to be accepted, where it came by a channel.
    """

    principal: str
    channel: Channel
    process: str = ""
    turn: str = ""
    trace: bytes = b""
    rights: frozenset[str] | None = None
    may: frozenset[str] | None = None
    name: str = ""
    identity: Identity = NOBODY

    @property
    def who(self) -> str:
        """By whose name limits, caps and routes are looked up."""
        return self.identity.name or self.principal

    @property
    def roles(self) -> tuple[str, ...]:
        """What whoever asks is: what the node made of a user of a channel, else by the way by which he asks."""
        if self.identity.name:
            return self.identity.roles
        role = ROLE_BY_CHANNEL.get(self.channel)
        return () if role is None else (role,)

    @property
    def maker(self) -> MadeBy:
        """As whose work a process counts that is made for it."""
        if self.process:
            return AGENT
        return self.principal if is_peer(self.principal) else OPERATOR


PERSON = Asker(OPERATOR, "control")


def channel_of(sender: str) -> Channel:
    """By which channel a message of ``sender`` came."""
    if sender == OPERATOR:
        return "control"
    return "mesh" if "@" in sender else "process"
