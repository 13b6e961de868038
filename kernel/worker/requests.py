"""What the node asks of a worker process, and what that answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kernel.toolbox.rules.file_rules import FileRules


@dataclass(frozen=True, slots=True)
class ToolImport:
    """A third-party tool that the worker is to load."""

    name: str
    import_string: str
    python_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configure:
    """``configure``, the first request. ``keys``: verifier keys under which receipts are the node's; ``protected``:
    paths that the file tools show nobody; ``own_groups``: groups of which nobody is but the node's user.
    """

    keys: tuple[str, ...]
    builtin: bool
    tools: tuple[ToolImport, ...]
    protected: tuple[str, ...]
    own_groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Configured:
    """Its answer. A declaration is the word of whoever wrote the tool; ``faults`` has the tools that did not load."""

    declarations: tuple[Any, ...]
    faults: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Accept:
    """``accept``, a notice: the node signs with this key too."""

    key: str


@dataclass(frozen=True, slots=True)
class Run:
    """``run`` a call, or ``look`` at which version of its file there is. ``receipt``, ``salt`` and ``body`` prove its
    intent; a look needs none. ``files``: which of the workspace the file tools may use.
    """

    tool: str
    arguments: str
    receipt: bytes
    salt: bytes
    body: bytes
    workspace: str
    files: FileRules


@dataclass(frozen=True, slots=True)
class Probe:
    """``probe`` what became of an effect: one that ``effect_id`` names, or a write that ``replaces`` what was there. It
    changes nothing, so it needs no receipt.
    """

    tool: str
    arguments: str
    effect_id: str
    replaces: str
    workspace: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it. ``text`` is at most 1 MiB; ``hash`` (SHA-256, hex) and ``bytes`` are of all of it. ``landed``:
    what a probe says, None: unknown, and ``text`` says why.
    """

    status: Literal["ok", "error", "refused", "changed"]
    text: str
    truncated: bool
    hash: str
    bytes: int
    landed: bool | None = None
