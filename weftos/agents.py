"""Stages of one's own in an agent's turn, and turns through other stages than those that are configured.

    from weftos import behaviour
    from weftos.agents import Agent, AgentTurn, Outcome, Respond, Skip, StageSpec, pipeline_of

    async def office_hours(turn: AgentTurn) -> Outcome:
        hour = int(await turn.sys.now()) // 3600 % 24
        return Skip("open") if 8 <= hour < 18 else Respond("We are back at eight.")

    @behaviour
    class Office(Agent):
        def __init__(self, info):
            stages = pipeline_of(info).insert_before("classify", StageSpec("office_hours", office_hours))
            super().__init__(info, pipeline=stages)

A stage learns what it needs through ``turn.sys``, so that a turn that is resumed learns the same again. It says one of
four: :class:`Continue` with the turn that it made, :class:`Skip` with a reason, :class:`Respond` with the answer,
:class:`Abort` with what is wrong. ``weftos trace`` shows it beside the others.
"""

from __future__ import annotations

from cognition.agent import Agent
from cognition.config.check import parse
from cognition.config.routing_config import ToldConfig
from cognition.errors import ConfigurationError
from cognition.stages.table import agent_builder
from cognition.turn.agent_turn import AgentTurn, Reply
from cognition.turn.builder import PipelineBuilder, PipelineError
from cognition.turn.outcome import Abort, Continue, Outcome, Respond, Skip
from cognition.turn.stage import Stage, StageSpec
from kernel.abi import ProcessInfo

__all__ = [
    "Abort",
    "Agent",
    "AgentTurn",
    "ConfigurationError",
    "Continue",
    "Outcome",
    "PipelineBuilder",
    "PipelineError",
    "Reply",
    "Respond",
    "Skip",
    "Stage",
    "StageSpec",
    "pipeline_of",
]


def pipeline_of(info: ProcessInfo) -> PipelineBuilder:
    """The stages that a process of behaviour ``agent`` has by its configuration, to be changed. Raises
    :class:`ConfigurationError`.
    """
    return agent_builder(parse(ToldConfig, info.config, "agent configuration").pipeline)
