"""What a supervisor is asked and told, and what it has done: the events and effects of its reducer."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.model.states import SHUTDOWN, SlotState
from kernel.supervision.specs import ChildSpec, Flags


@dataclass(frozen=True, slots=True)
class Add:
    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class Started:
    id: str
    pid: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    id: str
    reason: str
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class Exited:
    id: str
    pid: int
    reason: str
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class RestartDue:
    id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """``why`` in words; ``cause``: seq of the entry of who asked, -1 for nobody who has one; ``reason``: an orderly
    one.
    """

    id: str
    why: str = ""
    cause: int = -1
    reason: str = SHUTDOWN


@dataclass(frozen=True, slots=True)
class Start:
    id: str


@dataclass(frozen=True, slots=True)
class Restart:
    """End the child, and start it again: asked for, so it is charged to nobody. ``why`` and ``cause`` as of a stop."""

    id: str
    why: str = ""
    cause: int = -1


@dataclass(frozen=True, slots=True)
class Remove:
    id: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    reason: str = SHUTDOWN


@dataclass(frozen=True, slots=True)
class ChangeSpec:
    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    flags: Flags


Event = (
    Add
    | Started
    | StartFailed
    | Exited
    | RestartDue
    | Stop
    | Start
    | Restart
    | Remove
    | Shutdown
    | ChangeSpec
    | ChangeFlags
)


@dataclass(frozen=True, slots=True)
class StartChild:
    id: str


@dataclass(frozen=True, slots=True)
class StartChildAfter:
    id: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class StopChild:
    id: str
    reason: str
    timeout_s: float
    why: str = ""
    cause: int = -1


@dataclass(frozen=True, slots=True)
class SlotChanged:
    id: str
    state: SlotState
    why: str
    cause: int = -1


@dataclass(frozen=True, slots=True)
class Dropped:
    id: str
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


Effect = StartChild | StartChildAfter | StopChild | SlotChanged | Dropped | GiveUp
