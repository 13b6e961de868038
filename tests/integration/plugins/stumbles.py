"""An agent whose cell is killed at some boundaries of its stages, once at each."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cognition.agent import Agent
from cognition.config.agent_config import PipelineConfig
from cognition.stages.table import agent_builder
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Outcome, Skip
from cognition.turn.stage import Stage, StageSpec
from kernel.abi import Message, ProcessInfo, Syscalls, TurnResult
from weftos import behaviour

BEHIND = "history_sanitize", "context_guard", "execute"


@behaviour
class Stumbles:
    """The message is a directory: what lies there says where it was killed already."""

    def __init__(self, info: ProcessInfo) -> None:
        builder = agent_builder(PipelineConfig())
        for name in BEHIND:
            builder = builder.insert_after(name, StageSpec(f"killed behind {name}", _killed(name)))
        self._agent = Agent(info, pipeline=builder)

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        return await self._agent.handle(message, sys)


def _killed(name: str) -> Stage:
    async def stage(turn: AgentTurn) -> Outcome:
        mark = Path(turn.message.text) / name
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Skip("it was killed here")

    return stage
