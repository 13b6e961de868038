"""``[identities]``, ``[permissions]`` and ``[rate_limits]`` in the file, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.policy.access import ChannelRules, Known, RoleRules
from kernel.policy.limits.rates import RateLimit
from tests.weftos.config.test_routing import faults, of
from weftos.config.access import access_of, rate_limits_of

WHOLE = """
[identities.alice]
users = ["telegram:12345", "web:al"]
roles = ["staff"]
max_tier = "premium"
[permissions]
unknown = ["guest"]
[permissions.roles.staff]
channels = ["tele*"]
agents = ["/user/*"]
deny_agents = ["/user/vault"]
tools = ["file_*"]
deny_tools = ["file_write"]
sensitive = true
[permissions.channels.telegram]
unknown = []
agents = ["/user/front"]
deny_tools = ["pay"]
[rate_limits]
per_minute = 20
[rate_limits.senders."web:*"]
per_minute = 2
per_hour = 30
"""


def test_every_key_is_taken(tmp_path: Path) -> None:
    settings = of(tmp_path, WHOLE).settings
    access = access_of(settings)
    known = Known("alice", ("staff",), "premium")
    assert access.users == {"telegram:12345": known, "web:al": known}
    assert access.roles["staff"] == RoleRules(
        ("/user/*",), ("file_*",), ("/user/vault",), ("file_write",), ("tele*",), True
    )
    assert access.channels == {"telegram": ChannelRules(("/user/front",), deny_tools=("pay",), unknown=())}
    rates = rate_limits_of(settings)
    assert (rates.everybody, rates.senders) == (RateLimit(20), {"web:*": RateLimit(2, 30)})
    assert rates.known == {"alice"}


def test_without_a_word_whoever_comes_by_a_channel_is_a_guest_who_uses_tools_without_effects(
    tmp_path: Path,
) -> None:
    settings = of(tmp_path, "").settings
    access = access_of(settings)
    who = access.who("telegram", "7")
    assert (who.name, who.roles, who.sensitive) == ("telegram:7", ("guest",), False)
    assert access.tools(who, "telegram", {"read": "none", "write": "local"}) == frozenset({"read"})
    assert not rate_limits_of(settings).everybody
    said = access_of(
        of(tmp_path, "[permissions.roles.guest]\nagents = ['/user/a']\n".replace("\\\n", "\n")).settings
    )
    assert said.tools(who, "telegram", {"read": "none", "write": "local"}) == frozenset({"read"})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('roles = ["staff"]', 'roles = ["boss"]', "there is no role boss; there are guest, operator, staff"),
        ('roles = ["staff"]', "roles = []", "at least 1 item"),
        ('unknown = ["guest"]', 'unknown = ["operator"]', "operator is for whom an identity names"),
        ("[identities.alice]", "[identities.operator]", "that is what the node knows by itself"),
        ("[identities.alice]", '[identities."al ice"]', "a name is 1 to 64 letters"),
        ('"telegram:12345"', '"12345"', "must be CHANNEL:USER"),
        ('"telegram:12345"', '"telegram:a/b"', "user 'a/b' is not allowed"),
        ('"telegram:12345"', '"Tele gram:1"', "must be CHANNEL:USER"),
        ("[permissions.roles.staff]", "[permissions.roles.peer]", "peer is what the node knows by itself"),
        ('max_tier = "premium"', 'max_tier = "gold"', "'free', 'standard', 'premium' or 'elite'"),
        ("per_minute = 20", "per_minute = 0", "greater than or equal to 1"),
        ("per_minute = 20", "per_minut = 20", "per_minut"),
        ("sensitive = true", 'sensitive = "yes"', "valid boolean"),
        (
            "[rate_limits]",
            '[identities.bob]\nusers = ["web:al"]\nroles = ["staff"]\n[rate_limits]',
            "web:al is both",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in WHOLE
    assert words in faults(tmp_path, WHOLE.replace(before, after.replace("\\\n", "\n"), 1))
