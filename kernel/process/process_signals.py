"""What the process tree says."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.process.live import LiveProcess
from kernel.signals import Signal
from kernel.slices.tree.slots import Slot


@dataclass(frozen=True, slots=True)
class SlotWritten(Signal):
    """A new slot was written: its process is to begin."""

    address: str


@dataclass(frozen=True, slots=True)
class SlotWoken(Signal):
    """A slot that was stopped is written as running: its process is to begin."""

    address: str


@dataclass(frozen=True, slots=True)
class ProcessRunning(Signal):
    """A process at ``address`` takes turns from now on."""

    address: str


@dataclass(frozen=True, slots=True)
class ProcessExited(Signal):
    """A process has ended, on record or about to be. ``started`` is False when it never ran, ``batch`` the cell
    with whose death it was lost, None for any other end.
    """

    process: LiveProcess
    reason: str
    detail: str
    started: bool
    batch: str | None


@dataclass(frozen=True, slots=True)
class AddressDown(Signal):
    """Nothing runs at ``address`` any more until somebody starts it: its mail is dead."""

    address: str
    why: str


@dataclass(frozen=True, slots=True)
class SlotGone(Signal):
    """``slot`` is no more, and that is written."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class SlotGoing(Signal):
    """A slot is to go with all that is of it, ``why`` in few words."""

    slot: Slot
    why: str


@dataclass(frozen=True, slots=True)
class PidsReserved(Signal):
    """Another block of PIDs is in use."""

    upto: int
