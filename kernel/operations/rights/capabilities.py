"""The capabilities that a process is spawned with, beside its tools.

A field that is None is left to what is above the process: it has what its parent has, or everything when no agent is
above it. What the words mean for parent and child is said in :mod:`kernel.model.capability`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, Literal, get_args

from kernel.operations.operation import Limit

MessageScope = Literal["all", "subtree", "children", "parent", "listed", "none"]
MemoryScope = Literal["own", "shared"]
MOST_PATTERNS = 100
PATTERN_CHARS = 256

Patterns = Annotated[
    tuple[Annotated[str, Limit(min_length=1, max_length=PATTERN_CHARS)], ...], Limit(max_length=MOST_PATTERNS)
]
"""Names in which ``*`` stands for any characters, and ``?`` for one."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a process may do. ``deny``: tools that it may not use, whatever its tools are. ``messages``: to whom it may
    speak, and whom it may watch: ``all``; its ``subtree``, all below it; its ``children``; its ``parent``; those
    ``listed``, addresses or ADDRESS@NODE; or ``none``. ``spawn``: whether it makes children. ``topics`` that it
    publishes to and hears. ``memory``: documents that it reads and writes: its ``own``, with those above it, and those
    ``shared`` with all. ``paths``: what of its workspace its file tools see, each with all below. ``network``: hosts
    that the tools it uses may declare to speak to; what a tool really does is its sandbox's to bound. ``behaviours``
    that it may give the children it makes, beside its own, and ``dedicated``: whether it may give them cells of their
    own when it has none itself. Of these two nobody has more than is said, whoever is above.
    """

    _: KW_ONLY
    deny: Patterns = ()
    messages: MessageScope | None = None
    listed: Patterns | None = None
    spawn: bool | None = None
    topics: Patterns | None = None
    memory: tuple[MemoryScope, ...] | None = None
    paths: Patterns | None = None
    network: Patterns | None = None
    behaviours: Patterns | None = None
    dedicated: bool | None = None
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # where it is part of another request

    def check(self) -> list[str]:
        """Every fault at once, empty when there is none."""
        faults = []
        if self.messages not in (None, *get_args(MessageScope)):
            faults.append(f"messages {self.messages!r} is none of {', '.join(get_args(MessageScope))}")
        if (self.messages == "listed") != (self.listed is not None):
            faults.append("listed goes with messages=listed, and that with it: give both or neither")
        faults += [
            f"memory {each!r} is none of {', '.join(get_args(MemoryScope))}"
            for each in self.memory or ()
            if each not in get_args(MemoryScope)
        ]
        for name in OF_PATTERNS:
            faults += _pattern_faults(name, getattr(self, name) or ())
        faults += [
            f"paths {each!r} leads out of the workspace: give a path below it"
            for each in self.paths or ()
            if each.startswith("/") or ".." in each.split("/")
        ]
        return faults + host_faults(self.network or ())

    def told(self) -> dict[str, Any]:
        """The fields that say something, as JSON has them."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value not in (None, ()) or (name != "deny" and value == ())
        }


OF_PATTERNS = ("deny", "listed", "topics", "paths", "behaviours")
UNRESTRICTED = Capabilities()
_HOST = re.compile(r"[a-z0-9._*?-]{1,253}|[0-9a-f:.*?]{2,45}").fullmatch
_PORT = re.compile(r"[^:]*:[^:]*").fullmatch


def host_faults(hosts: tuple[str, ...]) -> list[str]:
    """What is no list of hosts, as ``network`` has them in a capability and in the declaration of a tool."""
    if len(hosts) > MOST_PATTERNS:
        return [f"network has {len(hosts)} hosts, at most {MOST_PATTERNS} are allowed"]
    return [
        f"network {each[:80]!r} is no host: give a name or an address in lower case, without scheme, port and path; "
        "* and ? stand for any"
        for each in hosts
        if not _HOST(each) or _PORT(each)
    ]


def _pattern_faults(name: str, patterns: tuple[str, ...]) -> list[str]:
    faults = []
    if len(patterns) > MOST_PATTERNS:
        faults.append(f"{name} has {len(patterns)} patterns, at most {MOST_PATTERNS} are allowed")
    faults += [
        f"{name} {each[:80]!r}: 1 to {PATTERN_CHARS} printable characters, * and ? for any, and no ["
        for each in patterns
        if not 0 < len(each) <= PATTERN_CHARS or "[" in each or not each.isprintable()
    ]
    return faults


def read_capabilities(value: object) -> Capabilities:
    """What :meth:`Capabilities.told` gave, or somebody says it did. Raises ValueError that names the field."""
    if not isinstance(value, dict):
        raise ValueError("capabilities are a map")
    if not value:
        return UNRESTRICTED
    if unknown := sorted(set(map(str, value)) - _READERS.keys()):
        raise ValueError(f"capabilities: no field {unknown[0][:40]!r}; there are {', '.join(_READERS)}")
    read = Capabilities(**{name: _READERS[name](name, given) for name, given in value.items()})
    if faults := read.check():
        raise ValueError(f"capabilities: {'; '.join(faults)}")
    return read


def _texts(name: str, value: object) -> tuple[str, ...] | None:
    if value is None and name != "deny":
        return None
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"capabilities: {name} is a list of texts")
    return tuple(value)


def _scope(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"capabilities: {name} is a text")


def _truth(name: str, value: object) -> bool | None:
    if value is None or type(value) is bool:
        return value
    raise ValueError(f"capabilities: {name} is true or false")


_READERS: Mapping[str, Callable[[str, object], Any]] = {
    "deny": _texts,
    "messages": _scope,
    "listed": _texts,
    "spawn": _truth,
    "topics": _texts,
    "memory": _texts,
    "paths": _texts,
    "network": _texts,
    "behaviours": _texts,
    "dedicated": _truth,
}
