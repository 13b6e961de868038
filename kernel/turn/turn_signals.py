"""What turns say."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.operations.rights.budgets import Resource
from kernel.signals import Signal


@dataclass(frozen=True, slots=True)
class SessionRead(Signal):
    """A turn was handed what its session holds."""

    address: str
    session: str


@dataclass(frozen=True, slots=True)
class TimeOver(Signal):
    """A turn has taken all the time that it may: ``why``, in words. Nothing more is begun for it."""

    turn: str
    why: str


@dataclass(frozen=True, slots=True)
class TurnDrained(Signal):
    """The last turn of an ending process is over."""

    pid: int


@dataclass(frozen=True, slots=True)
class TurnDiverged(Signal):
    """The turn that a process would go on with is parked, as the entry ``cause`` says; the process is not to wait."""

    address: str
    why: str
    cause: int


@dataclass(frozen=True, slots=True)
class BudgetsDue(Signal):
    """So much of a budget is spent that somebody has to be told."""


@dataclass(frozen=True, slots=True)
class BudgetShort(Signal):
    """What is left of the tokens or the money of an account was too little for a question."""

    address: str
    resource: Resource
