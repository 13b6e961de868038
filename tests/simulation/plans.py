"""What messages ask their receivers to do: rounds of syscalls, drawn from the seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Call = dict[str, Any]
ALONE = (
    "pay", "pay", "pay", "ping", "poke", "poke", "peek", "calculator", "file_write", "send_message", "ask",
    "spawn_agent", "book", "book", "nothing",
)  # fmt: skip
OF_TURN = "of TURN"
"""What a file is given is of the turn alone: the same plan comes to several, published or sent again."""
TALKATIVE = (*ALONE, "ask", "ask", "ask", "ask", "ask", "ask", "send_message", "send_message")


class Plans:
    """Draws plans of ``tools``. ``name`` makes each of them another; ``targets`` are who may be sent to just now."""

    def __init__(self, choose: Random, targets: Callable[[], list[str]], tools: tuple[str, ...]) -> None:
        self._choose = choose
        self._targets = targets
        self._tools = tools
        self._count = 0

    def plan(self, name: str, depth: int = 0) -> dict[str, Any]:
        rounds = [self._round(name, depth) for _ in range(self._choose.choice((0, 1, 1, 2, 3, 4)))]
        return {"name": name, "rounds": rounds, "remember": self._choose.random() < 0.3,
                "hasty": self._choose.random() < 0.1}  # fmt: skip

    def question(self, name: str, to: str) -> dict[str, Any]:
        """Nothing but a question to that one."""
        self._count += 1
        inner = self.plan(f"{name}.{self._count}", depth=1)
        return {"name": name, "rounds": [[_tool("ask", {"to": to, "text": json.dumps(inner)})]]}

    def _round(self, name: str, depth: int) -> list[Call]:
        if self._choose.random() < 0.06:
            return [{"op": "raise", "times": self._choose.choice((1, 1, 2, 9))}]
        if self._choose.random() < 0.25:
            return [self._other()]
        many = self._choose.choice((1, 1, 1, 2, 3))
        return [self._tool(name, depth) for _ in range(many)]

    def _other(self) -> Call:
        op = self._choose.choice(
            (
                "model",
                "model",
                "now",
                "random",
                "monitor",
                "monitor",
                "demonitor",
                "link",
                "link",
                "unlink",
                "trap_exits",
            )
        )
        if op == "trap_exits":
            return {"op": op, "args": {"on": self._choose.random() < 0.7}}
        if op == "unlink":
            return {"op": op, "args": {"ref": ""}}
        if op in ("monitor", "link"):
            return {"op": op, "args": {"target": self._choose.choice(self._targets() or ["/user/a"])}}
        if op == "demonitor":
            return {"op": op, "args": {"ref": "", "flush": self._choose.random() < 0.5}}
        if op != "model":
            return {"op": op}
        content = "x" * self._choose.choice((5, 5, 5_000))
        messages = [{"role": "user", "content": content}]
        args = {
            "messages": messages,
            "tools": ["pay"],
            "provider": "",
            "model": "",
            "terms": None,
            "options": None,
            "sections": [],
        }
        return {"op": "model", "args": args}

    def _tool(self, name: str, depth: int) -> Call:
        self._count += 1
        choose = self._choose
        tool = choose.choice(self._tools)
        arguments: dict[str, Any] = {"n": self._count}
        match tool:
            case "calculator":
                arguments = {"expression": f"1+{self._count}"}
            case "file_write":
                arguments = {
                    "path": choose.choice(("one", "two")),
                    "content": f"{name} {self._count} {OF_TURN}",
                }
            case "send_message" | "ask":
                to = choose.choice(self._targets() or ["/user/a"])
                inner = (
                    self.plan(f"{name}.{self._count}", depth + 1)
                    if depth < 2
                    else {"name": f"{name}.{self._count}", "rounds": []}
                )
                arguments = {"to": to, "text": json.dumps(inner)}
                if tool == "ask" and choose.random() < 0.5:
                    arguments["timeout_s"] = choose.choice((1, 4))
            case "spawn_agent":
                restart = choose.choice(("permanent", "transient", "temporary"))
                arguments = {"name": choose.choice(("x", "y")), "tools": ["pay", "poke"], "restart": restart}
        return _tool(tool, arguments)


def _tool(name: str, arguments: dict[str, Any]) -> Call:
    return {"op": "tool", "args": {"name": name, "arguments": json.dumps(arguments), "id": ""}}
