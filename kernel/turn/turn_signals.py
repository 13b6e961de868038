"""What turns say."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.signals import Signal


@dataclass(frozen=True, slots=True)
class SessionRead(Signal):
    """A turn was handed what its session holds."""

    address: str
    session: str


@dataclass(frozen=True, slots=True)
class TurnDrained(Signal):
    """The last turn of an ending process is over."""

    pid: int
