"""Roles: on whose word a tool is called."""

from __future__ import annotations

from kernel.errors import CapabilityError
from kernel.policy.asker import Asker
from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny


def roles_of(asker: Asker) -> frozenset[str]:
    """The roles of whoever has sent the message that is handled; none: it is the node itself."""
    return frozenset(asker.roles)


def roles_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """A tool that declares roles is called for whoever has one of them, and for nobody else. Who has sent the
    message that is handled has it.
    """
    match proposal.operation:
        case UseTool(declaration) if declaration.roles:
            roles = roles_of(proposal.asker)
            if roles.isdisjoint(declaration.roles):
                wanted, whom = " or ".join(declaration.roles), ", ".join(sorted(roles)) or "the node"
                return deny(
                    f"roles: {declaration.name} is called for {wanted}, and this is for {whom}",
                    CapabilityError,
                )
    return None
