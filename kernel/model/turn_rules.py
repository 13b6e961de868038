"""What holds for the calls of a turn beside rights: how each tool may be used, how long, and which files.

It is said by the configuration that the turn began with, for its process and for those above it; what one of them says
is narrowed by the others, and never widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kernel.model.capability import matching
from kernel.toolbox.rules.file_rules import ALL_FILES, FileRules


@dataclass(frozen=True, slots=True)
class ToolRule:
    """``most_calls``: in one session, 0 for any number. ``timeout_s``: what a call may take, None: nothing is said.
    ``roles``: on whose word it is called, None for anybody's. ``sandboxes``: what it is to run in, beside a worker.
    """

    enabled: bool = True
    confirmation: bool = False
    most_calls: int = 0
    timeout_s: float | None = None
    roles: frozenset[str] | None = None
    sandboxes: frozenset[str] = frozenset()

    def narrowed(self, other: ToolRule) -> ToolRule:
        """What both allow."""
        counts = [each for each in (self.most_calls, other.most_calls) if each]
        times = [each for each in (self.timeout_s, other.timeout_s) if each is not None]
        if self.roles is None or other.roles is None:
            roles = other.roles if self.roles is None else self.roles
        else:
            roles = self.roles & other.roles
        return ToolRule(
            self.enabled and other.enabled,
            self.confirmation or other.confirmation,
            min(counts, default=0),
            min(times, default=None),
            roles,
            self.sandboxes | other.sandboxes,
        )


ANY_WAY = ToolRule()


@dataclass(frozen=True, slots=True)
class TurnRules:
    """``offered``: by each who has a word on it, the names and patterns of the tools that there are for it. ``tools``:
    what is said of single ones. ``tool_s``: what a call may take of which its rule says nothing, ``total_s`` the whole
    turn; None: nothing is said. ``root``: where a new process works whose spawn says nothing of that; empty: in a
    directory of its own. ``fault``: why nobody can read what is said; then nothing may be called.
    """

    tools: Mapping[str, ToolRule] = field(default_factory=dict)
    offered: tuple[tuple[str, ...], ...] = ()
    tool_s: float | None = None
    total_s: float | None = None
    files: FileRules = ALL_FILES
    root: str = ""
    fault: str = ""

    def of(self, tool: str) -> ToolRule:
        """How one tool may be used."""
        return self.tools.get(tool, ANY_WAY)

    def offers(self, tool: str) -> bool:
        """Whether all who have a word on it want it offered."""
        return all(matching(patterns, tool) is not None for patterns in self.offered)

    def timeout_s(self, tool: str, declared_s: float) -> float:
        """What a call may take, of a tool that declares ``declared_s``."""
        said_s = self.of(tool).timeout_s
        limit_s = self.tool_s if said_s is None else said_s
        return declared_s if limit_s is None else min(limit_s, declared_s)

    def narrowed(self, other: TurnRules) -> TurnRules:
        """What both allow. The times of a turn and of its calls are this one's."""
        tools = dict(self.tools)
        for name, rule in other.tools.items():
            tools[name] = self.of(name).narrowed(rule)
        return replace(
            self,
            tools=tools,
            offered=(*self.offered, *other.offered),
            files=self.files.narrowed(other.files),
            fault=self.fault or other.fault,
        )


NO_RULES = TurnRules()
