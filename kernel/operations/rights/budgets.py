"""Budgets: what a process, and all below it, may use up; and the operations on their accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, TypedDict, get_args

from kernel.operations.operation import Limit, Nothing, Noun, OfTarget, Operation
from kernel.operations.rights.money import Money, in_units, millionths

_SAID = {
    "money": "units of money",
    "cpu_ms": "ms of processor time",
    "memory_bytes": "bytes of memory",
}
OnExhausted = Literal["wrap_up", "refuse", "pause", "stop"]
Resource = Literal["tool_calls", "messages", "tokens", "money", "time_ms", "cpu_ms", "memory_bytes"]
MOST = 2**53
PAUSED_BY = "budget"
"""Who has suspended a process whose budget says ``pause``."""
Amount = Annotated[int, Limit(ge=1, le=MOST, strict=True)]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a process and all below it may use, in its whole life, whatever its restarts; None: as much as what is above
    it may. ``tool_calls`` that are allowed, ``messages`` that are sent, ``tokens`` of models, read and written, the
    ``money`` that those cost (text, "0.25", in the unit of the node's prices), ``time_ms`` that its turns take, and
    ``cpu_ms`` of processor time and ``memory_bytes``, at once, of its cell, which has to be its own (``isolation``
    dedicated).
    ``then``, when one of them is used up: ``wrap_up`` (no tool any more, and one last answer of a model in each turn,
    as far as its tokens and money go), ``refuse`` what would use more, ``pause`` it besides until a person gives more,
    or ``stop`` it.
    """

    _: KW_ONLY
    tool_calls: Amount | None = None
    messages: Amount | None = None
    tokens: Amount | None = None
    money: Money | None = None
    time_ms: Amount | None = None
    cpu_ms: Amount | None = None
    memory_bytes: Amount | None = None
    then: OnExhausted = "wrap_up"
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # where it is part of another request

    def amounts(self) -> dict[Resource, int]:
        """Those that are limited; money in millionths."""
        said = self._said()
        return {name: millionths(amount) if name == "money" else amount for name, amount in said.items()}

    def _said(self) -> dict[Resource, Any]:
        every = ((name, getattr(self, name)) for name in get_args(Resource))
        return {name: amount for name, amount in every if amount is not None}

    def check(self) -> list[str]:
        """Every fault at once, empty when there is none."""
        said = self._said()
        faults = [
            f"budget: {name} is {amount!r}, must be a whole number from 1 to 2**53"
            for name, amount in said.items()
            if name != "money" and (type(amount) is not int or not 0 < amount <= MOST)
        ]
        if self.money is not None:
            faults += _money_faults(self.money)
        if self.then not in get_args(OnExhausted):
            faults.append(f"budget: then is {self.then!r}, none of {', '.join(get_args(OnExhausted))}")
        if not said:
            faults.append(f"budget: it limits nothing; there are {', '.join(get_args(Resource))}")
        return faults

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**{str(name): amount for name, amount in self._said().items()}, "then": self.then}


def _money_faults(money: object) -> list[str]:
    try:
        return [] if millionths(money) else ["budget: money is 0, must be more"]
    except ValueError as fault:
        return [f"budget: money: {fault}"]


def shown(resource: Resource, amount: int) -> str:
    """So much of a resource, as people read it: money in its unit."""
    return in_units(amount) if resource == "money" else str(amount)


def said_of(resource: Resource) -> str:
    """A resource as it is named behind an amount of it."""
    return _SAID.get(resource, resource.replace("_", " "))


def read_budget(value: object) -> Budget:
    """What :meth:`Budget.told` gave, or somebody says it did. Raises ValueError that names the field."""
    names = (*get_args(Resource), "then")
    if not isinstance(value, Mapping):
        raise ValueError("a budget is a map")
    if unknown := sorted(set(map(str, value)) - set(names)):
        raise ValueError(f"budget: no field {unknown[0][:40]!r}; there are {', '.join(names)}")
    read = Budget(**value)
    if faults := read.check():
        raise ValueError("; ".join(faults))
    return read


@dataclass(frozen=True, slots=True)
class Grant(OfTarget):
    """``amount`` more of a ``resource``, for a process that has a budget of it; of money, in millionths."""

    resource: Resource
    amount: Amount


class AccountLine(TypedDict):
    """``granted`` = ``spent`` + ``reserved`` (for questions that are not answered yet) + ``handed`` (to processes below
    it that have budgets of their own) + ``left``, which is below 0 when a model has used more than was foreseen. Money
    is in millionths.
    ``account``: the address that it belongs to, the process itself or one above it; ``then``: what is done when it is
    used up.
    """

    account: str
    resource: str
    granted: int
    spent: int
    reserved: int
    handed: int
    left: int
    then: str


AccountLines = list[AccountLine]


class CapRow(TypedDict):
    """What questions of a ``scope`` (``sender NAME``, ``tier NAME``) have cost ``today`` and this ``month``, or may
    cost while they are under way, and what they may (``daily``, ``monthly``, None for any amount); in millionths of the
    unit of money. Days and months are UTC.
    """

    scope: str
    today: int
    daily: int | None
    month: int
    monthly: int | None


class Budgets(Noun):
    """What processes may use up."""

    show = Operation(
        "GET",
        "/budget",
        OfTarget,
        AccountLines,
        "The accounts that what a process uses comes out of, its own or those above it; none: it has no limit.",
    )
    caps = Operation(
        "GET",
        "/budget/caps",
        Nothing,
        list[CapRow],
        "What counts towards caps of cost, those first of which most is used; at most 200.",
    )
    grant = Operation(
        "POST",
        "/budget/grant",
        Grant,
        AccountLines,
        "Give a process more of what it has a budget of; it comes out of the account above it, where there is one.",
        recorded="grant",
    )
