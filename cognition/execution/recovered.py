"""Calls that a model wrote into its answer as text, where its server did not take them for calls. Pure.

Only an answer that *ends* in such calls, all of tools that were offered and each an object of a name and arguments, is
taken for them: prose may stand before, and nothing behind. Known forms::

    <tool_call>{"name": "f", "arguments": {}}</tool_call>          one or more
    [TOOL_CALLS] [{"name": "f", "arguments": {}}]
    <function=f>{}</function>                                      one or more
    a fence of three backticks around such an object, or a list of them, with nothing before it
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from cognition.execution.fences import unfenced
from kernel.abi import ToolCall

LONGEST_CHARS = 64 * 2**10
MOST_CALLS = 64
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_LIST = "[TOOL_CALLS]"
_FUNCTION = re.compile(r"<function=([\w.-]{1,64})>")
_FUNCTION_END = "</function>"
_NAME_KEYS = ("name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")


def recovered_calls(text: str, offered: Collection[str]) -> tuple[str, tuple[ToolCall, ...]]:
    """The prose before the calls, and the calls; the whole text and none where it does not end in calls."""
    if not offered or len(text) > LONGEST_CHARS:
        return text, ()
    for form in (_tagged, _listed, _functions, _fenced):
        prose, found = form(text)
        calls = [_call(each, place) for place, each in enumerate(found)]
        if 0 < len(calls) <= MOST_CALLS and all(call is not None and call.name in offered for call in calls):
            return prose.strip(), tuple(call for call in calls if call is not None)
    return text, ()


def _tagged(text: str) -> tuple[str, list[Any]]:
    prose, opened, rest = text.partition(_OPEN)
    found: list[Any] = []
    while opened and len(found) <= MOST_CALLS:
        body, closed, rest = rest.partition(_CLOSE)
        between, opened, rest = rest.partition(_OPEN)
        if not closed or between.strip():
            return text, []
        found.append(_read(body))
    return prose, found


def _listed(text: str) -> tuple[str, list[Any]]:
    prose, marked, rest = text.partition(_LIST)
    return (prose, _as_list(_read(rest))) if marked else (text, [])


def _functions(text: str) -> tuple[str, list[Any]]:
    begin = _FUNCTION.search(text)
    prose, found = (text, []) if begin is None else (text[: begin.start()], list[Any]())
    while begin is not None and len(found) <= MOST_CALLS:
        end = text.find(_FUNCTION_END, begin.end())
        if end < 0:
            return text, []
        found.append({"name": begin[1], "arguments": _read(text[begin.end() : end])})
        after = end + len(_FUNCTION_END)
        begin = _FUNCTION.search(text, after)
        if text[after : len(text) if begin is None else begin.start()].strip():
            return text, []
    return prose, found


def _fenced(text: str) -> tuple[str, list[Any]]:
    body = unfenced(text)
    return (text, []) if body is None else ("", _as_list(_read(body)))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _call(value: Any, place: int) -> ToolCall | None:
    """The call that an object is; None for all else."""
    if not isinstance(value, dict):
        return None
    names = [value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)]
    given = [value[key] for key in _ARGUMENT_KEYS if isinstance(value.get(key), dict)]
    known = {*_NAME_KEYS, *_ARGUMENT_KEYS, "id", "type"}
    if len(names) != 1 or len(given) != 1 or not set(value) <= known:
        return None
    return ToolCall(names[0], json.dumps(given[0], ensure_ascii=False), f"recovered-{place}")
