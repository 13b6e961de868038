"""The turn with its system prompt: made once, by the first stage that needs to know how long it is."""

from __future__ import annotations

from dataclasses import replace

from cognition.guard.guard import guarded_result
from cognition.prompt.sections import prompt_sections
from cognition.turn.agent_turn import AgentTurn
from kernel.abi import PromptFile


async def prompted(turn: AgentTurn) -> AgentTurn:
    """The same turn; its ``prompt`` is there."""
    if turn.prompt:
        return turn
    files = [_guarded(turn, each) for each in await turn.sys.prompt_files()]
    for each in files:
        if each.note:
            turn.sys.log(f"prompt: {each.name}: {each.note}")
    return replace(turn, prompt=prompt_sections(turn.config, files))


def _guarded(turn: AgentTurn, file: PromptFile) -> PromptFile:
    """What is remembered has been said by anybody: it is judged as what a tool gives is."""
    if file.name != "MEMORY.md" or not file.text:
        return file
    guarded = guarded_result("memory", file.text, turn.guard)
    if guarded.signals:
        turn.sys.log(f"injection: {file.name} ({guarded.why})")
    return replace(file, text=guarded.text)
