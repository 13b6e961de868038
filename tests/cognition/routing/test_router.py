"""Which model a turn asks: every tier and its bounds, every permission, every way to choose within a tier."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.config.check import parse
from cognition.config.routing_config import TIERS, PermissionsConfig, ToldRouting
from cognition.routing.permission import may_ask, permission_of, role_of
from cognition.routing.router import (
    ANSWER_TOKENS,
    BEGINS,
    Found,
    Need,
    Route,
    Router,
    split_name,
    wanted_rank,
)

OF_EACH = [{"name": name, "models": [f"p/{name}-1", f"p/{name}-2"]} for name in TIERS]


def told(tiers: Any = OF_EACH, models: Any = (), **permissions: Any) -> ToldRouting:
    given = {"tiers": tiers, "models": list(models), "permissions": permissions}
    return parse(ToldRouting, given, "routing")


def routed(
    routing: ToldRouting, complexity: float = 0.0, sender: str = "operator", tokens: int = 100, drawn: int = 0
) -> Route:
    return Router(routing).route(Need(complexity, sender, tokens), Found(drawn))


# -- tiers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("complexity", "tier"),
    [
        (0.0, "free"),
        (0.1499, "free"),
        (0.15, "standard"),
        (0.3999, "standard"),
        (0.40, "premium"),
        (0.6999, "premium"),
        (0.70, "elite"),
        (1.0, "elite"),
    ],
)
def test_each_tier_begins_where_the_one_before_ends(complexity: float, tier: str) -> None:
    assert TIERS[wanted_rank(complexity)] == tier
    found = routed(told(), complexity)
    assert found.tier == tier and found.chain[0] == f"p/{tier}-1"


@pytest.mark.parametrize(("wanted", "most"), list(product(range(4), range(4))))
def test_every_task_under_every_permission(wanted: int, most: int) -> None:
    """Down from what is wanted or permitted, then up to what is permitted, each model once and none beyond."""
    found = routed(told(max_tier=TIERS[most]), BEGINS[wanted])
    began = min(wanted, most)
    ranks = [*range(began, -1, -1), *range(began + 1, most + 1)]
    assert found.chain == tuple(f"p/{TIERS[rank]}-{number}" for rank in ranks for number in (1, 2))
    assert found.tier == TIERS[began]


def test_a_tier_without_models_leaves_the_task_to_the_one_below_and_then_above() -> None:
    only = [OF_EACH[0], OF_EACH[3]]
    assert routed(told(only), 0.5).tier == "free"
    assert routed(told(only[1:]), 0.5).tier == "elite"
    assert routed(told(only[1:], max_tier="premium"), 0.9).chain == ()


def test_a_model_of_two_tiers_is_in_the_chain_once() -> None:
    both = [{"name": "free", "models": ["p/a"]}, {"name": "standard", "models": ["p/b", "p/a"]}]
    assert routed(told(both), 0.2).chain == ("p/b", "p/a")


def test_a_name_is_cut_at_its_first_slash() -> None:
    assert split_name("router/meta/llama") == ("router", "meta/llama")


# -- permissions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "role"),
    [
        ("operator", "operator"),
        ("/user/a", "agent"),
        ("/user/a@weftos-x", "peer"),
        ("peer:weftos-x", "peer"),
    ],
)
def test_a_senders_role(sender: str, role: str) -> None:
    assert role_of(sender) == role
    own = told(max_tier="free", roles={role: "premium"})
    assert routed(own, 0.9, sender).tier == "premium"
    others = {name: "elite" for name in ("operator", "agent", "peer") if name != role}
    assert routed(told(max_tier="free", roles=others), 0.9, sender).tier == "free"


@pytest.mark.parametrize(
    ("senders", "tier", "whose"),
    [
        ({"/user/a": "standard", "/user/*": "elite"}, "standard", "sender /user/a"),
        ({"/user/*": "premium", "*": "free"}, "premium", "sender /user/*"),
        ({"/other": "free"}, "elite", "role agent"),
    ],
)
def test_an_address_goes_before_a_glob_and_that_before_a_role(
    senders: dict[str, str], tier: str, whose: str
) -> None:
    found = routed(told(senders=senders, roles={"agent": "elite"}, max_tier="free"), 0.9, "/user/a")
    assert found.tier == tier and f"{whose} may have {tier}" in found.why


def test_a_tier_that_is_none_permits_nothing() -> None:
    """No check of the configuration lets one through; what comes all the same opens nothing."""
    unknown = PermissionsConfig(max_tier="platinum")  # type: ignore[arg-type]
    found = routed(ToldRouting(told().tiers, unknown), 0.0)
    assert found.chain == () and "everybody may have nothing" in found.why
    raised = PermissionsConfig(max_tier="platinum", escalation=("operator",), escalation_threshold=0.0)  # type: ignore[arg-type]
    assert routed(ToldRouting(told().tiers, raised), 1.0).chain == ()


@pytest.mark.parametrize(
    ("escalation", "complexity", "tier"),
    [
        (["agent"], 0.60, "premium"),
        (["agent"], 0.59, "standard"),
        (["/user/*"], 0.95, "premium"),
        (["operator"], 0.95, "standard"),
        ([], 0.95, "standard"),
    ],
)
def test_escalation_is_one_tier_for_who_may_and_a_task_that_is_hard_enough(
    escalation: list[str], complexity: float, tier: str
) -> None:
    found = routed(told(max_tier="standard", escalation=escalation), complexity, "/user/a")
    assert found.tier == tier


def test_the_threshold_of_escalation_is_configured() -> None:
    routing = told(max_tier="free", escalation=["operator"], escalation_threshold=0.2)
    assert routed(routing, 0.2).tier == "standard" and routed(routing, 0.19).tier == "free"


def test_who_wants_no_more_than_it_may_have_does_not_escalate() -> None:
    found = routed(told(max_tier="premium", escalation=["operator"]), 0.65)
    assert all("elite" not in name for name in found.chain)


@pytest.mark.parametrize(
    ("allow", "deny", "model", "may"),
    [
        (["*"], [], "p/a", True),
        (["p/*"], [], "q/a", False),
        (["*"], ["p/a*"], "p/a-1", False),
        (["p/a"], ["p/a"], "p/a", False),
        ([], [], "p/a", False),
        (["p/a"], [], "p/A", False),
    ],
)
def test_globs_of_models(allow: list[str], deny: list[str], model: str, may: bool) -> None:
    routing = told([{"name": "free", "models": [model]}], allow=allow, deny=deny)
    assert may_ask(routing.permissions, model) is may
    assert bool(routed(routing).chain) is may


# -- within a tier -----------------------------------------------------------------------------------------------------


def cost(name: str, **more: int) -> dict[str, Any]:
    return {"name": name, **more}


def test_the_cheapest_comes_first_and_one_without_a_price_last() -> None:
    tier = [{"name": "free", "models": ["p/x", "p/dear", "p/cheap"], "selection": "lowest_cost"}]
    prices = [cost("p/dear", input=10, output=10), cost("p/cheap", input=1, output=2)]
    assert routed(told(tier, prices)).chain == ("p/cheap", "p/dear", "p/x")


def test_what_is_cheapest_depends_on_how_much_is_read() -> None:
    tier = [{"name": "free", "models": ["p/reads", "p/writes"], "selection": "lowest_cost"}]
    prices = [cost("p/reads", input=1, output=10), cost("p/writes", input=5, output=1)]
    assert routed(told(tier, prices), tokens=100).chain[0] == "p/writes"
    assert routed(told(tier, prices), tokens=100_000).chain[0] == "p/reads"


def test_chance_chooses_among_all_and_the_same_bits_choose_the_same() -> None:
    tier = [{"name": "free", "models": ["p/a", "p/b", "p/c"], "selection": "random"}]
    firsts = {routed(told(tier), drawn=drawn).chain[0] for drawn in range(60)}
    assert firsts == {"p/a", "p/b", "p/c"}
    assert routed(told(tier), drawn=7) == routed(told(tier), drawn=7)
    assert Router(told(tier)).draws and not Router(told()).draws


def test_models_of_a_tier_take_turns() -> None:
    tier = [{"name": "free", "models": ["p/a", "p/b", "p/c"], "selection": "round_robin"}]
    need, router = Need(0.0, "operator", 100), Router(told(tier))
    chains = [router.route(need, Found(number=number)).chain for number in range(4)]
    assert chains[0] == chains[3] == ("p/a", "p/b", "p/c")
    assert chains[1:3] == [("p/b", "p/c", "p/a"), ("p/c", "p/a", "p/b")]
    assert router.taking_turns(need, Found()) == ("p/a", "p/b", "p/c")
    assert router.taking_turns(need, Found(against={"p/b": "cap", "p/c": "cap"})) == ()
    assert Router(told()).taking_turns(need, Found()) == ()


def test_what_caps_rule_out_is_left_out_and_the_decision_says_which_cap() -> None:
    router, need = Router(told(max_tier="standard")), Need(0.3, "operator", 100)
    assert router.candidates(need) == ("p/standard-1", "p/standard-2", "p/free-1", "p/free-2")
    one = router.route(need, Found(against={"p/standard-1": "cap: tier standard"}))
    assert one.tier == "standard" and one.chain == ("p/standard-2", "p/free-1", "p/free-2")
    against = dict.fromkeys(("p/standard-1", "p/standard-2"), "cap: tier standard may cost 5 a day")
    down = router.route(need, Found(against=against))
    assert (down.tier, down.chain) == ("free", ("p/free-1", "p/free-2"))
    assert down.why.endswith("then p/free-2; cap: tier standard may cost 5 a day")
    none = router.route(need, Found(against=dict.fromkeys(router.candidates(need), "cap: sender operator")))
    assert none.chain == () and "may be asked; cap: sender operator" in none.why


def test_a_model_whose_window_is_too_small_is_passed_over() -> None:
    tier = [{"name": "free", "models": ["p/small", "p/large", "p/unknown"]}]
    models = [cost("p/small", context_window=ANSWER_TOKENS + 100), cost("p/large", context_window=100_000)]
    assert routed(told(tier, models), tokens=100).chain[0] == "p/small"
    found = routed(told(tier, models), tokens=101)
    assert found.chain == ("p/large", "p/unknown") and found.window == 100_000
    none = routed(told([{"name": "free", "models": ["p/small"]}], models), tokens=101)
    assert none.chain == () and "none has room for about 101 tokens" in none.why


def test_the_decision_explains_itself() -> None:
    found = routed(told(max_tier="standard"), 0.8)
    assert found.why == (
        "complexity 0.80 wants elite, everybody may have standard: p/standard-1 of standard by preference, then "
        "p/standard-2, p/free-1, p/free-2"
    )


@given(
    st.floats(0, 1), st.sampled_from(TIERS), st.booleans(), st.integers(0, 10_000), st.integers(0, 2**63 - 1)
)
def test_no_chain_goes_beyond_what_is_permitted(
    complexity: float, most: str, escalates: bool, tokens: int, drawn: int
) -> None:
    tiers = [{**each, "selection": "random"} for each in OF_EACH]
    routing = told(tiers, max_tier=most, escalation=["operator"] if escalates else [])
    permission = permission_of(routing.permissions, "operator")
    within = TIERS[: permission.most + 1 + permission.escalates]
    found = routed(routing, complexity, tokens=tokens, drawn=drawn)
    assert found.chain and len(set(found.chain)) == len(found.chain)
    assert {name.removeprefix("p/").partition("-")[0] for name in found.chain} <= set(within)
