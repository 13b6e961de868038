"""What the node hands to its operations beside the kernel: what it is, and what reaches out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.control.erasure import Erasures
from kernel.control.keys import Rotate, no_rotation
from kernel.memory.memory import Ask
from kernel.operations.node import Setting
from kernel.upkeep.loop_lag import LoopLag


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the node is."""

    name: str
    origin: str
    version: str
    engine: str
    data: Path
    runtime: Path
    providers: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeServices:
    """What the operations may have done outside the kernel. ``shutdown(why)`` begins a clean stop."""

    config_view: Callable[[], list[Setting]]
    read_logs: Callable[[str, int], list[dict[str, Any]]]
    archive: Ask
    shutdown: Callable[[str], None]
    loop_lag: LoopLag
    erasures: Erasures
    rotate: Rotate = no_rotation
    clock_ahead_s: Callable[[], float] = lambda: 0.0
