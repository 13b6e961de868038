"""``[agent.tools]``: which tools an agent is offered, and how each may be used. The node holds calls to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MaxLen, MinLen, Predicate

Name = Annotated[str, MinLen(1), MaxLen(256)]
Names = Annotated[tuple[Name, ...], MaxLen(1_000)]
ALLOW = "allow"
"""The one key of ``[agent.tools]`` that is no tool's, where a list stands behind it."""


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """``enabled`` false: nobody calls it. ``requires_confirmation``: a person has to agree to each call.
    ``max_calls_per_session``: so many calls are made in one session, 0 for any number. ``timeout_secs``: in place of
    ``[agent.execution] tool_timeout_secs``; never more than the tool itself declares. ``allowed_roles``: on whose word
    it is called; None: on anybody's. ``sandbox``: what it is to run in; ``none`` is a worker process as ever.
    """

    enabled: bool = True
    requires_confirmation: bool = False
    max_calls_per_session: Annotated[int, Ge(0), Le(2**31 - 1)] = 0
    timeout_secs: Annotated[float, Gt(0), Le(3_600)] | None = None
    allowed_roles: Annotated[tuple[Name, ...], MinLen(1), MaxLen(64)] | None = None
    sandbox: Literal["docker", "wasm", "none"] = "none"


def only_allow_is_a_list(tables: Mapping[str, Any]) -> bool:
    """must hold a table for each tool; only allow is a list"""
    return all(name == ALLOW or not isinstance(each, list | tuple) for name, each in tables.items())


ToolTables = Annotated[dict[Name, ToolConfig | Names], MaxLen(1_000), Predicate(only_allow_is_a_list)]
Tools = Names | ToolTables | None
"""Names, or patterns such as ``file_*``; or tables of tools, with such a list behind ``allow``. None: no word on it."""


def wanted(tools: Tools) -> tuple[str, ...] | None:
    """The names and patterns of those that are to be offered; None: all."""
    if not isinstance(tools, dict):
        return tools
    listed = tools.get(ALLOW)
    return listed if isinstance(listed, tuple) else None


def wants(tools: Tools, tool: str) -> bool:
    """Whether a tool is to be offered, as far as this says."""
    patterns = wanted(tools)
    if isinstance(tools, dict) and isinstance(of := tools.get(tool), ToolConfig) and not of.enabled:
        return False
    return patterns is None or any(fnmatchcase(tool, pattern) for pattern in patterns)


def tables_of(tools: Tools) -> dict[str, ToolConfig]:
    """What is said of single tools."""
    tables = tools.items() if isinstance(tools, dict) else ()
    return {name: each for name, each in tables if isinstance(each, ToolConfig)}
