"""Rules of configuration: what is said of tools, by the node and by spawns, only ever narrows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernel.model.turn_rules import ANY_WAY, ToolRule, TurnRules
from kernel.policy.rules.tool_rules import refusal, withheld
from kernel.toolbox.rules.file_rules import FileRules
from weftos.config.rules import read_rules

OPERATOR = frozenset({"operator"})


def rules_of(told: dict[str, Any], *spawns: dict[str, Any]) -> TurnRules:
    return read_rules("agent", json.dumps(told), spawns or ({},))


def pay(**said: Any) -> dict[str, Any]:
    return {"tools": {"pay": said}}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, ""),
        (pay(enabled=True, requires_confirmation=False, sandbox="none"), ""),
        (pay(allowed_roles=["admin", "operator"]), ""),
        ({"tools": ["p*"]}, ""),
        ({"tools": {"allow": ["p*"]}}, ""),
        (pay(enabled=False), "pay is switched off ([agent.tools.pay] enabled)"),
        ({"tools": ["file_*"]}, "pay is none of those that are configured ([agent] tools)"),
        ({"tools": {"allow": []}}, "pay is none of those that are configured ([agent] tools)"),
        (
            pay(allowed_roles=["peer", "admin"]),
            "pay is called for admin or peer (allowed_roles), and this is for operator",
        ),
        (
            pay(sandbox="docker"),
            "pay is to run in docker (sandbox), which this version cannot do: it is not run without",
        ),
        (pay(sandbox="wasm"), "pay is to run in wasm (sandbox), which this version cannot do"),
        (
            pay(sandbox=7),
            "what is configured of tools cannot be read: agent configuration: tools.pay.sandbox",
        ),
    ],
)
def test_what_is_said_of_a_tool_is_what_it_is_refused_for(told: dict[str, Any], words: str) -> None:
    said = refusal(rules_of(told), "pay", OPERATOR)
    assert said.startswith(words) and bool(said) == bool(words)
    assert refusal(rules_of({}, told), "pay", OPERATOR) == said or "fault" in words or "read" in words
    assert withheld(rules_of(told), frozenset({"pay"}), OPERATOR) == (frozenset({"pay"} if words else ()))


def test_a_tool_that_wants_a_persons_word_is_not_offered_while_nobody_can_be_asked() -> None:
    rules = rules_of(pay(requires_confirmation=True))
    assert withheld(rules, frozenset({"pay", "look"}), OPERATOR) == {"pay"}


@pytest.mark.parametrize(
    ("node", "spawn", "both"),
    [
        (pay(enabled=False), pay(enabled=True), ToolRule(enabled=False)),
        (pay(requires_confirmation=True), pay(requires_confirmation=False), ToolRule(confirmation=True)),
        (pay(max_calls_per_session=3), pay(max_calls_per_session=9), ToolRule(most_calls=3)),
        (pay(max_calls_per_session=3), pay(max_calls_per_session=0), ToolRule(most_calls=3)),
        (pay(), pay(max_calls_per_session=2), ToolRule(most_calls=2)),
        (pay(timeout_secs=5), pay(timeout_secs=50), ToolRule(timeout_s=5)),
        (pay(), pay(timeout_secs=50), ToolRule(timeout_s=50)),
        (pay(allowed_roles=["a", "b"]), pay(allowed_roles=["b", "c"]), ToolRule(roles=frozenset({"b"}))),
        (pay(allowed_roles=["a"]), pay(allowed_roles=["b"]), ToolRule(roles=frozenset())),
        (pay(sandbox="docker"), pay(sandbox="none"), ToolRule(sandboxes=frozenset({"docker"}))),
        ({}, pay(), ANY_WAY),
    ],
)
def test_a_spawn_and_an_agent_above_narrow_what_the_node_says_and_never_widen_it(
    node: dict[str, Any], spawn: dict[str, Any], both: ToolRule
) -> None:
    assert rules_of(node, spawn).of("pay") == both
    assert rules_of(node, {}, spawn).of("pay") == both


def test_lists_of_tools_and_of_files_are_intersected() -> None:
    node = {
        "tools": {"allow": ["a*", "b"]},
        "workspace": {"allowed_paths": ["src", "doc"], "denied_patterns": ["*.key"], "max_file_size_mb": 2},
    }
    spawn = {"tools": ["ab", "b", "c"], "workspace": {"allowed_paths": ["src/a"], "denied_patterns": [".*"]}}
    rules = rules_of(node, spawn)
    assert [name for name in ("aa", "ab", "b", "c") if rules.offers(name)] == ["ab", "b"]
    assert rules.files == FileRules((("src", "doc"), ("src/a",)), ("*.key", ".*"), 2_000_000)
    assert rules_of({}, {"workspace": {"max_file_size_mb": 3}}).files.most_bytes == 3_000_000
    assert rules_of({}, {"workspace": {"max_file_size_mb": 30}}).files.most_bytes == 10_000_000


def test_a_call_takes_the_least_of_what_the_tool_and_its_rule_say_and_else_what_all_calls_may() -> None:
    rules = rules_of({**pay(timeout_secs=50), "execution": {"tool_timeout_secs": 7}})
    assert [rules.timeout_s("pay", 60), rules.timeout_s("pay", 20), rules.timeout_s("look", 60)] == [
        50,
        20,
        7,
    ]
    assert rules_of({}).timeout_s("look", 60) == 30
    assert (
        rules_of({"execution": {"tool_timeout_secs": 7}}, {"execution": {"tool_timeout_secs": 9}}).tool_s == 9
    )


def test_what_is_no_agent_is_held_to_nothing_of_it() -> None:
    assert read_rules("mine", '{"anything": 1}', ({},)) == TurnRules()
