"""A turn goes through its stages, in order.

continue  the next stage gets the turn that it made
skip      the next stage gets the turn as it was
respond   what it says is the reply; only stages that always run come behind it
abort     the same, and the reply is an error

Behind a stage that has answered or given up an ``always`` stage still runs, and sees what is to be said; what it
answers itself changes nothing any more. A stage that finds the turn's task may be followed by other stages than those
listed (:class:`Pipeline`, ``by_task``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cognition.turn.agent_turn import AgentTurn, Reply
from cognition.turn.outcome import Abort, Continue, Outcome, Respond, Skip
from cognition.turn.stage import StageSpec
from kernel.abi import StageOutcome, StageReport

CLASSIFY = "classify"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Checked stages; :class:`cognition.turn.builder.PipelineBuilder` makes them. ``by_task``: the stages that take
    over behind ``classify``, by the type of task that it finds; those of another type go on as listed.
    """

    stages: tuple[StageSpec, ...]
    by_task: Mapping[str, tuple[StageSpec, ...]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.stages)

    def names_for(self, task_type: str) -> tuple[str, ...]:
        """Of the stages that a task of this type goes through."""
        if task_type not in self.by_task:
            return self.names
        before = self.names[: self.names.index(CLASSIFY) + 1]
        return (*before, *(stage.name for stage in self.by_task[task_type]))

    async def run(self, turn: AgentTurn) -> AgentTurn:
        """The turn behind all of its stages. It has a reply unless no stage gave one."""
        left = list(reversed(self.stages))
        while left:
            stage = left.pop()
            if turn.over and not stage.always:
                continue
            began_s = time.monotonic()
            outcome = await stage.run(turn)
            turn = _after(turn, stage, outcome, time.monotonic() - began_s)
            if stage.name == CLASSIFY and turn.task_type in self.by_task:
                left = list(reversed(self.by_task[turn.task_type]))
        return turn


def _after(turn: AgentTurn, stage: StageSpec, outcome: Outcome, took_s: float) -> AgentTurn:
    """The turn that the next stage gets."""
    said: StageOutcome
    match outcome:
        case Continue(changed, why):
            turn, said = changed, "continue"
        case Skip(why):
            said = "skip"
        case Respond(text):
            said, why = "respond", ""
            turn = turn if turn.over else replace(turn, reply=Reply(text), over=True)
        case Abort(why):
            said = "abort"
            turn = turn if turn.over else replace(turn, reply=Reply(why, "error"), over=True)
    return replace(turn, stages=(*turn.stages, StageReport(stage.name, said, why, int(took_s * 1e6))))
