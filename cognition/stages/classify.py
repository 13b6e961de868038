"""What kind of work the message asks for, and how much of it."""

from __future__ import annotations

from dataclasses import replace

from cognition.classification.classifier import classify as task_of
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome


async def classify(turn: AgentTurn) -> Outcome:
    task = task_of(turn.message.text)
    return Continue(replace(turn, task_type=task.type, complexity=task.complexity), task.words)
