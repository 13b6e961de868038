"""Operations on applications: a tree of processes that is declared, and made so.

What is declared of a process is what a spawn says of it (:class:`kernel.operations.spawning.SpawnRequest`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal, TypedDict

from kernel.operations.operation import Limit, Name, Noun, OnWire, Operation, Why
from kernel.operations.spawning import USER, NotStarted, SpawnRequest

MOST_DECLARED = 1_000
"""Entries of one application."""
MOST_REPLICAS = 100_000
"""Processes that all entries of one application stand for."""
MOST_TOLD = 1_000
"""Steps that an answer lists; those of replicas are one."""
APPLY_S = 900.0
"""What the node may take to make, or take away, many thousands."""
PLACED = ("under", "on", "supervisor")
"""Fields of a spawn that an entry does not say: where it stands says them."""


@dataclass(frozen=True, slots=True)
class DeclaredSpawn(SpawnRequest):
    """A process as it is to be, or with ``replicas`` so many of it, of the names NAME-1 to NAME-replicas."""

    _: KW_ONLY
    replicas: Annotated[int, Limit(ge=0, le=MOST_REPLICAS)] | None = None

    @property
    def address(self) -> str:
        """Where it is to be, or its replicas without their numbers."""
        return f"{self.under}/{self.name}"

    def check(self) -> list[str]:
        """As of a spawn."""
        faults = SpawnRequest.check(self)
        if self.on:
            faults.append(f"on {self.on}: an application is of this node")
        if self.supervisor and self.replicas is not None:
            faults.append("a supervisor has no replicas: leave them out")
        return faults


@dataclass(frozen=True, slots=True)
class OwnCode:
    """A tool or a behaviour that the application brings: it has to be configured on the node just so."""

    kind: Literal["tool", "behaviour"]
    name: str
    import_string: str
    python_path: Annotated[Sequence[str], OnWire(Annotated[tuple[str, ...], Limit(max_length=32)])] = ()
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # it is part of another request


@dataclass(frozen=True, slots=True)
class Declaration:
    """An application. The first of ``spawns`` is its own supervisor, ``/user/NAME``; each of the others is below one
    that stands before it. ``code``: what it needs beside what every node has. ``why``: what the record of
    an apply is to say.
    """

    name: str
    spawns: Annotated[
        Sequence[DeclaredSpawn],
        OnWire(Annotated[tuple[DeclaredSpawn, ...], Limit(min_length=1, max_length=MOST_DECLARED)]),
    ]
    _: KW_ONLY
    code: Annotated[
        Sequence[OwnCode], OnWire(Annotated[tuple[OwnCode, ...], Limit(max_length=MOST_DECLARED)])
    ] = ()
    why: Why = ""

    def check(self) -> list[str]:
        """Every fault that can be seen without knowing the node."""
        faults = [f"{each.address}: {fault}" for each in self.spawns for fault in each.check()]
        if not self.spawns or not 0 <= sum(each.replicas or 1 for each in self.spawns) <= MOST_REPLICAS:
            faults.append(f"an application has 1 to {MOST_REPLICAS} processes")
            return faults
        root, *others = self.spawns
        if (root.name, root.under, root.supervisor) != (self.name, USER, True):
            faults.append(f"the first entry must be the supervisor {self.name} below {USER}")
        above = {root.address} if root.supervisor else set()
        for each in others:
            if each.under not in above:
                faults.append(f"{each.address}: no supervisor {each.under} stands before it")
            if each.supervisor:
                above.add(each.address)
        return faults


@dataclass(frozen=True, slots=True)
class OfApplication:
    """One that was applied, by its name. ``why``: what the record of it is to say."""

    name: Name
    _: KW_ONLY
    why: Why = ""


class StepRow(TypedDict):
    """``action``: remove, replace, change, start or add; for ``count`` processes that follow one another, ``address``
    being the first and ``last`` the last of them. ``fields``: what differs; ``why``: in words."""

    action: str
    address: str
    last: str
    count: int
    fields: list[str]
    why: str


class FaultRow(TypedDict):
    """``entry``: which of ``spawns`` it is about, -1 for none of them."""

    entry: int
    why: str


class Planned(TypedDict):
    """The first of ``steps`` that an apply would take, ``counts`` of all by their actions. With ``faults`` it would
    take none.
    """

    name: str
    steps: list[StepRow]
    counts: dict[str, int]
    faults: list[FaultRow]


class Applied(TypedDict):
    """The first of the ``steps`` that were taken, ``counts`` of all by their actions. ``failed``: the first of those
    processes that do not run, of ``not_running``.
    """

    name: str
    steps: list[StepRow]
    counts: dict[str, int]
    failed: list[NotStarted]
    not_running: int


class Deleted(TypedDict):
    """``removed``: how many slots went."""

    name: str
    removed: int


class Applications(Noun):
    """Declared trees of processes."""

    plan = Operation(
        "POST",
        "/applications/plan",
        Declaration,
        Planned,
        "What an apply would do, and every fault that speaks against it; nothing is done.",
        takes_s=APPLY_S,
    )
    apply = Operation(
        "POST",
        "/applications/apply",
        Declaration,
        Applied,
        "Make the processes of an application what it declares: start what is missing, stop what is declared no more, "
        "change or replace what differs. Cut off, it is finished by the next.",
        recorded="apply",
        takes_s=APPLY_S,
    )
    delete = Operation(
        "POST",
        "/applications/delete",
        OfApplication,
        Deleted,
        "Stop an application and remove all its processes.",
        recorded="delete",
        takes_s=APPLY_S,
    )
