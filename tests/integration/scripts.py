"""What the scripted models say, by name. A script with ``by: round`` serves any number of agents."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.effects import Effects

Json = dict[str, Any]
HOSTILE = (
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m [link=file:///etc/passwd]click[/link] [bold]b[/bold] \u202eevil\r"
)
WORDS = "It is 391 and the file says so too."


def call(name: str, arguments: Json | str, ident: str = "call_0") -> Json:
    return {"name": name, "arguments": arguments, "id": ident}


def _rounds(*answers: Json, after: str = "error") -> Json:
    return {"by": "round", "after": after, "answers": list(answers)}


def _one_call(name: str, arguments: Json | str, then: str = "I see.") -> Json:
    return _rounds({"tool_calls": [call(name, arguments)]}, {"text": then})


def five_calls() -> Json:
    """Five tool calls in four rounds, two of them at once."""
    return _rounds(
        {"text": "Let me count.", "tool_calls": [call("calculator", {"expression": "17*23"})]},
        {"tool_calls": [call("file_write", {"path": "a.txt", "content": "391\n"})]},
        {"tool_calls": [call("file_read", {"path": "a.txt"}, "x"), call("file_list", {"path": "."}, "y")]},
        {"tool_calls": [call("calculator", {"expression": "391/23"})]},
        {"text": WORDS, "words_ms": 30},
    )


def ten_calls() -> list[Json]:
    """Ten tool calls in ten rounds, and an answer."""
    return [
        *({"tool_calls": [call("calculator", {"expression": f"{n}*23"})]} for n in range(1, 11)),
        {"text": "All ten are done."},
    ]


def ten_effects(port: int) -> list[Json]:
    """The same with effects outside, called ten-0 to ten-9."""
    calls = (call("count", {"port": port, "effect": f"ten-{n}"}) for n in range(10))
    return [*({"tool_calls": [each]} for each in calls), {"text": "All ten are done."}]


def work(port: int, name: str, tool: str) -> Json:
    """Two effects, a call that the test holds, a third effect, an answer."""
    return _rounds(
        {"tool_calls": [call("count", {"port": port, "effect": f"{name}-1"})]},
        {"tool_calls": [call("count", {"port": port, "effect": f"{name}-2"})]},
        {"tool_calls": [call(tool, {"port": port, "effect": f"{name}-held"})]},
        {"tool_calls": [call("count", {"port": port, "effect": f"{name}-3"})]},
        {"text": "done"},
    )


def models(effects: Effects) -> Json:
    """The script file of the model server."""
    port = effects.port
    bad = {"duplicate": '{"expression": "1", "expression": "2"}', "nan": '{"expression": NaN}', "list": "[1]"}
    scripts = {
        "five-calls": five_calls(),
        "429": _rounds({"faults": [{"status": 429, "retry_after": 1}], "text": "after the wait"}),
        "500": _rounds({"faults": [{"status": 500}], "text": "after the fault"}),
        "500-always": _rounds({"status": 500, "error": f"out of order {HOSTILE}"}, after="last"),
        "cut": _rounds({"faults": [{"text": "one two three four", "cut_after": 3}], "text": "whole at last"}),
        "unknown-tool": _one_call("launch_missiles", {"at": "dawn"}),
        "not-held": _one_call("file_write", {"path": "x", "content": "y"}),
        "schema": _one_call("calculator", {"expresion": 1}),
        "nothing": _rounds({"text": ""}),
        "kept": _rounds({"text": "four words of it", "cached_tokens": 6}),
        "for-ever": _rounds({"tool_calls": [call("calculator", {"expression": "1+1"})]}, after="last"),
        "large": _one_call("calculator", json.dumps({"expression": "1" * 300 * 1024})),
        "10-mb": _one_call("calculator", json.dumps({"expression": "1" * 10 * 2**20})),
        "ten-effects": _rounds(*ten_effects(port)),
        "ten-calls": _rounds(*ten_calls()),
        "overloaded-later": _rounds(*ten_calls()[:3], {"status": 503, "error": "overloaded"}, after="last"),
        "cut-later": _rounds(*ten_calls()[:6], {"text": "one two three four", "cut_after": 3}, after="last"),
        "memory": _rounds({"text": "I will remember the word heron."}),
        "endless": _rounds({"endless": "text"}),
        "hostile": _rounds({"text": HOSTILE}),
        "hostile-call": _one_call(HOSTILE, HOSTILE),
        "broken": _one_call("calculator", '{"expression": "17*'),
        **{f"json-{name}": _one_call("calculator", text) for name, text in bad.items()},
    }
    for name, tool in (
        ("resume", "look"),
        ("rekeyed", "look"),
        ("doubt", "count"),
        ("cell", "look"),
        ("ray-cell", "look"),
        ("ray-node", "look"),
    ):
        scripts[name] = work(port, name, tool)
    return {"models": scripts}
