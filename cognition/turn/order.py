"""The stages of an agent's turn by name, in their order, and what is known of each before anything runs.

The node reads a configuration by it and loads none of their code; :mod:`cognition.stages.table` says what runs in each.
A configuration names them in ``[agent.pipeline]``: ``stages`` for a list of its own, ``skip_stages`` for what is left
out, ``tasks`` for what is behind ``classify`` where a task is of some type.
"""

from __future__ import annotations

from cognition.classification.task_types import TASK_TYPES
from cognition.config.agent_config import PipelineConfig, StagesConfig
from cognition.turn.agent_turn import UNKNOWN_COMPLEXITY
from cognition.turn.builder import PipelineBuilder
from cognition.turn.pipeline import Pipeline
from cognition.turn.stage import StageSpec

ORDER: tuple[StageSpec, ...] = (
    StageSpec(
        "auth_resolve",
        skippable=False,
        absent="the sender is who the node has recorded, with the rights that it has recorded, and no line says who",
    ),
    StageSpec(
        "history_sanitize",
        after=frozenset({"auth_resolve"}),
        absent="the model is shown nothing of the session",
    ),
    StageSpec(
        "classify",
        after=frozenset({"history_sanitize"}),
        absent=f"a task has no type, and counts as one of complexity {UNKNOWN_COMPLEXITY}",
    ),
    StageSpec(
        "route",
        after=frozenset({"history_sanitize", "classify"}),
        absent="the provider and model of the configuration are asked",
    ),
    StageSpec(
        "context_guard",
        after=frozenset({"history_sanitize", "route"}),
        absent="the model is shown the system prompt, the history and the question, and nothing is recalled",
        loud=True,
    ),
    StageSpec("tool_split", absent="no tool is offered"),
    StageSpec(
        "execute",
        after=frozenset(
            {"auth_resolve", "history_sanitize", "classify", "route", "context_guard", "tool_split"}
        ),
        skippable=False,
    ),
    StageSpec(
        "failover_decide",
        after=frozenset({"execute"}),
        wraps="execute",
        absent="the gateway makes its own attempts at the one provider, and no other is asked",
    ),
    StageSpec(
        "score",
        after=frozenset({"execute", "failover_decide"}),
        always=True,
        absent="the trace of a turn has no scores",
    ),
    StageSpec(
        "learn",
        after=frozenset({"execute", "failover_decide", "score"}),
        always=True,
        absent="the node keeps no trajectory of a turn",
    ),
)
ALIASES = {"assemble": "context_guard", "transport": "execute"}
REQUIRED = frozenset({"execute"})


def builder_of(config: PipelineConfig) -> PipelineBuilder:
    """What a configuration wants; all stages where it names none."""
    builder = _listed(config)
    for task_type, stages in config.tasks.items():
        builder = builder.for_task(task_type, _listed(stages))
    return builder.knowing(TASK_TYPES)


def _listed(config: StagesConfig) -> PipelineBuilder:
    builder = PipelineBuilder.of(ORDER, ALIASES, REQUIRED)
    if config.stages:
        builder = builder.listed(config.stages)
    return builder.without(config.skip_stages) if config.skip_stages else builder


def loudly_absent(pipeline: Pipeline) -> list[str]:
    """Of stages that nobody should leave out unawares: what is done without them, one sentence each."""
    of_tasks = [(f"for {task_type}: ", pipeline.names_for(task_type)) for task_type in pipeline.by_task]
    return [
        f"{of}without {each.name} {each.absent}"
        for of, names in (("", pipeline.names), *of_tasks)
        for each in ORDER
        if each.loud and each.name not in names
    ]
