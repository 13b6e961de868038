"""What ``[agent]`` says of the calls and the time of turns, as the node holds agents to it.

It is read from what an agent is told and from the spawns of it and of those above it: the keys of a spawn that are
limits narrow what is told, and widen nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from cognition.config.agent_config import AgentConfig, ExecutionConfig
from cognition.config.check import parse
from cognition.config.routing_config import ToldConfig
from cognition.config.tools_config import ToolConfig, tables_of, wanted
from cognition.errors import ConfigurationError
from kernel.model.turn_rules import NO_RULES, ToolRule, TurnRules
from kernel.toolbox.rules.file_rules import MEGABYTE, FileRules
from kernel.values import canonical, merged

AGENT = "agent"
LIMITS = ("tools", "workspace")
"""The tables of a spawn's configuration that are limits for those below it too."""


def read_rules(behaviour: str, told: str, spawns: tuple[Mapping[str, Any], ...]) -> TurnRules:
    """The rules of an agent that is told so much; ``spawns``: what its own says, then those of the agents above it.
    What is no agent has none.
    """
    if behaviour != AGENT:
        return NO_RULES
    own, *above = spawns or ({},)
    limits = (canonical({key: each[key] for key in LIMITS if key in each}) for each in above)
    return _read(told, canonical(dict(own)), tuple(each for each in limits if each != "{}"))


@lru_cache(maxsize=256)
def _read(told: str, own: str, above: tuple[str, ...]) -> TurnRules:
    try:
        node = json.loads(told) if told else {}
        config = parse(ToldConfig, merged(node, json.loads(own)), "agent configuration")
        rules = _rules_of(parse(ToldConfig, node, "agent configuration"), config.execution)
        rules = replace(rules, root=config.workspace.root)
        for each in (own, *above):
            rules = rules.narrowed(_limits_of(json.loads(each)))
        return rules
    except ConfigurationError as error:
        return TurnRules(fault=str(error)[:500])


def _limits_of(spawn: Mapping[str, Any]) -> TurnRules:
    """What the tables of one spawn alone say."""
    said = {key: spawn[key] for key in LIMITS if key in spawn}
    if not said:
        return NO_RULES
    sized = "max_file_size_mb" in (said.get("workspace") or {})
    return _rules_of(parse(AgentConfig, said, "agent configuration"), None, sized)


def _rules_of(config: AgentConfig, execution: ExecutionConfig | None, sized: bool = True) -> TurnRules:
    """``sized``: a size of files was said, or its default goes."""
    files, listed = config.workspace, wanted(config.tools)
    return TurnRules(
        tools={name: _rule_of(each) for name, each in tables_of(config.tools).items()},
        offered=() if listed is None else (listed,),
        tool_s=None if execution is None else execution.tool_timeout_secs,
        total_s=None if execution is None else execution.total_timeout_secs,
        files=FileRules(
            (files.allowed_paths,) if files.allowed_paths else (),
            files.denied_patterns,
            max(1, int(files.max_file_size_mb * MEGABYTE)) if sized else 0,
        ),
    )


def _rule_of(tool: ToolConfig) -> ToolRule:
    return ToolRule(
        tool.enabled,
        tool.requires_confirmation,
        tool.max_calls_per_session,
        tool.timeout_secs,
        None if tool.allowed_roles is None else frozenset(tool.allowed_roles),
        frozenset() if tool.sandbox == "none" else frozenset({tool.sandbox}),
    )
