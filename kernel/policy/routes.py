"""Routes: which models may be asked for whom. A cell proposes one; this is where it is decided.

A model has the rank of the lowest tier that it is in, and one of no tier the rank behind all of them: who may not have
everything may not have what nobody has placed. Names are ``provider/model``, as they are resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kernel.errors import CapabilityError
from kernel.policy.asker import Asker
from kernel.policy.proposal import AskModel, Facts, Proposal, Verdict, deny
from kernel.policy.roles import ROLE_BY_CHANNEL


@dataclass(frozen=True, slots=True)
class RouteRights:
    """``tiers``: their names, lowest first. ``ranks``: of each model that is in one. ``max_tier``, for everybody else;
    ``senders``, by address or a glob of it, before ``roles``. ``escalation``: senders and roles that may have one tier
    more. A tier that is none of ``tiers`` permits nothing.
    """

    tiers: tuple[str, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)
    max_tier: str = ""
    senders: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    escalation: tuple[str, ...] = ()

    def most(self, sender: str, role: str) -> int:
        """The highest rank that may be asked for a sender; -1: none."""
        tier = self._tier(sender, role)
        rank = self.tiers.index(tier) if tier in self.tiers else -1
        escalates = role in self.escalation or any(fnmatchcase(sender, each) for each in self.escalation)
        return rank + 1 if escalates and rank >= 0 else rank

    def _tier(self, sender: str, role: str) -> str:
        if sender in self.senders:
            return self.senders[sender]
        globs = [each for each in self.senders if fnmatchcase(sender, each)]
        if globs:
            return self.senders[min(globs, key=lambda each: (-len(each), each))]
        return self.roles.get(role, self.max_tier)


@dataclass(frozen=True, slots=True)
class RoutesGate:
    """A question goes only to a model that globs allow and that is within what the sender of its message may have."""

    rights: RouteRights

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        match proposal.operation:
            case AskModel(provider, model):
                return self._of(proposal.asker, f"{provider}/{model}")
        return None

    def _of(self, asker: Asker, name: str) -> Verdict | None:
        rights = self.rights
        denied = next((each for each in rights.deny if fnmatchcase(name, each)), None)
        if denied is not None:
            return deny(f"routes: {name} is denied here ({denied})", CapabilityError)
        if not any(fnmatchcase(name, each) for each in rights.allow):
            return deny(f"routes: {name} is none of the models that are allowed here", CapabilityError)
        role = ROLE_BY_CHANNEL.get(asker.channel, "")
        most, rank = rights.most(asker.principal, role), rights.ranks.get(name, len(rights.tiers))
        if rank <= most or most >= len(rights.tiers) - 1:
            return None
        has = rights.tiers[most] if most >= 0 else "no tier"
        of = rights.tiers[rank] if rank < len(rights.tiers) else "no tier"
        return deny(
            f"routes: {asker.principal} may have {has} at most, and {name} is of {of}", CapabilityError
        )
