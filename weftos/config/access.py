"""``[identities]``, ``[permissions]`` and ``[rate_limits]``: what may stand there, and what the node makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field, field_validator

from kernel.model.inbound import MAX_CHANNEL_CHARS, name_fault
from kernel.policy.access import BUILT_IN, GUEST, PERSON, Access, ChannelRules, Known, RoleRules
from kernel.policy.limits.rates import RateLimit, RateLimits
from weftos.config.section import Section, matches

_WORD = r"[a-z0-9][a-z0-9_-]{0,31}"
_WAYS = ("agent", "peer")
"""What processes and other nodes are: no user of a channel can be."""

Role = Annotated[str, matches(re.compile(_WORD), "a role is 1 to 32 small letters, digits, _ or -")]
Channel = Annotated[
    str,
    matches(
        re.compile(_WORD),
        f"a channel is 1 to {MAX_CHANNEL_CHARS} small letters, digits, - or _, such as telegram",
    ),
]
Globs = Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=1000)]
Roles = Annotated[list[Role], Field(max_length=32)]
Rate = Annotated[int, Field(ge=1, le=100_000)]


def _user(text: str) -> str:
    channel, colon, user = text.partition(":")
    if not colon or not re.fullmatch(_WORD, channel):
        raise ValueError("must be CHANNEL:USER, such as telegram:12345")
    if fault := name_fault("user", user):
        raise ValueError(fault)
    return text


class IdentitySettings(Section):
    """Who is known by what: ``users``, each ``CHANNEL:USER``; his ``roles``; ``max_tier``, the highest tier of models
    that is asked for him, before what ``[routing.permissions]`` says.
    """

    users: Annotated[
        list[Annotated[str, Field(max_length=200), AfterValidator(_user)]], Field(min_length=1, max_length=64)
    ]
    roles: Annotated[list[Role], Field(min_length=1, max_length=32)]
    max_tier: Literal["free", "standard", "premium", "elite"] | None = None


class RulesSettings(Section):
    """Globs of what may be asked, and of what is denied whatever allows it: ``agents`` by address, ``tools`` by name.
    ``tools`` left out: all, but for ``guest`` those without effects.
    """

    agents: Globs = Field(default_factory=lambda: ["*"])
    tools: Globs | None = None
    deny_agents: Globs = Field(default_factory=list)
    deny_tools: Globs = Field(default_factory=list)


class RoleSettings(RulesSettings):
    """``channels``: by which whoever has the role is heard. ``sensitive``: whether he is shown what is."""

    channels: Globs = Field(default_factory=lambda: ["*"])
    sensitive: bool = False


class ChannelSettings(RulesSettings):
    """``unknown``: the roles of whom no identity names; none: he is refused; left out: as in ``[permissions]``."""

    unknown: Roles | None = None


class PermissionSettings(Section):
    """``unknown``: the roles of users of channels whom no identity names; none: they are refused."""

    unknown: Roles = Field(default_factory=lambda: [GUEST])
    roles: dict[Role, RoleSettings] = Field(default_factory=dict, max_length=256)
    channels: dict[Channel, ChannelSettings] = Field(default_factory=dict, max_length=256)

    @field_validator("roles")
    @classmethod
    def _are_no_ways(cls, roles: dict[str, RoleSettings]) -> dict[str, RoleSettings]:
        if taken := [name for name in (*_WAYS, PERSON) if name in roles]:
            raise ValueError(f"{taken[0]} is what the node knows by itself: choose another name")
        return roles


class RateSettings(Section):
    """Messages in a minute and in an hour; left out: any number."""

    per_minute: Rate | None = None
    per_hour: Rate | None = None

    def limit(self) -> RateLimit:
        """The same, as the kernel has it."""
        return RateLimit(self.per_minute, self.per_hour)


class RateLimitSettings(RateSettings):
    """For everybody but processes of this node; ``senders``: by name or address, or globs of them, longest first."""

    senders: dict[Annotated[str, Field(min_length=1, max_length=256)], RateSettings] = Field(
        default_factory=dict, max_length=1000
    )


class HasAccess(Protocol):
    """The settings of a node, as far as they are of this."""

    @property
    def identities(self) -> Mapping[str, IdentitySettings]: ...
    @property
    def permissions(self) -> PermissionSettings: ...
    @property
    def rate_limits(self) -> RateLimitSettings: ...


def access_of(settings: HasAccess) -> Access:
    """Who users of channels are, and what they may ask."""
    users = {
        user: Known(name, tuple(known.roles), known.max_tier or "")
        for name, known in settings.identities.items()
        for user in known.users
    }
    said = settings.permissions
    roles = {name: _role(name, role) for name, role in said.roles.items()}
    channels = {name: _channel(channel) for name, channel in said.channels.items()}
    return Access(users, {**BUILT_IN, **roles}, channels, tuple(said.unknown))


def _role(name: str, said: RoleSettings) -> RoleRules:
    tools = None if said.tools is None and name == GUEST else _tools(said)
    return RoleRules(
        tuple(said.agents),
        tools,
        tuple(said.deny_agents),
        tuple(said.deny_tools),
        tuple(said.channels),
        said.sensitive,
    )


def _channel(said: ChannelSettings) -> ChannelRules:
    unknown = None if said.unknown is None else tuple(said.unknown)
    return ChannelRules(
        tuple(said.agents), _tools(said), tuple(said.deny_agents), tuple(said.deny_tools), unknown
    )


def _tools(said: RulesSettings) -> tuple[str, ...]:
    return ("*",) if said.tools is None else tuple(said.tools)


def rate_limits_of(settings: HasAccess) -> RateLimits:
    """How many messages of each sender are accepted."""
    said = settings.rate_limits
    senders = {name: each.limit() for name, each in said.senders.items()}
    return RateLimits(said.limit(), senders, frozenset(settings.identities))


def access_faults(settings: HasAccess) -> Iterator[tuple[str, str]]:
    """What does not fit together, with the table where it stands."""
    said = settings.permissions
    known = {*BUILT_IN, *said.roles}
    used = [
        ("identities", f"identities.{name}.roles", each.roles) for name, each in settings.identities.items()
    ]
    used.append(("permissions", "permissions.unknown", said.unknown))
    used += [
        ("permissions", f"permissions.channels.{name}.unknown", each.unknown or [])
        for name, each in said.channels.items()
    ]
    for table, where, roles in used:
        for role in roles:
            if role not in known:
                yield table, f"{where}: there is no role {role}; there are {', '.join(sorted(known))}"
            elif role == PERSON and table == "permissions":
                yield table, f"{where}: {PERSON} is for whom an identity names"
    seen: dict[str, str] = {}
    for name, each in settings.identities.items():
        if name in (PERSON, *_WAYS):
            yield (
                "identities",
                f"identities.{name}: that is what the node knows by itself: choose another name",
            )
        for user in each.users:
            if seen.setdefault(user, name) != name:
                yield "identities", f"identities: {user} is both {seen[user]} and {name}"
