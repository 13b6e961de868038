"""Operations on policy: what it says, and why."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import Limit, Noun, OfTarget, Operation

User = Annotated[str, Limit(max_length=200)]


@dataclass(frozen=True, slots=True)
class Explain(OfTarget):
    """``tool`` by its name. ``user``: for whom, as ``CHANNEL:USER``; empty for a person who speaks to the node."""

    tool: Annotated[str, Limit(min_length=1, max_length=64)]
    _: KW_ONLY
    user: User = ""


@dataclass(frozen=True, slots=True)
class Tools(OfTarget):
    """``user`` as of :class:`Explain`."""

    _: KW_ONLY
    user: User = ""


class Rule(TypedDict):
    """What one rule says. ``rule``: tools, deny, access, or the name of a gate."""

    rule: str
    decision: str
    reasons: list[str]


class Explained(TypedDict):
    """The ``decision`` (allow, deny, escalate) on a call of ``tool`` by the process, in a turn that a person asked for,
    and every rule that said something. What a rule says of the arguments of a call is not in it.
    """

    address: str
    tool: str
    decision: str
    rules: list[Rule]


class ToolRow(TypedDict):
    """What is decided on a call of a tool, by which ``rules``, and why. ``effects``: as the tool declares them."""

    tool: str
    decision: str
    rules: list[str]
    why: str
    effects: str


class ToolList(TypedDict):
    """All tools of the node as the process has them, by their names."""

    address: str
    tools: list[ToolRow]


class Policy(Noun):
    """What may be done, and why not."""

    explain = Operation(
        "GET",
        "/policy/explain",
        Explain,
        Explained,
        "Which rules allow a process a tool, or deny it.",
    )
    tools = Operation(
        "GET",
        "/policy/tools",
        Tools,
        ToolList,
        "Every tool of the node: whether a process may use it, and which rule says no.",
    )
