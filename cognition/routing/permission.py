"""What a sender may have of the tiers. Pure.

The node says the same again at each question (``kernel/policy/routes.py``); a test holds both to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from cognition.config.routing_config import TIERS, PermissionsConfig


def role_of(sender: str) -> str:
    """The role of who has sent a message: a person, another node, or a process of this one."""
    if sender == "operator":
        return "operator"
    return "peer" if "@" in sender or sender.startswith("peer:") else "agent"


def rank_of(tier: str) -> int:
    """The place of a tier among all; -1 for a name that is none: nothing is within that."""
    return TIERS.index(tier) if tier in TIERS else -1


@dataclass(frozen=True, slots=True)
class Permission:
    """``most``: the highest rank. ``escalates``: one more where the task wants that. ``whose``: what said so."""

    most: int
    escalates: bool
    whose: str


def permission_of(config: PermissionsConfig, sender: str) -> Permission:
    """By its address, by the longest glob of it, by its role, or by what is for everybody."""
    role = role_of(sender)
    fitting = (each for each in config.senders if fnmatchcase(sender, each))
    globs = sorted(fitting, key=lambda each: (-len(each), each))
    escalates = role in config.escalation or any(fnmatchcase(sender, each) for each in config.escalation)
    if sender in config.senders:
        return Permission(rank_of(config.senders[sender]), escalates, f"sender {sender}")
    if globs:
        return Permission(rank_of(config.senders[globs[0]]), escalates, f"sender {globs[0]}")
    roles = config.roles
    tier = {"operator": roles.operator, "agent": roles.agent, "peer": roles.peer}[role]
    if tier is not None:
        return Permission(rank_of(tier), escalates, f"role {role}")
    return Permission(rank_of(config.max_tier), escalates, "everybody")


def may_ask(config: PermissionsConfig, model: str) -> bool:
    """Whether the globs let a model be asked. One that is denied is not allowed by any other glob."""
    allowed = any(fnmatchcase(model, each) for each in config.allow)
    return allowed and not any(fnmatchcase(model, each) for each in config.deny)
