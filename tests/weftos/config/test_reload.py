"""Which keys a running node takes over: every key is one or the other, and the page says which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from weftos.config.config import Config, ConfigError, load
from weftos.config.reload import RELOADS, reloaded

PROVIDER = '[providers.near]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
PRICE = '[providers.near.prices.m]\ninput = "1"\noutput = "2"'


def of(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "weftos.toml"
    file.write_text(text)
    return load(tmp_path, file=file)


@pytest.mark.parametrize(
    ("before", "after", "changed", "waiting"),
    [
        ("", "", (), ()),
        ("", "[agent]\ntemperature = 0.1", ("agent.temperature",), ()),
        ("[agent]\ntools = ['a']", "[agent.tools.a]\nenabled = false", ("agent.tools", "agent.tools.a.enabled"), ()),
        ("", "[guard]\ninjection = 'strip'", ("guard.injection",), ()),
        ("", "[limits]\nsessions = 9", (), ("limits.sessions",)),
        ("", "[memory]\nbudget_tokens = 9\nembedder = 'x'", None, None),
        ("", "[memory]\nbudget_tokens = 9", ("memory.budget_tokens",), ()),
        (PROVIDER, PROVIDER + "timeout_s = 9\nparallel = 2", ("providers.near.parallel",), ()),
        (PROVIDER, PROVIDER + 'api_key_env = "K"', (), ("providers.near.api_key_env",)),
        (PROVIDER, PROVIDER + 'api_key_file = "/k"', (), ("providers.near.api_key_file",)),
        (PROVIDER, PROVIDER + PRICE, ("providers.near.prices.m.input",), ()),
        (PROVIDER, PROVIDER + '[model]\ndefault_provider = "near"', ("model.default_provider",), ()),
        ("", '[routing.permissions]\nmax_tier = "free"', ("routing.permissions.max_tier",), ()),
        ("", '[routing.budgets.senders.al]\ndaily = "1"', ("routing.budgets.senders.al.daily",), ()),
        ("", '[identities.al]\nusers = ["tel:7"]\nroles = ["guest"]', ("identities.al.users",), ()),
        ("", "[permissions]\nunknown = []", ("permissions.unknown",), ()),
        ("", "[rate_limits]\nper_minute = 1", ("rate_limits.per_minute",), ()),
    ],
)  # fmt: skip
def test_what_can_be_is_taken_and_the_rest_is_named(
    tmp_path: Path, before: str, after: str, changed: Any, waiting: Any
) -> None:
    old = of(tmp_path, before)
    if changed is None:
        with pytest.raises(ConfigError):
            of(tmp_path, after)
        return
    found = reloaded(old, of(tmp_path, after))
    assert set(changed) <= set(found.changed) and bool(found.changed) == bool(changed)
    assert found.waiting == waiting
    again = reloaded(found.config, of(tmp_path, after))
    assert again.changed == () and again.waiting == waiting


def test_a_new_provider_waits_and_what_would_need_it_is_refused(tmp_path: Path) -> None:
    old = of(tmp_path, "")
    found = reloaded(old, of(tmp_path, PROVIDER))
    assert (
        found.changed == ()
        and found.waiting
        and all(each.startswith("providers.near") for each in found.waiting)
    )
    assert "near" not in found.config.settings.providers
    for needs in ('[model]\ndefault_provider = "near"\n', '[[models]]\nname = "near/m"\n'):
        with pytest.raises(ConfigError, match="does not fit what needs a restart, so nothing was changed"):
            reloaded(old, of(tmp_path, PROVIDER + needs))


def test_the_page_has_the_table_of_the_code() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|$", page, re.MULTILINE))
    assert {key: rows.get(key) for key in RELOADS} == dict(RELOADS)
