"""What a person or an agent asks for when it spawns: one frozen value, kept as JSON in the ledger."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any, Literal, get_args

from kernel.errors import Invalid
from kernel.operations.mailboxes import Mailbox, read_mailbox
from kernel.operations.rights.budgets import Budget, read_budget
from kernel.operations.rights.capabilities import UNRESTRICTED, Capabilities, read_capabilities
from kernel.operations.spawning import (
    MAX_SHUTDOWN_S,
    MAX_TURN_S,
    AutoShutdown,
    Isolation,
    OnLogical,
    Restart,
    ShutdownS,
)
from kernel.values import check_depth, merged

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
    "session",
)


@dataclass(slots=True)
class ProcessSpec:
    """One child slot. ``type`` is ``worker`` (runs a behaviour) or ``supervisor`` (a PID without a cell). Treat as
    frozen; it is not, because replicas are made of it by the thousand.

    ``tools`` are the names the process may propose; ``config`` is handed to the behaviour; ``workspace`` is the
    directory its file tools see; ``intensity`` is restarts and seconds, for the children below it; ``strategy`` says
    which of them a supervisor restarts together. ``shutdown_s`` None is what suits the type. ``significant`` and
    ``auto_shutdown``: whose end ends a supervisor. ``template``: what the children of a supervisor are made of, a spec
    without a name, where its strategy wants one. ``on_logical``: what follows when it ends for a logical reason.
    ``tools`` may be patterns; ``capabilities`` are what it was handed down, and no later word makes them more.
    ``budget`` None: what it uses comes out of what is above it alone.
    ``turn_timeout_s``: how long one of its turns may take, where that is less than the node allows; None: no less.
    ``mailbox`` None: as large as the node allows, and what finds no room is refused.
    ``session``: the chat, ``channel:chat``, whose messages to what is above it this one handles; empty for none.
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
    capabilities: Capabilities = UNRESTRICTED
    budget: Budget | None = None
    turn_timeout_s: float | None = None
    mailbox: Mailbox | None = None
    session: str = ""

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
        if self.turn_timeout_s is not None:
            faults += self._turn_faults(self.turn_timeout_s)
        faults += self.capabilities.check()
        if self.budget is not None:
            faults += self.budget.check()
            if self.type == "supervisor" and self.budget.then == "pause":
                faults.append("budget: a supervisor takes no turns: then=pause is for those below it")
        if self.mailbox is not None:
            faults += self.mailbox.check()
            if self.type == "supervisor":
                faults.append("mailbox: a supervisor takes no messages, leave it out")
        if self.template is not None:
            faults += [f"template: {fault}" for fault in self.template.check()]
        restarts, period_s = self.intensity
        if not 0 <= restarts <= 10_000 or not 0 < period_s <= 86_400:
            faults.append(
                f"intensity {restarts}/{period_s:g}: restarts 0..10000, seconds above 0 and up to 86400"
            )
        return faults

    def _turn_faults(self, turn_timeout_s: float) -> list[str]:
        faults = []
        if not 1 <= turn_timeout_s <= MAX_TURN_S:
            faults.append(f"turn_timeout_s {turn_timeout_s}: 1 to {MAX_TURN_S:g} seconds")
        if self.type == "supervisor":
            faults.append("turn_timeout_s: a supervisor takes no turns, leave it out")
        return faults

    def named(self, name: str, workspace: str) -> ProcessSpec:
        """The same child under another name. It shares all else with this one: of thousands of replicas each costs
        little more than its name.
        """
        values = (name, *_before_workspace(self), workspace, *_behind_workspace(self))
        return ProcessSpec(*values)

    def is_like(self, other: ProcessSpec) -> bool:
        """Whether one was made of the other by :meth:`named`, as far as can be seen at a glance."""
        return all(map(is_, _but_for_its_names(self), _but_for_its_names(other)))

    def made(self, name: str, workspace: str, config: dict[str, Any]) -> ProcessSpec:
        """A child of this template, with its own name, workspace and what it adds to the configuration."""
        return replace(self, name=name, workspace=workspace, config=merged(self.config, config))

    def is_of(self, template: ProcessSpec) -> bool:
        """Whether it is a child of that template."""
        return replace(self, name="", workspace="", config={}) == replace(template, config={})

    def to_json(self) -> str:
        """Canonical JSON text."""
        return _LIKE_THE_LAST.text(self)

    def _text(self) -> str:
        return json.dumps(self._told(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def _told(self) -> dict[str, Any]:
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        told["template"] = None if self.template is None else self.template._told()
        told["budget"] = None if self.budget is None else self.budget.told()
        told["mailbox"] = None if self.mailbox is None else self.mailbox.told()
        return {**told, "capabilities": self.capabilities.told()}

    @classmethod
    def from_json(cls, text: str) -> ProcessSpec:
        """Read what :meth:`to_json` wrote. Raises :class:`Invalid`; unknown fields are refused."""
        return _read_once(text)


_FIELDS = frozenset(item.name for item in fields(ProcessSpec))
_OTHERS = [item.name for item in fields(ProcessSpec) if item.name not in ("name", "workspace")]
_before_workspace = attrgetter(*[item.name for item in fields(ProcessSpec)][1:6])
_behind_workspace = attrgetter(*[item.name for item in fields(ProcessSpec)][7:])
_but_for_its_names = attrgetter(*_OTHERS)


class _LikeTheLast:
    """Specs that differ in name and workspace alone, as replicas do, follow one another by the thousand: their texts
    differ in two places, and what is read of such a text shares all else with the one before it.
    """

    def __init__(self) -> None:
        self._told: tuple[tuple[Any, ...], str, str] | None = None
        self._read: tuple[str, str, ProcessSpec] | None = None

    def text(self, spec: ProcessSpec) -> str:
        """The JSON of ``spec``."""
        others = _but_for_its_names(spec)
        if self._told is None or not all(map(is_, others, self._told[0])):
            text = spec._text()
            parts = _parts_of(spec, text)
            self._told = None if parts is None else (others, parts[0], parts[2])
            return text
        _, head, middle = self._told
        return _whole(head, spec.name, middle, spec.workspace)

    def spec(self, text: str) -> ProcessSpec:
        """What that JSON says. Raises :class:`Invalid`."""
        parts = _parts(text)
        if parts is None:
            return _read(text)
        head, name, middle, workspace = parts
        if self._read is None or self._read[:2] != (head, middle):
            spec = _read(text)
            self._read = (head, middle, spec) if _parts_of(spec, text) and spec._text() == text else None
            return spec
        return self._read[2].named(name, workspace)


_NAME, _WORKSPACE, _END = ',"name":"', ',"workspace":"', '"}'


def _parts(text: str) -> tuple[str, str, str, str] | None:
    """A canonical text as what stands before its name, the name, what stands between, and the workspace; None where
    that cannot be told by looking at it. A quote in a string has a backslash before it, so that ``,"`` is in none.
    """
    head, at_name, behind = text.rpartition(_NAME)
    name, quote, rest = behind.partition('"')
    middle, at_workspace, workspace = rest.rpartition(_WORKSPACE)
    if not (at_name and quote and at_workspace and workspace.endswith(_END)):
        return None
    workspace = workspace[: -len(_END)]
    own = name + workspace
    if "\\" in own or '"' in own or not own.isprintable():
        return None
    return head, name, middle, workspace


def _parts_of(spec: ProcessSpec, text: str) -> tuple[str, str, str, str] | None:
    """The same, where the name and the workspace are those of ``spec``: a template has some of its own."""
    parts = _parts(text)
    own = parts is not None and (parts[1], parts[3]) == (spec.name, spec.workspace)
    return parts if own and spec.template is None else None


def _whole(head: str, name: str, middle: str, workspace: str) -> str:
    """What :func:`_parts` takes apart."""
    return f"{head}{_NAME[:-1]}{_quoted(name)}{middle}{_WORKSPACE[:-1]}{_quoted(workspace)}}}"


_AS_IT_IS = re.compile(r"[ !#-\[\]-~]*").fullmatch


def _quoted(text: str) -> str:
    return f'"{text}"' if _AS_IT_IS(text) else json.dumps(text, ensure_ascii=False)


_LIKE_THE_LAST = _LikeTheLast()


# An entry is read thrice: when it is checked, with all of its unit, and then by those who hear it.
@lru_cache(maxsize=64)
def _read_once(text: str) -> ProcessSpec:
    return _LIKE_THE_LAST.spec(text)


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
    if type(data.get("turn_timeout_s")) not in (type(None), int, float):
        raise Invalid("process spec: turn_timeout_s must be seconds")
    data["tools"] = tuple(data["tools"])
    data["capabilities"] = read_capabilities(data.get("capabilities", {}))
    data["intensity"] = (int(data["intensity"][0]), float(data["intensity"][1]))
    if data.get("budget") is not None:
        data["budget"] = read_budget(data["budget"])
    if data.get("mailbox") is not None:
        data["mailbox"] = read_mailbox(data["mailbox"])
    if data.get("template") is not None:
        data["template"] = _made_of(data["template"])
    return ProcessSpec(**data)


def _is_time(value: object) -> bool:
    return value is None or value == "infinity" or type(value) in (int, float)


def _may_take(shutdown_s: ShutdownS) -> bool:
    return shutdown_s == "infinity" or 0 <= shutdown_s <= MAX_SHUTDOWN_S
