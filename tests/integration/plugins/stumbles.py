"""An agent whose cell is killed at some boundaries of its stages, once at each."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kernel.abi import ProcessInfo
from weftos import behaviour
from weftos.agents import Agent, AgentTurn, Outcome, Skip, Stage, StageSpec, pipeline_of

BEHIND = "history_sanitize", "context_guard", "execute"


@behaviour
class Stumbles(Agent):
    """The message is a directory: what lies there says where it was killed already."""

    def __init__(self, info: ProcessInfo) -> None:
        builder = pipeline_of(info)
        for name in BEHIND:
            builder = builder.insert_after(name, StageSpec(f"killed behind {name}", _killed(name)))
        super().__init__(info, pipeline=builder)


def _killed(name: str) -> Stage:
    async def stage(turn: AgentTurn) -> Outcome:
        mark = Path(turn.message.text) / name
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Skip("it was killed here")

    return stage
