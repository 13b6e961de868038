"""What the tool ``spawn_agent`` declares of itself: fields of :class:`kernel.operations.spawning.SpawnRequest`."""

from __future__ import annotations

from typing import Any, get_args

from kernel.abi import ToolDeclaration
from kernel.operations.rights.budgets import MOST, OnExhausted, Resource
from kernel.operations.rights.capabilities import MOST_PATTERNS, PATTERN_CHARS, MemoryScope, MessageScope
from kernel.operations.spawning import (
    MAX_PROMPT_CHARS,
    MAX_TOOL_CHARS,
    MAX_TOOLS,
    Isolation,
    OnLogical,
    Restart,
)
from kernel.toolbox.parameters import a_text, an_object


def spawn_declaration() -> ToolDeclaration:
    """As it is offered to models."""
    names = {
        "type": "array",
        "items": {"type": "string", "maxLength": MAX_TOOL_CHARS},
        "maxItems": MAX_TOOLS,
    }
    return ToolDeclaration(
        name="spawn_agent",
        description=(
            "Start an agent below this process. It may do and use up what this process may, or less: what you leave "
            "out of its capabilities it has as this one has it, and its budget comes out of this one's."
        ),
        parameters=an_object(
            {
                "name": {**a_text("Its name.", 1, 64), "pattern": "^[a-zA-Z0-9._-]+$"},
                "system_prompt": a_text("What it is for and how it should work.", 0, MAX_PROMPT_CHARS),
                "tools": {
                    **names,
                    "description": "Names of its tools; calculator, file_read, file_list by default.",
                },
                "capabilities": _capabilities(),
                "budget": _budget(),
                "behaviour": a_text("Leave out for that of this process.", 1, 64),
                "isolation": {
                    "enum": list(get_args(Isolation)),
                    "description": "Leave out for that of this process.",
                },
                "restart": {"enum": list(get_args(Restart))},
                "on_logical": {"enum": list(get_args(OnLogical))},
            },
            ["name"],
        ),
        effects="local",
        sandbox="node",
    )


def _capabilities() -> dict[str, Any]:
    patterns = {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARS},
        "maxItems": MOST_PATTERNS,
    }
    truth = {"type": "boolean"}
    said = {
        "deny": {**patterns, "description": "Tools it may not use."},
        "messages": {"enum": list(get_args(MessageScope)), "description": "Whom it may send messages to."},
        "listed": {**patterns, "description": "Addresses, with messages listed."},
        "spawn": {**truth, "description": "Whether it may start agents."},
        "topics": patterns,
        "memory": {"type": "array", "items": {"enum": list(get_args(MemoryScope))}, "maxItems": 2},
        "paths": {**patterns, "description": "Parts of the workspace."},
        "network": {**patterns, "description": "Hosts its tools may declare to use; empty for none."},
        "behaviours": {**patterns, "description": "That it may give agents it starts."},
        "dedicated": {**truth, "description": "Whether agents it starts may have cells of their own."},
    }
    return {**an_object(said), "description": "What else it may do."}


def _budget() -> dict[str, Any]:
    number = {"type": "integer", "minimum": 1, "maximum": MOST}
    money = a_text("Such as 0.25, in the unit of the node's prices.", 1, 18)
    limits = {name: money if name == "money" else number for name in get_args(Resource)}
    then = {"enum": list(get_args(OnExhausted)), "description": "When one is used up; wrap_up by default."}
    said = an_object({**limits, "then": then})
    return {**said, "description": "What it and all below it may use up in their lives."}
