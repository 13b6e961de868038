"""What runs in each stage of an agent's turn; their order is in :mod:`cognition.turn.order`."""

from __future__ import annotations

from collections.abc import Mapping

from cognition.config.agent_config import PipelineConfig
from cognition.stages.auth_resolve import auth_resolve
from cognition.stages.classify import classify
from cognition.stages.context_guard import context_guard
from cognition.stages.execute import execute
from cognition.stages.failover_decide import around, failover_decide
from cognition.stages.history_sanitize import history_sanitize
from cognition.stages.learn import learn
from cognition.stages.route import route
from cognition.stages.score import score
from cognition.stages.tool_split import tool_split
from cognition.turn.builder import PipelineBuilder
from cognition.turn.order import builder_of
from cognition.turn.stage import Stage, Wrap

RUNS: Mapping[str, Stage] = {
    "auth_resolve": auth_resolve,
    "history_sanitize": history_sanitize,
    "classify": classify,
    "route": route,
    "context_guard": context_guard,
    "tool_split": tool_split,
    "execute": execute,
    "failover_decide": failover_decide,
    "score": score,
    "learn": learn,
}
WRAPS: Mapping[str, Wrap] = {"failover_decide": around}
"""What a stage puts around the one that it wraps."""


def agent_builder(config: PipelineConfig) -> PipelineBuilder:
    """What a configuration wants, with the code of each stage."""
    return builder_of(config).bound(RUNS, WRAPS)
