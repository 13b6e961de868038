"""What a stage says of a turn. Plain values; :mod:`cognition.turn.pipeline` says what follows from each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cognition.turn.agent_turn import AgentTurn


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with this turn. ``why``: what the stage has to say of what it decided, in a line."""

    turn: AgentTurn
    why: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do here, and why; go on with the turn as it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class Respond:
    """This is the answer; no stage that is not always run comes behind it."""

    text: str


@dataclass(frozen=True, slots=True)
class Abort:
    """It cannot be done, and why, for whoever asked."""

    error: str


Outcome = Continue | Skip | Respond | Abort
