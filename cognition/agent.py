"""The behaviour ``agent``: a turn goes through the stages that are configured for it.

Everything it learns comes through a syscall and everything else is pure, so that a resumed turn asks the same
again and gets recorded outcomes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from cognition.budgets import budget_note
from cognition.config.check import parse
from cognition.config.routing_config import ToldConfig
from cognition.context import ContextBounds, remembered
from cognition.errors import ConfigurationError
from cognition.execution.shape import shape_of
from cognition.routing.router import Router
from cognition.stages.table import agent_builder
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.asked import as_asked
from cognition.turn.builder import PipelineBuilder
from cognition.turn.order import loudly_absent
from cognition.turn.pipeline import Pipeline
from kernel.abi import Message, ProcessInfo, Syscalls, TurnResult

FAILED = "\n\n[weftos: this turn ended with that error.]"
UNFINISHED = "\n\n[weftos: this turn came to its limit, and may not be finished.]"
NOTHING_SAID = "No stage of the pipeline has answered."


@dataclass(frozen=True, slots=True)
class Made:
    """What follows from a configuration: agents that are told the same share it."""

    config: ToldConfig
    pipeline: Pipeline
    router: Router | None


class Agent:
    """See :class:`kernel.abi.Behaviour`. Holds nothing between messages but its configuration.

    ``pipeline``: other stages than those that its configuration names. Raises
    :class:`cognition.errors.ConfigurationError` that names every fault.
    """

    def __init__(
        self,
        info: ProcessInfo,
        bounds: ContextBounds | None = None,
        pipeline: PipelineBuilder | None = None,
    ) -> None:
        made = _made(json.dumps(info.config, sort_keys=True))
        self._config = made.config
        self._router = made.router
        self._pipeline = made.pipeline if pipeline is None else pipeline.build()
        self._warnings = loudly_absent(self._pipeline)
        self._bounds = bounds or ContextBounds()

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        """One turn. See the module's words; raises nothing of its own."""
        if message.kind == "budget":
            return TurnResult(
                "", remembered([budget_note(message.text)], "Noted.", self._bounds.remember_bytes)
            )
        for warning in self._warnings:
            sys.log(warning)
        config = as_asked(self._config, message.inbound)
        try:
            shape_of(config.output_schema)
        except ConfigurationError as error:
            return TurnResult(f"The message asks for an answer of no shape: {error}", (), "error")
        turn = await self._pipeline.run(
            AgentTurn.begin(message, sys, config, self._bounds, self._router, self._config.guard)
        )
        return _result(turn)


def _result(turn: AgentTurn) -> TurnResult:
    reply = turn.reply
    if reply is None:
        return TurnResult(NOTHING_SAID, turn.notes, "error", turn.stages)
    mark = FAILED if reply.status == "error" else UNFINISHED if reply.cut else ""
    keep = remembered(turn.exchange, reply.text + mark, turn.bounds.remember_bytes) if reply.keep else ()
    return TurnResult(reply.text, (*turn.notes, *keep), reply.status, turn.stages)


@lru_cache(maxsize=64)
def _made(config: str) -> Made:
    """Of a configuration as canonical JSON, in which 1 and true are different texts."""
    parsed = parse(ToldConfig, json.loads(config), "agent configuration")
    pipeline = agent_builder(parsed.pipeline).build()
    shape_of(parsed.output_schema)
    router = None if parsed.routing is None else Router(parsed.routing)
    return Made(parsed, pipeline, router)
