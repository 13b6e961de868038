"""The gate of routes: which models may be asked for whom, and that what agents propose by the same rules passes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.config.check import parse
from cognition.config.routing_config import TIERS, ToldRouting
from cognition.routing.router import Need, Router, split_name
from kernel.abi import NOBODY, Identity
from kernel.bounds import Bounds
from kernel.errors import CapabilityError
from kernel.policy.asker import Asker, channel_of
from kernel.policy.pipeline import ALLOWED, judge
from kernel.policy.proposal import AskModel, Facts, Proposal, ReadMemory, Verdict
from kernel.policy.routes import RouteRights, RoutesGate
from kernel.state.state import State

RANKS = {f"p/{name}": rank for rank, name in enumerate(TIERS)}
RIGHTS = RouteRights(TIERS, RANKS, "elite")


def asked(
    rights: RouteRights, name: str, sender: str = "operator", identity: Identity = NOBODY
) -> Verdict | None:
    asker = Asker(sender, channel_of(sender), process="/user/boss", turn="t1", identity=identity)
    operation = AskModel(*split_name(name), (), 1)
    return RoutesGate(rights)(Proposal(asker, operation), Facts(State(10, 1_000), Bounds(), True))


def denied(rights: RouteRights, name: str, sender: str = "operator") -> str:
    verdict = asked(rights, name, sender)
    assert verdict is not None and verdict.decision == "deny" and verdict.error is CapabilityError
    [reason] = verdict.reasons
    return reason


@pytest.mark.parametrize("model", TIERS)
@pytest.mark.parametrize("most", TIERS)
def test_every_tier_under_every_permission(most: str, model: str) -> None:
    rights = replace(RIGHTS, max_tier=most)
    if TIERS.index(model) <= TIERS.index(most):
        assert asked(rights, f"p/{model}") is None
    else:
        assert denied(rights, f"p/{model}") == (
            f"routes: operator may have {most} at most, and p/{model} is of {model}"
        )


def test_a_model_of_no_tier_is_for_who_may_have_everything() -> None:
    assert asked(RIGHTS, "p/unplaced") is None
    assert denied(replace(RIGHTS, max_tier="premium"), "p/unplaced").endswith("p/unplaced is of no tier")


def test_a_tier_that_is_none_permits_nothing() -> None:
    assert "may have no tier at most" in denied(replace(RIGHTS, max_tier="platinum"), "p/free")
    assert denied(replace(RIGHTS, max_tier="platinum", escalation=("operator",)), "p/free")
    assert denied(replace(RIGHTS, senders={"operator": ""}), "p/free")


def test_who_escalates_may_have_one_tier_more() -> None:
    rights = replace(RIGHTS, max_tier="free", escalation=("agent",))
    assert asked(rights, "p/standard", "/user/a") is None
    assert denied(rights, "p/premium", "/user/a") and denied(rights, "p/standard")


def test_an_address_goes_before_a_glob_and_that_before_a_role() -> None:
    rights = replace(
        RIGHTS,
        max_tier="free",
        senders={"/user/a": "free", "/user/*": "premium"},
        roles={"agent": "standard"},
    )
    assert denied(rights, "p/standard", "/user/a")
    assert asked(rights, "p/premium", "/user/b") is None
    assert asked(rights, "p/standard", "/app/c") is None and denied(rights, "p/premium", "/app/c")
    assert denied(rights, "p/standard", "/user@weftos-x")


def test_what_is_denied_is_asked_for_nobody() -> None:
    rights = replace(RIGHTS, allow=("p/*",), deny=("p/el*",))
    assert denied(rights, "p/elite") == "routes: p/elite is denied here (p/el*)"
    assert denied(rights, "q/x") == "routes: q/x is none of the models that are allowed here"
    assert asked(rights, "p/premium") is None


def test_a_user_of_a_channel_has_what_his_name_says_then_the_highest_of_his_roles_and_is_no_operator() -> (
    None
):
    rights = replace(
        RIGHTS, max_tier="free", roles={"operator": "elite", "staff": "standard", "boss": "premium"}
    )
    both = Identity("alice", ("staff", "boss"))
    assert asked(rights, "p/premium", identity=both) is None and asked(rights, "p/elite", identity=both)
    guest = Identity("telegram:1", ("guest",))
    assert asked(rights, "p/free", identity=guest) is None and asked(rights, "p/standard", identity=guest)
    own = Identity("alice", ("boss",), "standard")
    assert asked(rights, "p/standard", identity=own) is None and asked(rights, "p/premium", identity=own)
    assert asked(rights, "p/free", identity=Identity("alice", ("boss",), "platinum"))
    named = replace(rights, senders={"alice": "free"})
    assert asked(named, "p/standard", identity=both)


def test_other_operations_are_none_of_its_business() -> None:
    proposal = Proposal(Asker("operator", "control"), ReadMemory(query="x"))
    facts = Facts(State(10, 1_000), Bounds(), True)
    assert judge((RoutesGate(replace(RIGHTS, max_tier="")),), proposal, facts) is ALLOWED


@given(
    st.floats(0, 1),
    st.sampled_from(("operator", "/user/a", "/app/b", "/user/a@weftos-x")),
    st.sampled_from(TIERS),
    st.dictionaries(st.sampled_from(("/user/a", "/user/*", "/*", "operator")), st.sampled_from(TIERS)),
    st.dictionaries(st.sampled_from(("operator", "agent", "peer")), st.sampled_from(TIERS)),
    st.lists(st.sampled_from(("operator", "agent", "/user/*"))),
    st.sampled_from([(), ("p/free",), ("*e",)]),
    st.sampled_from([NOBODY, Identity("/user/a", ("agent", "guest")), Identity("al", ("peer",), "standard")]),
)
def test_whatever_an_agent_finds_by_the_same_rules_is_allowed(
    complexity: float,
    sender: str,
    most: str,
    senders: dict[str, str],
    roles: dict[str, str],
    escalation: list[str],
    against: tuple[str, ...],
    who: Identity,
) -> None:
    permissions = {
        "max_tier": most, "senders": senders, "roles": roles, "escalation": escalation, "deny": list(against),
    }  # fmt: skip
    tiers = [{"name": name, "models": [f"p/{name}"]} for name in TIERS]
    router = Router(parse(ToldRouting, {"tiers": tiers, "permissions": permissions}, "routing"))
    rights = RouteRights(TIERS, RANKS, most, senders, roles, ("*",), against, tuple(escalation))
    roles_of = who.roles if who.name else None
    for name in router.route(Need(complexity, who.name or sender, 1, roles_of, who.max_tier)).chain:
        assert asked(rights, name, sender, who) is None
