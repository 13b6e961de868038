"""``[routing]`` and ``[[models]]`` in the file: what agents are told, what the gate goes by, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel.budget.price import Price
from kernel.budget.spending import Cap
from kernel.policy.rules.in_force import NothingRuled
from kernel.policy.terms import Terms
from weftos.config.config import Config, ConfigError, validate_file
from weftos.config.routing import cost_caps, price_of, route_rights, told_routing
from weftos.node.gates import GATES, gates_of
from weftos.node.reload import Routes

PROVIDERS = """
[providers.near]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
model = "own"
[providers.near.prices.small]
input = "0.1"
output = "0.2"
"""
WHOLE = (
    PROVIDERS
    + """
[routing]
mode = "tiered"
[[routing.tiers]]
name = "free"
models = ["near/small", "offline"]
selection = "random"
[[routing.tiers]]
name = "premium"
models = ["near"]
selection = "lowest_cost"
[routing.permissions]
max_tier = "premium"
allow = ["near/*", "offline/"]
deny = ["near/bad*"]
escalation = ["operator"]
escalation_threshold = 0.7
[routing.permissions.roles]
peer = "free"
[routing.permissions.senders]
"/user/a.b" = "standard"
[[models]]
name = "near/small"
context_window = 9_000
[[models]]
name = "near/big"
input = "3"
output = "15"
cached = "0.3"
tier = "premium"
"""
)


def of(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "weftos.toml"
    file.write_text(text)
    return validate_file(file)


def told(tmp_path: Path, text: str) -> dict[str, Any]:
    found = told_routing(of(tmp_path, text).settings)
    assert found is not None
    return found


def faults(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        of(tmp_path, text)
    return str(raised.value)


def test_agents_are_told_the_tiers_with_full_names_and_what_is_known_of_their_models(tmp_path: Path) -> None:
    found = told(tmp_path, WHOLE)
    assert found["tiers"] == [
        {"name": "free", "models": ["near/small", "offline/"], "selection": "random"},
        {"name": "premium", "models": ["near/own", "near/big"], "selection": "lowest_cost"},
    ]
    assert found["models"] == [
        {"name": "near/small", "context_window": 9_000, "input": 100_000, "output": 200_000},
        {"name": "offline/", "context_window": 0, "input": 0, "output": 0},
        {"name": "near/own", "context_window": 0, "input": None, "output": None},
        {"name": "near/big", "context_window": 0, "input": 3_000_000, "output": 15_000_000},
    ]
    assert found["permissions"]["escalation_threshold"] == 0.7


def test_static_routing_tells_agents_nothing(tmp_path: Path) -> None:
    assert told_routing(of(tmp_path, WHOLE.replace("tiered", "static")).settings) is None
    assert told_routing(of(tmp_path, "").settings) is None


def test_the_gate_goes_by_all_of_it_in_either_mode(tmp_path: Path) -> None:
    for text in (WHOLE, WHOLE.replace("tiered", "static")):
        rights = route_rights(of(tmp_path, text).settings)
        assert rights.ranks == {"near/small": 0, "offline/": 0, "near/own": 2, "near/big": 2}
        assert (rights.max_tier, rights.roles, rights.senders) == (
            "premium", {"peer": "free"}, {"/user/a.b": "standard"},
        )  # fmt: skip
        assert (rights.allow, rights.deny) == (("near/*", "offline/"), ("near/bad*",))
        assert rights.escalation == ("operator",)


def test_caps_of_cost_are_read_in_either_mode_and_agents_are_told_that_there_are_some(tmp_path: Path) -> None:
    caps = '[routing.budgets.tiers.premium]\ndaily = "2.5"\n[routing.budgets.senders."*"]\nmonthly = "10"\n'
    found = cost_caps(of(tmp_path, WHOLE + caps).settings)
    assert found.tiers == {"premium": Cap(2_500_000)} and found.senders == {"*": Cap(None, 10_000_000)}
    assert found.tier_of["near/own"] == "premium" and found.tier_of["offline/"] == "free"
    assert told(tmp_path, WHOLE + caps)["capped"] and not told(tmp_path, WHOLE)["capped"]
    wrong = caps.replace("2.5", "2,5")
    assert "routing.budgets.tiers.premium.daily: '2,5' is no amount of money" in faults(
        tmp_path, WHOLE + wrong
    )
    assert "routing.budgets.tiers.elite: no model is of that tier" in faults(
        tmp_path, WHOLE + caps.replace("premium", "elite")
    )
    assert "unknown key routing.budgets.tiers.dear" in faults(
        tmp_path, WHOLE + caps.replace("premium", "dear")
    )


def test_a_model_of_two_tiers_has_the_rank_of_the_lower_one(tmp_path: Path) -> None:
    text = WHOLE.replace('models = ["near"]', 'models = ["near/small"]')
    assert route_rights(of(tmp_path, text).settings).ranks["near/small"] == 0


def test_the_gate_is_in_force_behind_those_of_every_node(tmp_path: Path) -> None:
    settings = of(tmp_path, WHOLE).settings
    gates = gates_of(Terms(), NothingRuled(), Routes(settings))
    assert gates[: len(GATES)] == GATES
    assert [type(gate).__name__ for gate in gates[len(GATES) :]] == [
        "ToolRulesGate",
        "FileRulesGate",
        "Routes",
        "RatesGate",
    ]


def test_a_price_of_models_holds_where_the_provider_has_none(tmp_path: Path) -> None:
    settings = of(tmp_path, WHOLE).settings
    assert price_of(settings, "near", "big") == Price(3_000_000, 15_000_000, 300_000)
    assert price_of(settings, "near", "small") == Price(100_000, 200_000, 100_000)
    assert price_of(settings, "near", "own") is None and price_of(settings, "nobody", "x") is None


def test_every_key_has_its_origin_and_can_be_shown(tmp_path: Path) -> None:
    shown = {each["key"]: each for each in of(tmp_path, WHOLE).view()}
    assert shown["routing.mode"]["value"] == "tiered"
    assert shown["routing.permissions.senders./user/a.b"]["origin"].rpartition(":")[2].isdigit()
    assert shown["models"]["value"][0]["name"] == "near/small"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('mode = "tiered"', 'mode = "tierd"', "routing.mode must be static or tiered"),
        (
            'name = "premium"',
            'name = "platinum"',
            "routing.tiers[1].name must be free, standard, premium or elite",
        ),
        ('name = "premium"', 'name = "free"', "routing.tiers: free is there twice"),
        (
            'models = ["near"]',
            'models = ["far/x"]',
            "far/x is no PROVIDER/MODEL of a provider that is configured",
        ),
        ('name = "near/big"', 'name = "gone/big"', "models: gone/big is no PROVIDER/MODEL"),
        (
            'selection = "random"',
            'selection = "any"',
            "must be preference, round_robin, lowest_cost or random",
        ),
        ('max_tier = "premium"', 'max_tier = "platinum"', "routing.permissions.max_tier must be"),
        ('peer = "free"', 'staff = "free"', "there is no role staff; there are agent, guest, operator, peer"),
        ('"/user/a.b" = "standard"', '"/user/a.b" = "all"', "must be free, standard, premium or elite"),
        ("escalation_threshold = 0.7", "escalation_threshold = 1.5", "must be at most 1"),
        ('cached = "0.3"', 'cashed = "0.3"', "cashed"),
        ('output = "15"\n', "", "near/big has a price in part"),
        ("max_tier =", "maxtier =", "unknown key routing.permissions.maxtier; the nearest is"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in WHOLE
    assert words in faults(tmp_path, WHOLE.replace(before, after, 1))


def test_tiered_without_a_model_is_refused(tmp_path: Path) -> None:
    assert "no tier has a model" in faults(tmp_path, '[routing]\nmode = "tiered"\n')
