"""Who a user of a channel is, and what he may ask: by channel, by address of the process, by tool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.abi import NOBODY, Identity
from kernel.policy.access import BUILT_IN, Access, ChannelRules, Known, RoleRules

EFFECTS = {"calculator": "none", "file_read": "none", "file_write": "local", "pay": "external"}
ROLES = {
    **BUILT_IN,
    "staff": RoleRules(
        agents=("/user/*",), deny_agents=("/user/vault*",), deny_tools=("pay",), sensitive=True
    ),
    "payer": RoleRules(tools=("pay", "file_*"), channels=("web",)),
}
CHANNELS = {
    "web": ChannelRules(),
    "shut": ChannelRules(unknown=()),
    "lobby": ChannelRules(
        agents=("/user/front*",), tools=("calculator", "file_*"), deny_tools=("file_write",)
    ),
}
ACCESS = Access(
    {
        "web:al": Known("alice", ("staff", "payer"), "premium"),
        "tel:7": Known("alice", ("staff", "payer"), "premium"),
        "shut:p": Known("paul", ("payer",)),
        "lobby:op": Known("olga", ("operator",)),
    },
    ROLES,
    CHANNELS,
)
ALL = frozenset(EFFECTS)


@pytest.mark.parametrize(
    ("channel", "user", "who"),
    [
        ("", "", NOBODY),
        ("web", "al", Identity("alice", ("staff", "payer"), "premium", True)),
        ("tel", "7", Identity("alice", ("staff", "payer"), "premium", True)),
        ("tel", "al", Identity("tel:al", ("guest",))),
        ("web", "", Identity("web:", ("guest",))),
        ("shut", "al", Identity("shut:al", ())),
        ("shut", "p", Identity("paul", ("payer",))),
        ("lobby", "op", Identity("olga", ("operator",), "", True)),
    ],
)
def test_a_channel_and_its_user_mean_an_identity(channel: str, user: str, who: Identity) -> None:
    assert ACCESS.who(channel, user) == who


@pytest.mark.parametrize(
    ("channel", "user", "address", "why"),
    [
        ("web", "al", "/user/ada", ""),
        ("web", "al", "/user/vault", "/user/vault is denied to role staff (/user/vault*)"),
        ("web", "al", "/app/x", ""),
        ("tel", "7", "/app/x", "who is staff, payer may not ask /app/x"),
        ("tel", "7", "/user/ada", ""),
        ("shut", "p", "/user/ada", "who is payer is not heard by channel shut"),
        (
            "shut",
            "x",
            "/user/ada",
            "nobody knows shut:x, and shut takes those alone who are among [identities]",
        ),
        ("lobby", "x", "/user/front", ""),
        ("lobby", "op", "/user/back", "channel lobby is for /user/front*, not for /user/back"),
        ("new", "x", "/user/ada", ""),
    ],
)
def test_who_may_ask_which_process_by_which_channel(channel: str, user: str, address: str, why: str) -> None:
    assert ACCESS.against(ACCESS.who(channel, user), channel, address) == why


@pytest.mark.parametrize(
    ("channel", "user", "tools"),
    [
        ("web", "al", ALL - {"pay"}),
        ("shut", "x", frozenset()),
        ("new", "x", {"calculator", "file_read"}),
        ("lobby", "op", {"calculator", "file_read"}),
        ("lobby", "x", {"calculator", "file_read"}),
    ],
)
def test_which_tools_are_used_for_whom_and_what_is_denied_wins(
    channel: str, user: str, tools: frozenset[str]
) -> None:
    assert ACCESS.tools(ACCESS.who(channel, user), channel, EFFECTS) == tools


def test_who_may_use_all_may_use_those_to_come() -> None:
    access = Access({"web:o": Known("olga", ("operator",))}, ROLES, {})
    assert access.tools(access.who("web", "o"), "web", EFFECTS) is None


def test_a_role_of_which_nothing_is_said_gives_nothing() -> None:
    access = Access({"web:o": Known("olga", ("lost",))}, ROLES, {})
    who = access.who("web", "o")
    assert access.against(who, "web", "/user/ada") and access.tools(who, "web", EFFECTS) == frozenset()


NAMES = st.text(max_size=20)


@given(NAMES, NAMES, st.lists(st.sampled_from(["*", "pay", "file_*", "[", "", "*a*"])))
def test_whatever_a_user_is_called_he_is_nobody_else_and_what_is_denied_is_denied(
    user: str, other: str, globs: list[str]
) -> None:
    access = Access(
        {f"web:{other}": Known("alice", ("staff",))}, ROLES, {"web": ChannelRules(deny_tools=("pay", *globs))}
    )
    who = access.who("web", user)
    assert (who.name == "alice") == (user == other)
    tools = access.tools(who, "web", EFFECTS)
    assert tools is not None and "pay" not in tools
