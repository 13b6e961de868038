"""What an agent makes has nothing that the agent has not: no chain of spawns widens anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import CapabilityError, Invalid
from kernel.model.capability import matching, may_address, may_enter, may_make
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Budget
from kernel.operations.rights.capabilities import Capabilities, MessageScope, read_capabilities
from kernel.policy.asker import Asker
from kernel.policy.capability import capability_gate
from kernel.policy.proposal import Proposal, SpawnProcess
from kernel.policy.scope import scope_gate
from kernel.process.children import Known, Maker, made_by_agent
from tests.kernel.policy.test_gates import Told, facts
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

KNOWN = {
    "agent": Known("shared", {}),
    "clerk": Known("shared", {"model": "small"}),
    "alone": Known("dedicated", {}),
}
TOOLS = ("spawn_agent", "send_message", "file_read", "file_write", "pay")
WHOM = ("/user/a", "/user/a/b", "/user/a/b/c", "/user/a/b/c/d", "/user/eve", "/user/a/x")
TOPICS = ("a", "ab", "b", "ba")
PATHS = ("a", "a/b", "b", ".")
patterns = st.lists(st.sampled_from(["a", "a*", "b*", "*", "ba"]), max_size=2)


def asked() -> st.SearchStrategy[dict[str, Any]]:
    """The arguments of one spawn, of which some go beyond what its maker has."""
    said = st.fixed_dictionaries(
        {},
        optional={
            "deny": st.lists(st.sampled_from([*TOOLS, "file_*"]), max_size=2),
            "messages": st.sampled_from([each for each in get_args(MessageScope) if each != "listed"]),
            "spawn": st.booleans(),
            "topics": patterns,
            "memory": st.lists(st.sampled_from(["own", "shared"]), max_size=2, unique=True),
            "paths": st.lists(st.sampled_from(PATHS), max_size=2),
            "behaviours": st.lists(st.sampled_from(["clerk", "al*", "*"]), max_size=2),
            "dedicated": st.booleans(),
        },
    )
    return st.fixed_dictionaries(
        {"name": st.just("")},
        optional={
            "tools": st.lists(st.sampled_from([*TOOLS, "file_*"]), max_size=3, unique=True),
            "capabilities": said,
            "behaviour": st.sampled_from(sorted(KNOWN)),
            "isolation": st.sampled_from(["shared", "dedicated"]),
        },
    )


def made(spec: ProcessSpec, address: str, wanted: dict[str, Any]) -> ProcessSpec | None:
    """The child, where neither the making of it nor a gate refuses it."""
    rights = frozenset(spec.tools) - {name for name in TOOLS if matching(spec.capabilities.deny, name)}
    try:
        child = made_by_agent(Maker(spec, address, rights), wanted, KNOWN)
    except CapabilityError:
        return None
    state = Told()
    state.tell(
        "process.spawned",
        {"address": address, "parent": "/user", "spec": spec.to_json(), "made_by": "agent"},
    )
    asker = Asker("operator", "control", process=address, turn="t1", rights=rights)
    proposal = Proposal(asker, SpawnProcess(child, address))
    refused = capability_gate(proposal, facts(state)) or scope_gate(proposal, facts(state))
    return None if refused else child


def may(spec: ProcessSpec, address: str, line: tuple[str, ...]) -> set[tuple[str, str]]:
    """All that it may, but to speak to who made it."""
    held = spec.capabilities
    return {
        *(("tool", each) for each in spec.tools if not matching(held.deny, each)),
        *(("message", each) for each in WHOM if each not in line and may_address(held, address, each)),
        *(("topic", each) for each in TOPICS if held.topics is None or matching(held.topics, each)),
        *(("memory", each) for each in ("own", "shared") if held.memory is None or each in held.memory),
        *(("path", each) for each in PATHS if held.paths is None or may_enter(held.paths, each)),
        *(("behaviour", each) for each in KNOWN if may_make(held, spec.behaviour, each)),
        *([("spawn", "")] if held.spawn is not False else []),
        *([("cell", "")] if spec.isolation == "dedicated" or held.dedicated else []),
    }


@given(asked(), st.lists(asked(), min_size=1, max_size=4))
def test_no_chain_of_spawns_widens_anything(first: dict[str, Any], chain: list[dict[str, Any]]) -> None:
    address, line = "/user/a", ["/user/a"]
    spec = ProcessSpec(
        "a",
        tools=tuple(each for each in first.get("tools", TOOLS) if each in TOOLS),
        isolation=first.get("isolation", "shared"),
        capabilities=read_capabilities(first.get("capabilities", {})),
    )
    had = may(spec, address, tuple(line))
    shared_ever = spec.isolation == "shared"
    for wanted, name in zip(chain, "bcde", strict=False):
        child = made(spec, address, {**wanted, "name": name})
        if child is None:
            continue
        address = f"{address}/{name}"
        line.append(address)
        has = may(child, address, tuple(line))
        assert has <= had | {("message", each) for each in line}
        assert shared_ever or child.isolation == "dedicated"
        assert child.workspace == spec.workspace
        spec, had = child, has
        shared_ever = spec.isolation == "shared"


BOSS = ProcessSpec(
    "boss", config={"provider": "near", "model": "large", "system_prompt": "Lead."}, workspace="/w"
)


@pytest.mark.parametrize(
    ("fields", "wanted", "words"),
    [
        ({}, {"behaviour": "clerk"}, "may be of behaviour agent, not of clerk"),
        ({"behaviours": ("c*",)}, {"behaviour": "alone"}, r"may be of behaviour agent, c\*, not of alone"),
        ({"behaviours": ("*",)}, {"behaviour": "gone"}, "'gone' is not configured"),
        ({"behaviours": ("*",)}, {"behaviour": "alone"}, "may not give its children cells of their own"),
        ({"behaviours": ("*",)}, {"behaviour": "alone", "isolation": "shared"}, "behaviour alone has cells"),
        ({}, {"isolation": "dedicated"}, "may not give its children cells of their own"),
        ({}, {"capabilities": {"behaviours": ["clerk"]}}, "does not have: behaviours clerk"),
        ({}, {"capabilities": {"dedicated": True}}, "does not have: dedicated"),
        ({"messages": "subtree"}, {"capabilities": {"messages": "all"}}, "messages all"),
        ({"spawn": False}, {"capabilities": {"spawn": True}}, "spawn"),
        ({"paths": ("docs",)}, {"capabilities": {"paths": ["docs/.."]}}, "leads out of the workspace"),
        ({}, {"capabilities": {"messages": "listed"}}, "listed goes with messages=listed"),
        ({}, {"capabilities": {"sockets": True}}, "no field 'sockets'"),
        ({"network": ("*.a.org",)}, {"capabilities": {"network": ["b.org"]}}, "does not have: network b.org"),
        ({}, {"budget": {"tokens": 5.0}}, "must be a whole number"),
        ({}, {"budget": {}}, "it limits nothing"),
        ({}, {"budget": {"memory": 1}}, "no field 'memory'"),
        ({}, {"budget": {"money": "-1"}}, "is no amount of money"),
    ],
)
def test_what_an_agent_cannot_give_is_refused_in_words(
    fields: dict[str, Any], wanted: dict[str, Any], words: str
) -> None:
    spec = ProcessSpec("boss", capabilities=Capabilities(**fields))
    with pytest.raises((CapabilityError, Invalid), match=words):
        made_by_agent(Maker(spec, "/user/boss", frozenset()), {"name": "kid", **wanted}, KNOWN)


def test_a_child_has_what_its_maker_has_where_nothing_is_said() -> None:
    child = made_by_agent(Maker(BOSS, "/user/boss", frozenset({"calculator"})), {"name": "kid"}, KNOWN)
    assert (child.behaviour, child.isolation, child.tools) == ("agent", "shared", ("calculator",))
    assert (child.config, child.workspace) == ({"provider": "near", "model": "large"}, "/w")
    assert child.budget is None


def test_a_child_of_another_behaviour_keeps_what_is_configured_of_that() -> None:
    held = Capabilities(behaviours=("*",), dedicated=True)
    spec = ProcessSpec("boss", config=BOSS.config, capabilities=held)
    maker = Maker(spec, "/user/boss", frozenset())
    clerk = made_by_agent(maker, {"name": "kid", "behaviour": "clerk"}, KNOWN)
    assert (clerk.behaviour, clerk.config) == ("clerk", {"provider": "near"})
    alone = made_by_agent(maker, {"name": "kid", "behaviour": "alone"}, KNOWN)
    assert (alone.isolation, alone.config) == ("dedicated", {"provider": "near", "model": "large"})
    assert made_by_agent(maker, {"name": "kid", "isolation": "dedicated"}, KNOWN).isolation == "dedicated"
    none = made_by_agent(
        maker, {"name": "kid", "capabilities": {"behaviours": [], "dedicated": False}}, KNOWN
    )
    with pytest.raises(CapabilityError, match="not of clerk"):
        made_by_agent(Maker(none, "/user/boss/kid", frozenset()), {"name": "x", "behaviour": "clerk"}, KNOWN)


def test_what_has_a_cell_of_its_own_puts_no_child_into_one_with_others() -> None:
    maker = Maker(ProcessSpec("boss", isolation="dedicated"), "/user/boss", frozenset())
    assert made_by_agent(maker, {"name": "kid"}, KNOWN).isolation == "dedicated"
    with pytest.raises(CapabilityError, match="/user/boss has cells of its own"):
        made_by_agent(maker, {"name": "kid", "isolation": "shared"}, KNOWN)


@pytest.mark.parametrize(
    ("child", "words"),
    [
        (ProcessSpec("kid", tools=(), behaviour="clerk"), "may not be of behaviour clerk"),
        (ProcessSpec("kid", tools=(), isolation="dedicated"), "may not have a dedicated cell"),
    ],
)
def test_the_gate_holds_every_spawn_of_an_agent_to_it(child: ProcessSpec, words: str) -> None:
    state = Told()
    state.spawned("/user/boss")
    asker = Asker("operator", "control", process="/user/boss", turn="t1", rights=frozenset())
    verdict = capability_gate(Proposal(asker, SpawnProcess(child, "/user/boss")), facts(state))
    assert verdict is not None and words in verdict.reasons[0]


def test_an_agent_gives_its_child_less_and_a_budget_out_of_its_own(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss", tools=("spawn_agent", "calculator"), budget=Budget(tool_calls=9))
        await twin.send("boss")
        boss = await twin.delivery()
        kid = {
            "name": "kid",
            "tools": ["spawn_agent", "calculator"],
            "capabilities": {"deny": ["file_*"], "messages": "parent", "spawn": True},
            "budget": {"tool_calls": 5, "then": "refuse"},
        }
        assert (await twin.call_tool(boss, "spawn_agent", kid))["status"] == "ok"
        spec = twin.kernel.state.slots["/user/boss/kid"].spec
        assert spec.capabilities == Capabilities(deny=("file_*",), messages="parent", spawn=True)
        accounts = twin.kernel.state.accounts.book.accounts
        assert accounts["/user/boss"].lines["tool_calls"].left == 3  # one is this call
        assert accounts["/user/boss/kid"].lines["tool_calls"].left == 5
        more = await twin.call_tool(boss, "spawn_agent", {**kid, "name": "two"}, 1)
        assert more["status"] == "error" and "has 2 tool_calls left, and cannot give 5" in more["text"]
        await twin.send("kid")
        at = await twin.delivery()
        wider = {"name": "x", "tools": [], "capabilities": {"messages": "all"}}
        refused = await twin.call_tool(at, "spawn_agent", wider)
        assert refused["status"] == "error" and "messages all (it has parent" in refused["text"]
        under = {"name": "x", "tools": [], "budget": {"tool_calls": 5}}
        beyond = await twin.call_tool(at, "spawn_agent", under, 1)
        assert beyond["status"] == "error" and "has 3 tool_calls left" in beyond["text"]
        none = await twin.call_tool(at, "spawn_agent", {**under, "budget": {"tool_calls": 3}}, 2)
        assert "has 2 tool_calls left, and cannot give 3" in none["text"]
        last = {"tool_calls": 1, "then": "stop"}
        assert (await twin.call_tool(at, "spawn_agent", {**under, "budget": last}, 3))["status"] == "ok"
        assert accounts["/user/boss/kid/x"].lines["tool_calls"].left == 1

    on_twin(tmp_path, body)
