"""What a sender may have of the tiers. Pure.

The node says the same again at each question (``kernel/policy/routes.py``); a test holds both to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def permission_of(
    config: PermissionsConfig, sender: str, roles: Sequence[str] | None = None, max_tier: str = ""
) -> Permission:
    """By what is said of him himself (``max_tier``), by his name or address, by the longest glob of it, by the highest
    of his ``roles`` (None: that of a person, a process or another node), or by what is for everybody.
    """
    roles = (role_of(sender),) if roles is None else roles
    fitting = (each for each in config.senders if fnmatchcase(sender, each))
    globs = sorted(fitting, key=lambda each: (-len(each), each))
    escalates = any(fnmatchcase(each, glob) for each in (sender, *roles) for glob in config.escalation)
    if max_tier:
        return Permission(rank_of(max_tier), escalates, sender)
    if sender in config.senders:
        return Permission(rank_of(config.senders[sender]), escalates, f"sender {sender}")
    if globs:
        return Permission(rank_of(config.senders[globs[0]]), escalates, f"sender {globs[0]}")
    of_roles = [(rank_of(config.roles[role]), role) for role in roles if role in config.roles]
    if of_roles:
        rank, role = max(of_roles, key=lambda each: each[0])
        return Permission(rank, escalates, f"role {role}")
    return Permission(rank_of(config.max_tier), escalates, "everybody")


def may_ask(config: PermissionsConfig, model: str) -> bool:
    """Whether the globs let a model be asked. One that is denied is not allowed by any other glob."""
    allowed = any(fnmatchcase(model, each) for each in config.allow)
    return allowed and not any(fnmatchcase(model, each) for each in config.deny)
