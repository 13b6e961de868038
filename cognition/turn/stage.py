"""What a stage is, and what is known of it before anything runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Outcome

Stage = Callable[[AgentTurn], Awaitable[Outcome]]
"""One step of a turn. It asks for what it needs through ``turn.sys``, and raises nothing of its own."""

Wrap = Callable[[Stage], Stage]


async def unbound(turn: AgentTurn) -> Outcome:
    """Stands where only the order of stages is looked at."""
    raise NotImplementedError("a stage without code was run")


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage by its name. ``after``: it stands behind these, where they are there. ``needs``: these must be there.
    ``skippable``: a configuration may leave it out of the list. ``always``: it runs also when a stage before it has
    answered or given up. ``absent``: what is done in its place where it is not there, in a sentence. ``loud``: leaving
    it out is told to the log of each turn. ``wraps``: the stage that runs inside of ``wrap`` where this one is there.
    """

    name: str
    run: Stage = unbound
    after: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    skippable: bool = True
    always: bool = False
    absent: str = ""
    loud: bool = False
    wraps: str = ""
    wrap: Wrap | None = None
