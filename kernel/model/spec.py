"""What a person or an agent asks for when it spawns: one frozen value, kept as JSON in the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, get_args

from kernel.errors import Invalid
from kernel.operations.spawning import Isolation, Restart
from kernel.values import check_depth

DEFAULT_TOOLS = ("calculator", "file_read", "file_list")
_RESTARTS = get_args(Restart)
_ISOLATIONS = get_args(Isolation)
_TEXTS = ("name", "type", "behaviour", "restart", "isolation", "workspace", "strategy")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One child slot. ``type`` is ``worker`` (runs a behaviour) or ``supervisor`` (a PID without a cell).

    ``tools`` are the names the process may propose; ``config`` is handed to the behaviour; ``workspace`` is the
    directory its file tools see; ``intensity`` is restarts and seconds, for the children below it; ``strategy`` says
    which of them a supervisor restarts together.
    """

    name: str
    type: Literal["worker", "supervisor"] = "worker"
    behaviour: str = "agent"
    restart: Restart = "permanent"
    isolation: Isolation = "shared"
    tools: tuple[str, ...] = DEFAULT_TOOLS
    workspace: str = ""
    intensity: tuple[int, float] = (5, 60.0)
    strategy: str = "one_for_one"
    config: dict[str, Any] = field(default_factory=dict)

    def check(self) -> list[str]:
        """Every fault at once, empty when there is none."""
        faults = []
        if self.restart not in _RESTARTS:
            faults.append(f"restart {self.restart!r} is none of {', '.join(_RESTARTS)}")
        if self.isolation not in _ISOLATIONS:
            faults.append(f"isolation {self.isolation!r} is none of {', '.join(_ISOLATIONS)}")
        restarts, period_s = self.intensity
        if not 0 <= restarts <= 10_000 or not 0 < period_s <= 86_400:
            faults.append(
                f"intensity {restarts}/{period_s:g}: restarts 0..10000, seconds above 0 and up to 86400"
            )
        return faults

    def to_json(self) -> str:
        """Canonical JSON text."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ProcessSpec:
        """Read what :meth:`to_json` wrote. Raises :class:`Invalid`; unknown fields are refused."""
        return _read(text)


_FIELDS = frozenset(item.name for item in fields(ProcessSpec))


@lru_cache(
    maxsize=1
)  # an entry is read twice, one after the other: when it is checked, and when it is applied
def _read(text: str) -> ProcessSpec:
    try:
        data = json.loads(text)
        unknown = set(data) - _FIELDS
        if unknown:
            raise Invalid(f"process spec has unknown fields {sorted(unknown)}")
        texts = [data.get(name, "") for name in _TEXTS] + [*data["tools"]]
        if not {*map(type, texts)} <= {str} or type(data.get("config", {})) is not dict:
            raise Invalid("process spec: config must be a map, and all but it and intensity text")
        check_depth(data, "process spec")
        data["tools"] = tuple(data["tools"])
        data["intensity"] = (int(data["intensity"][0]), float(data["intensity"][1]))
        return ProcessSpec(**data)
    except (
        ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        raise Invalid(f"process spec is not readable: {error}") from error
