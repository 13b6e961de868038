"""The offline planner: fixed patterns that turn a request into tool calls. It is not a language model.

It is a pure function of the messages it is shown. The request is the newest user message, read in one pass
and cut into steps at the word *then*. The tool results behind it say how far the turn has come: each step is
read with the results of the earlier ones at hand, and the first one without a result is the next call. No
step left: the answer.

What it understands is written down in ``docs/offline-planner.md`` and in :data:`HELP`. It guesses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cognition.context import is_node_note
from cognition.forerunner import is_note
from cognition.providers.steps import HELP, Call, Memory, Result, Say, read_step
from cognition.recall.context import CALL_ID as RECALL_ID

MAX_STEPS = 24
_THEN = re.compile(r'\\.|"|\bthen\b', re.IGNORECASE | re.DOTALL)


def plan(messages: Sequence[Mapping[str, Any]], tools: Collection[str]) -> Call | Say:
    """The next call of this turn, or its final answer."""
    request, results = newest_request(messages)
    steps = split_steps(request)
    if len(steps) > MAX_STEPS:
        return Say(f"That is {len(steps)} steps; I take {MAX_STEPS} at most, and did none of them.")
    said: list[str] = []
    memory = Memory()
    for number, step in enumerate(steps):
        action = read_step(step, memory)
        match action:
            case None:
                said.append(f"I do not understand {_shown(step)}. {HELP}")
                break
            case Say(text):
                said.append(text)
                continue
        if not results:
            if action.tool in tools:
                return action
            if not tools and is_node_note(messages[-1]):
                left = len(steps) - number
                said.append(
                    f"Not done, since no more calls are made in this turn: {left} of {len(steps)} steps."
                )
            else:
                said.append(
                    f"For {_shown(step)} I need the tool {action.tool}, which this process may not use."
                )
            break
        result = results.pop(0)
        if result.status != "ok":
            said.append(f"{_shown(step)} did not work ({result.status}): {result.text}")
            if number + 1 < len(steps):
                said.append(f"Not tried after that: {len(steps) - number - 1} of {len(steps)} steps.")
            break
        sentence, memory = action.report(result, memory)
        said.append(sentence)
    return Say("\n".join(said) or HELP)


def newest_request(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[Result]]:
    """The newest user message and the tool results behind it, without what the agent recalled by itself."""
    request = ""
    results: list[Result] = []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        if is_node_note(message):
            continue
        if message.get("role") == "user":
            request, results = text, []
        elif is_note(message) or message.get("tool_call_id") == RECALL_ID:
            continue
        elif message.get("role") == "tool":
            results.append(Result(text, message.get("status", "ok"), bool(message.get("truncated"))))
    return request, results


def split_steps(request: str) -> list[str]:
    """Cut at each *then* that stands outside double quotes.

    An opened quote that is never closed quotes nothing.
    """
    marks = list(_THEN.finditer(request))
    quotes = [mark.start() for mark in marks if mark.group() == '"']
    unclosed = quotes[-1] if len(quotes) % 2 else -1
    steps: list[str] = []
    start = 0
    quoted = False
    for mark in marks:
        if mark.group() == '"':
            quoted = not quoted if mark.start() != unclosed else quoted
        elif not quoted and not mark.group().startswith("\\"):
            steps.append(request[start : mark.start()])
            start = mark.end()
    steps.append(request[start:])
    return [step for step in map(_tidy, steps) if step]


def _tidy(step: str) -> str:
    step = step.strip(" \t\r\n,;")
    for filler in ("and ", "please "):
        if step[: len(filler)].lower() == filler:
            step = step[len(filler) :].lstrip()
    return step.removesuffix(" and").rstrip(" ,")


def _shown(step: str) -> str:
    short = step if len(step) <= 80 else step[:79] + "…"
    return f'"{short}"'
