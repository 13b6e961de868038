"""The provider ``offline``: the planner of :mod:`cognition.providers.planner` behind the face of a provider.

It is the default that needs no key and no network. It is not a language model, and says so when asked.
"""

from __future__ import annotations

import asyncio
import re

from cognition.history.extract import extract
from cognition.history.summary import PROMPT as SUMMARY_PROMPT
from cognition.providers.base import Question, Source, Watcher
from cognition.providers.planner import newest_request, plan
from cognition.providers.steps import Call
from kernel.abi import ModelAnswer, ToolCall

_WORD = re.compile(r"\s*\S+\s*")
_WORDS_AT_ONCE = 64


def build(source: Source) -> Offline:
    """One provider; nothing of its table matters."""
    return Offline()


class Offline:
    """``delay_s`` is waited before each answer, so that a person can watch; nothing else takes time."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    async def ask(self, question: Question, watcher: Watcher) -> ModelAnswer:
        """Never fails. Text is shown word by word."""
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if question.messages and question.messages[0].get("content") == SUMMARY_PROMPT:
            return ModelAnswer("ok", extract(str(question.messages[-1].get("content"))))
        step = plan(question.messages, {tool.name for tool in question.tools})
        if isinstance(step, Call):
            number = len(newest_request(question.messages)[1]) + 1
            call = ToolCall(step.tool, step.arguments, f"step_{number}")
            return ModelAnswer("ok", "", (call,), stop_reason="tool_calls")
        for number, word in enumerate(_WORD.findall(step.text)):
            watcher.show(word)
            if number % _WORDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return ModelAnswer("ok", step.text, stop_reason="stop")

    async def close(self) -> None:
        return None
