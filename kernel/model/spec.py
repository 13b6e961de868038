"""What a person or an agent asks for when it spawns: one frozen value, kept as JSON in the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from kernel.errors import Invalid
from kernel.operations.spawning import MAX_SHUTDOWN_S, AutoShutdown, Isolation, OnLogical, Restart, ShutdownS
from kernel.values import check_depth

DEFAULT_TOOLS = ("calculator", "file_read", "file_list")
_RESTARTS = get_args(Restart)
_ISOLATIONS = get_args(Isolation)
_AUTO_SHUTDOWNS = get_args(AutoShutdown)
_ON_LOGICAL = get_args(OnLogical)
_TEXTS = (
    "name",
    "type",
    "behaviour",
    "restart",
    "isolation",
    "workspace",
    "strategy",
    "auto_shutdown",
    "on_logical",
)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One child slot. ``type`` is ``worker`` (runs a behaviour) or ``supervisor`` (a PID without a cell).

    ``tools`` are the names the process may propose; ``config`` is handed to the behaviour; ``workspace`` is the
    directory its file tools see; ``intensity`` is restarts and seconds, for the children below it; ``strategy`` says
    which of them a supervisor restarts together. ``shutdown_s`` None is what suits the type. ``significant`` and
    ``auto_shutdown``: whose end ends a supervisor. ``template``: what the children of a supervisor are made of, a spec
    without a name, where its strategy wants one. ``on_logical``: what follows when it ends for a logical reason.
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
    shutdown_s: ShutdownS | None = None
    significant: bool = False
    auto_shutdown: AutoShutdown = "never"
    template: ProcessSpec | None = None
    on_logical: OnLogical = "restart"

    def check(self) -> list[str]:
        """Every fault at once, empty when there is none."""
        faults = []
        if self.restart not in _RESTARTS:
            faults.append(f"restart {self.restart!r} is none of {', '.join(_RESTARTS)}")
        if self.isolation not in _ISOLATIONS:
            faults.append(f"isolation {self.isolation!r} is none of {', '.join(_ISOLATIONS)}")
        if self.auto_shutdown not in _AUTO_SHUTDOWNS:
            faults.append(f"auto_shutdown {self.auto_shutdown!r} is none of {', '.join(_AUTO_SHUTDOWNS)}")
        if self.on_logical not in _ON_LOGICAL:
            faults.append(f"on_logical {self.on_logical!r} is none of {', '.join(_ON_LOGICAL)}")
        if self.shutdown_s is not None and not _may_take(self.shutdown_s):
            faults.append(f"shutdown_s {self.shutdown_s}: 0 to {MAX_SHUTDOWN_S:g} seconds, or infinity")
        if self.template is not None:
            faults += [f"template: {fault}" for fault in self.template.check()]
        restarts, period_s = self.intensity
        if not 0 <= restarts <= 10_000 or not 0 < period_s <= 86_400:
            faults.append(
                f"intensity {restarts}/{period_s:g}: restarts 0..10000, seconds above 0 and up to 86400"
            )
        return faults

    def made(self, name: str, workspace: str, config: dict[str, Any]) -> ProcessSpec:
        """A child of this template, with its own name, workspace and what it adds to the configuration."""
        return replace(self, name=name, workspace=workspace, config={**self.config, **config})

    def is_of(self, template: ProcessSpec) -> bool:
        """Whether it is a child of that template."""
        return replace(self, name="", workspace="", config={}) == replace(template, config={})

    def to_json(self) -> str:
        """Canonical JSON text."""
        return json.dumps(self._told(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def _told(self) -> dict[str, Any]:
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**told, "template": None if self.template is None else self.template._told()}

    @classmethod
    def from_json(cls, text: str) -> ProcessSpec:
        """Read what :meth:`to_json` wrote. Raises :class:`Invalid`; unknown fields are refused."""
        return _read(text)


_FIELDS = frozenset(item.name for item in fields(ProcessSpec))


# An entry is read twice, one after the other: when it is checked, and when it is applied.
@lru_cache(maxsize=1)
def _read(text: str) -> ProcessSpec:
    try:
        data = json.loads(text)
        check_depth(data, "process spec")
        return _made_of(data)
    except (
        ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        raise Invalid(f"process spec is not readable: {error}") from error


def _made_of(data: dict[str, Any]) -> ProcessSpec:
    unknown = set(data) - _FIELDS
    if unknown:
        raise Invalid(f"process spec has unknown fields {sorted(unknown)}")
    texts = [data.get(name, "") for name in _TEXTS] + [*data["tools"]]
    if not {*map(type, texts)} <= {str} or type(data.get("config", {})) is not dict:
        raise Invalid("process spec: config must be a map, and all but it and intensity text")
    if type(data.get("significant", False)) is not bool or not _is_time(data.get("shutdown_s")):
        raise Invalid("process spec: significant must be true or false, shutdown_s seconds or infinity")
    data["tools"] = tuple(data["tools"])
    data["intensity"] = (int(data["intensity"][0]), float(data["intensity"][1]))
    if data.get("template") is not None:
        data["template"] = _made_of(data["template"])
    return ProcessSpec(**data)


def _is_time(value: object) -> bool:
    return value is None or value == "infinity" or type(value) in (int, float)


def _may_take(shutdown_s: ShutdownS) -> bool:
    return shutdown_s == "infinity" or 0 <= shutdown_s <= MAX_SHUTDOWN_S
