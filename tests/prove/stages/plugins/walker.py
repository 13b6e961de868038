"""The agent of the walk: the behaviour ``agent`` with all of its stages, and a wire before and behind each of them."""

from __future__ import annotations

from pathlib import Path

from tripwires import Tripwires  # type: ignore[import-not-found]  # it lies beside this

from cognition.agent import Agent
from cognition.config.agent_config import PipelineConfig
from cognition.stages.table import agent_builder
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.builder import PipelineBuilder
from cognition.turn.outcome import Outcome, Skip
from cognition.turn.stage import StageSpec
from kernel.abi import Message, ProcessInfo, Syscalls, TurnResult
from weftos import behaviour

WIRES = Tripwires(Path(__file__).with_name("wires"))


@behaviour
class Walker:
    """See the module's words. The message is ``walk CASE``."""

    def __init__(self, info: ProcessInfo) -> None:
        self._agent = Agent(info, pipeline=_wired(agent_builder(PipelineConfig())))

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        return await self._agent.handle(message, sys)


def _wired(builder: PipelineBuilder) -> PipelineBuilder:
    names = [stage.name for stage in builder.stages]
    wired = builder.insert_before(names[0], _wire(f"before {names[0]}"))
    for name in names:
        wired = wired.insert_after(name, _wire(f"behind {name}"))
    return wired


def _wire(place: str) -> StageSpec:
    async def stand(turn: AgentTurn) -> Outcome:
        WIRES.stand(turn.message.text.removeprefix("walk "), place)
        return Skip("a wire")

    return StageSpec(place, stand, always=True)
