"""How a boot of a node is configured: often as always, else with other limits, fewer tools, and other policies of them.

How much is done at a time is a matter of the whole run: as always, or one thing, with PIDs in small blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from types import ModuleType
from typing import Any

from kernel.abi import ToolDeclaration
from kernel.bounds import STATE_LIMITS, Bounds
from kernel.message import downs, expiries, messaging
from kernel.model import pids
from kernel.peer import lost_questions, outboxes
from kernel.process import effects, processes
from kernel.state import recorder
from kernel.state.state import State
from kernel.toolbox.registry import Registry, ToolSource, builtin_declarations
from kernel.turn import histories, turns

ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}
OWN = (
    ToolDeclaration("pay", "Pay somebody.", ANYTHING, timeout_s=4.0),
    ToolDeclaration("ping", "Ping somebody.", ANYTHING, on_doubt="lost", timeout_s=4.0),
    ToolDeclaration("poke", "Poke somebody.", ANYTHING, on_doubt="retry", timeout_s=4.0),
    ToolDeclaration("book", "Book it.", ANYTHING, timeout_s=4.0, effect_parameter="key", probe=True),
    ToolDeclaration("peek", "Look at somebody.", ANYTHING, effects="none", timeout_s=4.0),
)
TOOLS = (
    "pay",
    "ping",
    "poke",
    "peek",
    "calculator",
    "file_write",
    "send_message",
    "ask",
    "spawn_agent",
    "book",
)
BOUNDS = Bounds(
    turn_timeout_s=300.0, ask_timeout_s=8.0, model_timeout_s=6.0, mailbox_messages=12, dead_letters=8, turn_attempts=4
)  # fmt: skip
FEW: tuple[tuple[ModuleType, str, int], ...] = (
    (pids, "BLOCK", 8),
    (pids, "MARGIN", 2),
    (effects, "EFFECTS_AT_ONCE", 1),
    (processes, "EXITS_IN_A_UNIT", 1),
    (processes, "REMOVED_AT_ONCE", 1),
    (messaging, "DEAD_LETTERS_AT_ONCE", 1),
    (expiries, "DEAD_LETTERS_AT_ONCE", 1),
    (turns, "DEAD_LETTERS_AT_ONCE", 1),
    (histories, "AT_ONCE", 1),
    (downs, "AT_ONCE", 1),
    (recorder, "CALLS_PER_STEP", 1),
    (outboxes, "EFFECTS_AT_ONCE", 1),
    (lost_questions, "TOLD_AT_ONCE", 1),
)


@dataclass(frozen=True)
class Setting:
    """The limits and the tools of a boot."""

    bounds: Bounds = BOUNDS
    tools: tuple[ToolDeclaration, ...] = OWN

    @property
    def retried(self) -> frozenset[str]:
        """The tools with effects whose calls are made again, when they are in doubt, by policy."""
        own = {tool.name for tool in self.tools if tool.on_doubt == "retry" and tool.effects != "none"}
        return frozenset({*own, "file_write"})

    def registry(self) -> Registry:
        sources = [ToolSource(tool.name, "somewhere:thing") for tool in self.tools]
        return Registry([*builtin_declarations(), *self.tools], sources)


def draw_setting(chance: Random) -> Setting:
    """That of the next boot."""
    if chance.random() < 0.5:
        return Setting()
    bounds = replace(
        BOUNDS,
        turn_attempts=chance.choice((2, 4)),
        mailbox_messages=chance.choice((2, 12)),
        dead_letters=chance.choice((1, 8)),
        process_monitors=chance.choice((3, 1_000)),
        carriage_s=chance.choice((6.0, 60.0)),
        sessions=chance.choice((1, 2, 10_000)),
        session_records=chance.choice((1, 3, 200)),
    )
    tools = [tool for tool in OWN if chance.random() < 0.9]
    return Setting(bounds, tuple(_other_policy(tool, chance) for tool in tools))


def _other_policy(tool: ToolDeclaration, chance: Random) -> ToolDeclaration:
    if tool.effects == "none" or chance.random() < 0.5:
        return tool
    if tool.probe and chance.random() < 0.5:
        return replace(tool, probe=False)
    return replace(tool, on_doubt=chance.choice(("ask", "lost", "retry")))


def make_state(bounds: Bounds = BOUNDS) -> State:
    return State(*(getattr(bounds, name) for name in STATE_LIMITS))


@contextmanager
def few_at_once() -> Iterator[None]:
    """What the kernel does so many at a time it does one at a time; and it reserves few PIDs."""
    before = [getattr(module, name) for module, name, _ in FEW]
    for module, name, few in FEW:
        setattr(module, name, few)
    try:
        yield
    finally:
        for (module, name, _), value in zip(FEW, before, strict=True):
            setattr(module, name, value)
