"""Routes: which models may be asked for whom. A cell proposes one; this is where it is decided.

A model has the rank of the lowest tier that it is in, and one of no tier the rank behind all of them: who may not have
everything may not have what nobody has placed. Names are ``provider/model``, as they are resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kernel.errors import CapabilityError
from kernel.policy.asker import Asker
from kernel.policy.proposal import AskModel, Facts, Proposal, Verdict, deny


@dataclass(frozen=True, slots=True)
class RouteRights:
    """``tiers``: their names, lowest first. ``ranks``: of each model that is in one. ``max_tier``, for everybody else;
    ``senders``, by address, identity or a glob of these, before ``roles``, of which the highest counts. ``escalation``:
    senders and roles that may have one tier more. A tier that is none of ``tiers`` permits nothing.
    """

    tiers: tuple[str, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)
    max_tier: str = ""
    senders: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    escalation: tuple[str, ...] = ()

    def most(self, sender: str, roles: Sequence[str], max_tier: str = "") -> int:
        """The highest rank that may be asked for a sender; -1: none. ``max_tier``: what is said of an identity."""
        rank = self._rank(max_tier) if max_tier else self._of(sender, roles)
        escalates = any(fnmatchcase(each, glob) for each in (sender, *roles) for glob in self.escalation)
        return rank + 1 if escalates and rank >= 0 else rank

    def _of(self, sender: str, roles: Sequence[str]) -> int:
        if sender in self.senders:
            return self._rank(self.senders[sender])
        globs = [each for each in self.senders if fnmatchcase(sender, each)]
        if globs:
            return self._rank(self.senders[min(globs, key=lambda each: (-len(each), each))])
        of_roles = [self._rank(self.roles[role]) for role in roles if role in self.roles]
        return max(of_roles, default=self._rank(self.max_tier))

    def _rank(self, tier: str) -> int:
        return self.tiers.index(tier) if tier in self.tiers else -1


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
        most = rights.most(asker.who, asker.roles, asker.identity.max_tier)
        rank = rights.ranks.get(name, len(rights.tiers))
        if rank <= most or most >= len(rights.tiers) - 1:
            return None
        has = rights.tiers[most] if most >= 0 else "no tier"
        of = rights.tiers[rank] if rank < len(rights.tiers) else "no tier"
        return deny(f"routes: {asker.who} may have {has} at most, and {name} is of {of}", CapabilityError)
