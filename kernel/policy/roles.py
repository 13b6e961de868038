"""Roles: on whose word a tool is called."""

from __future__ import annotations

from kernel.abi import Role
from kernel.errors import CapabilityError
from kernel.policy.asker import Channel
from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny

ROLE_BY_CHANNEL: dict[Channel, Role] = {"control": "operator", "process": "agent", "mesh": "peer"}


def roles_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A tool that declares roles is called for whoever has one of them, and for nobody else. Who has sent the
    message that is handled has it.
    """
    match proposal.operation:
        case UseTool(declaration) if declaration.roles:
            role = ROLE_BY_CHANNEL.get(proposal.asker.channel)
            if role not in declaration.roles:
                wanted = " or ".join(declaration.roles)
                return deny(
                    f"roles: {declaration.name} is called for {wanted}, and this is for {role or 'the node'}",
                    CapabilityError,
                )
    return None
