"""What holds for one message: each layer says more than the one before it, as one table, and tools only intersect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cognition.config.agent_config import AgentConfig
from cognition.config.check import parse
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.asked import as_asked
from kernel.abi import Inbound, MessageOptions
from kernel.values import merged
from tests.cognition.twins.scripted_node import begun_turn

LAYERS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "TOML": {"temperature": 0.1},
    "environment": {"temperature": 0.2},
    "app": {"temperature": 0.3},
    "spawn": {"temperature": 0.4},
    "channel": {"channel_overrides": {"tel": {"temperature": 0.5}}},
}
HOLDS = {
    "defaults": 0.7,
    "TOML": 0.1,
    "environment": 0.2,
    "app": 0.3,
    "spawn": 0.4,
    "channel": 0.5,
    "message": 0.6,
}


@pytest.mark.parametrize("last", HOLDS)
def test_each_layer_goes_before_those_before_it(last: str) -> None:
    names = list(HOLDS)
    told: dict[str, Any] = {}
    for name in names[: names.index(last) + 1]:
        told = merged(told, LAYERS.get(name, {}))
    options = MessageOptions(temperature=0.6) if last == "message" else MessageOptions()
    config = as_asked(parse(AgentConfig, told, "agent"), Inbound("tel", "1", "7", options=options))
    assert config.temperature == HOLDS[last]


TOLD = {
    "provider": "near",
    "model": "large",
    "system_prompt": "of all",
    "tools": ["file_*", "calculator"],
    "channel_overrides": {
        "tel": {"system_prompt": "of tel", "tools": ["file_read", "pay"], "provider": "far"},
        "web": {"model": "small"},
        "bare": {"tools": []},
    },
}


@pytest.mark.parametrize(
    ("inbound", "provider", "model", "prompt"),
    [
        (None, "near", "large", "of all"),
        (Inbound("other"), "near", "large", "of all"),
        (Inbound("tel"), "far", "", "of tel"),
        (Inbound("web"), "near", "small", "of all"),
        (Inbound("web", options=MessageOptions(provider="third", model="own")), "third", "own", "of all"),
        (Inbound("tel", options=MessageOptions(model="own")), "far", "own", "of tel"),
        (Inbound(options=MessageOptions(max_tokens=9, top_k=3)), "near", "large", "of all"),
    ],
)
def test_a_channel_changes_what_it_names_for_its_messages_alone(
    inbound: Inbound | None, provider: str, model: str, prompt: str
) -> None:
    config = as_asked(parse(AgentConfig, TOLD, "agent"), inbound)
    assert (config.provider, config.model, config.system_prompt) == (provider, model, prompt)


@pytest.mark.parametrize(
    ("channel", "offered"),
    [("", ["file_read", "file_write", "calculator"]), ("tel", ["file_read"]), ("bare", [])],
)
def test_tools_of_a_channel_only_intersect(channel: str, offered: list[str]) -> None:
    turn = begun_turn()
    message = replace(turn.message, inbound=Inbound(channel) if channel else None)
    begun = AgentTurn.begin(message, turn.sys, parse(AgentConfig, TOLD, "agent"), turn.bounds)
    assert [each for each in ("file_read", "file_write", "calculator", "pay") if begun.wants(each)] == offered


def test_what_a_message_asks_of_the_answer_holds_for_it() -> None:
    asked = MessageOptions(top_p=0.5, top_k=3, max_tokens=9, output_schema={"type": "object"})
    config = as_asked(AgentConfig(), Inbound(options=asked))
    assert (config.top_p, config.top_k, config.max_tokens, config.output_schema) == (
        0.5,
        3,
        9,
        {"type": "object"},
    )
