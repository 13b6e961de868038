"""Providers that need no configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftos.config.config import load
from weftos.config.presets import PRESETS, address, tables

KEY = "sk-live-1234567890"
KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}


def test_who_has_a_key_in_the_environment_is_there_and_ollama_always() -> None:
    assert list(tables({})) == ["ollama"]
    assert list(tables({"OPENAI_API_KEY": " "})) == ["ollama"]
    assert tables(KEYS) == {
        name: {"kind": preset.kind, "base_url": preset.base_url, "model": preset.model}
        | ({"api_key_env": preset.key} if preset.key else {})
        for name, preset in PRESETS.items()
    }
    assert KEY not in str(tables(KEYS))


def test_a_key_that_is_a_tools_makes_no_provider() -> None:
    assert list(tables(KEYS, without={"OPENAI_API_KEY"})) == ["anthropic", "ollama"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("other", "http://other:11434"),
        ("other:80", "http://other:80"),
        (":80", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80/ollama", "http://127.0.0.1:80/ollama"),
        ("[::1]:80", "http://[::1]:80"),
        ("[::1]", "http://[::1]:11434"),
        ("https://other", "https://other"),
        ("http://other", "http://other:11434"),
        ("http://other:99999", None),
        ("ftp://other", None),
        ("http://u:p@other:80", None),
        ("http://other:80?x=1", None),
    ],
)
def test_an_ollama_may_be_named_in_many_ways(given: str, url: str | None) -> None:
    assert address("ollama", {"OLLAMA_HOST": given}) == url
    assert ("ollama" in tables({"OLLAMA_HOST": given})) is (url is not None)


def test_an_address_that_is_none_makes_no_provider_and_stops_no_node(tmp_path: Path) -> None:
    wrong = {**KEYS, "OPENAI_BASE_URL": "here", "ANTHROPIC_BASE_URL": "http://proxy/v1"}
    providers = load(tmp_path, environment=wrong).settings.providers
    assert set(providers) == {"offline", "anthropic", "ollama"}
    assert providers["anthropic"].base_url == "http://proxy/v1"


def test_a_preset_is_below_whatever_is_configured_and_says_whence_it_is(tmp_path: Path) -> None:
    (tmp_path / "weftos.toml").write_text(
        '[providers.openai]\nmodel = "mine"\n[providers.anthropic]\nkind = "offline"\n'
    )
    config = load(tmp_path, environment={**KEYS, "WEFTOS_PROVIDERS__OLLAMA__MODEL": "small"})
    providers = config.settings.providers
    assert providers["openai"].model == "mine"
    assert providers["openai"].base_url == "https://api.openai.com/v1"
    assert (providers["anthropic"].kind, providers["anthropic"].base_url) == ("offline", None)
    assert providers["ollama"].model == "small"
    assert config.secret_variables() == ("OPENAI_API_KEY",)
    rows = {row["key"]: row for row in config.view()}
    assert rows["providers.openai.base_url"]["origin"] == "preset of OPENAI_API_KEY"
    assert rows["providers.ollama.kind"]["origin"] == "preset of ollama"
    assert KEY not in str(rows)


def test_a_key_in_a_file_takes_the_place_of_that_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "weftos.toml").write_text('[providers.openai]\napi_key_file = "/etc/key"\n')
    openai = load(tmp_path, environment=KEYS).settings.providers["openai"]
    assert (openai.api_key_env, openai.api_key_file) == ("", "/etc/key")


def test_a_tool_that_is_given_such_a_key_still_is(tmp_path: Path) -> None:
    (tmp_path / "weftos.toml").write_text('[tools.t]\nimport = "m:t"\nenv = ["OPENAI_API_KEY"]\n')
    config = load(tmp_path, environment=KEYS)
    assert "openai" not in config.settings.providers
    assert config.tool_variables(KEYS) == {"t": {"OPENAI_API_KEY": KEY}}


def test_without_an_environment_there_are_none(tmp_path: Path) -> None:
    assert set(load(tmp_path).settings.providers) == {"offline"}
