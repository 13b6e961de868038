"""Access: who a user of a channel is to the node, and what he may ask of which process. Pure.

Theory of operation. A channel says who has written a message (``CHANNEL:USER``), and the node what that means: an
*identity* with roles, or that nobody knows him; then he has the roles that are said for unknown users of that channel,
and where there are none he is refused. What a role or a channel says is a pair of globs, of processes and of tools, and
what is denied. Something is allowed when the channel and one of his roles allow it, and neither the channel nor any of
his roles denies it. What comes of it goes with the message, on record: nothing is decided anew when a turn is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kernel.abi import NOBODY, Identity

GUEST = "guest"
"""The role of whom no identity names, where nothing else is said."""
PERSON = "operator"
"""The role of who speaks to the node itself; an identity may have it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """``agents``: addresses; ``tools``: names, None for those without effects alone. What is denied is denied, whatever
    allows it.
    """

    agents: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] | None = ("*",)
    deny_agents: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()

    @property
    def all_tools(self) -> bool:
        return self.tools == ("*",) and not self.deny_tools

    def allows_tool(self, tool: str, effects: str) -> bool:
        return effects == "none" if self.tools is None else _fits(tool, self.tools)


@dataclass(frozen=True, slots=True)
class RoleRules(Rules):
    """``channels``: by which whoever has the role is heard. ``sensitive``: whether he may see what is."""

    channels: tuple[str, ...] = ("*",)
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class ChannelRules(Rules):
    """``unknown``: the roles of whom nobody knows, none to refuse him; None: as everywhere."""

    unknown: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """An identity, as it is configured."""

    name: str
    roles: tuple[str, ...]
    max_tier: str = ""


BUILT_IN: Mapping[str, RoleRules] = {
    GUEST: RoleRules(tools=None),
    PERSON: RoleRules(sensitive=True),
}
OPEN = ChannelRules()


@dataclass(frozen=True, slots=True)
class Access:
    """``users``: by ``CHANNEL:USER``. ``roles`` and ``channels``: what is said of each; ``unknown``: the roles of whom
    no identity names, where his channel does not say it.
    """

    users: Mapping[str, Known] = field(default_factory=dict)
    roles: Mapping[str, RoleRules] = field(default_factory=lambda: BUILT_IN)
    channels: Mapping[str, ChannelRules] = field(default_factory=dict)
    unknown: tuple[str, ...] = (GUEST,)

    def names(self) -> frozenset[str]:
        """Of all identities."""
        return frozenset(known.name for known in self.users.values())

    def who(self, channel: str, user: str) -> Identity:
        """Whom a channel means; NOBODY where there is no channel."""
        if not channel:
            return NOBODY
        known = self.users.get(f"{channel}:{user}")
        if known is None:
            unknown = self.channels.get(channel, OPEN).unknown
            known = Known(f"{channel}:{user}", self.unknown if unknown is None else unknown)
        sensitive = any(rules.sensitive for rules in self._of(known.roles))
        return Identity(known.name, known.roles, known.max_tier, sensitive)

    def against(self, who: Identity, channel: str, address: str) -> str:
        """Why he may not ask the process at ``address``; empty where he may."""
        rules = self.channels.get(channel, OPEN)
        roles = [(f"role {role}", self.roles[role]) for role in who.roles if role in self.roles]
        if not roles:
            return f"nobody knows {who.name}, and {channel} takes those alone who are among [identities]"
        named = ", ".join(who.roles)
        for what, denied in ((f"channel {channel}", rules), *roles):
            if (glob := _first(address, denied.deny_agents)) is not None:
                return f"{address} is denied to {what} ({glob})"
        if not _fits(address, rules.agents):
            return f"channel {channel} is for {', '.join(rules.agents) or 'no process'}, not for {address}"
        here = [each for _, each in roles if _fits(channel, each.channels)]
        if not here:
            return f"who is {named} is not heard by channel {channel}"
        if not any(_fits(address, each.agents) for each in here):
            return f"who is {named} may not ask {address}"
        return ""

    def tools(self, who: Identity, channel: str, effects: Mapping[str, str]) -> frozenset[str] | None:
        """The tools that may be used for him, of those that there are (``effects`` by name); None: all, also those to
        come.
        """
        rules = self.channels.get(channel, OPEN)
        roles = [each for each in self._of(who.roles) if _fits(channel, each.channels)]
        denied = [glob for each in (rules, *roles) for glob in each.deny_tools]
        if not denied and rules.all_tools and any(each.all_tools for each in roles):
            return None
        return frozenset(
            tool
            for tool, does in effects.items()
            if rules.allows_tool(tool, does)
            and any(each.allows_tool(tool, does) for each in roles)
            and not _fits(tool, denied)
        )

    def _of(self, roles: Iterable[str]) -> list[RoleRules]:
        """What is said of each. One of which nothing is said gives nothing."""
        return [self.roles[role] for role in roles if role in self.roles]


def _fits(name: str, globs: Iterable[str]) -> bool:
    return _first(name, globs) is not None


def _first(name: str, globs: Iterable[str]) -> str | None:
    return next((each for each in globs if fnmatchcase(name, each)), None)
