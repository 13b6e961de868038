"""What has to be done so that what is there becomes what an application declares. Values in, values out.

An application is the supervisor ``/user/NAME`` and what it declared below that. What it made bears its mark; whatever
else is there is left alone: a slot of somebody else at a declared address, or below what is to go, is a fault, and then
nothing is done. What an agent made below itself is the agent's, and goes with it.

A declared slot that is there and differs is *changed* where its fields can change while it runs, and *replaced*
otherwise: removed with all below it and made anew, which forgets its conversations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Literal

from kernel.budget.changed import change_in_words, less, may_change
from kernel.model.address import parent
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Budget, Resource

Action = Literal["remove", "replace", "change", "start", "add"]


@dataclass(frozen=True, slots=True)
class Present:
    """A slot that is there. ``app``: the application that made it, empty for none; ``agents``: an agent made it, or it
    is below one; ``down``: it waits for somebody to start it, as it is ``state``; ``dynamic``: made of a template;
    ``in_use``: of each line of its account what that cannot fall below.
    """

    address: str
    spec: ProcessSpec
    app: str = ""
    agents: bool = False
    down: bool = False
    state: str = "running"
    dynamic: bool = False
    in_use: Mapping[Resource, int] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """One thing to do at ``address``. ``fields``: those that differ; ``why``: in words, where they do not say it.
    ``budget``: what it has by then, where that is one of the fields: what takes is done before what gives. Treat as
    frozen; it is not, because one is made for each of thousands of replicas.
    """

    action: Action
    address: str
    fields: tuple[str, ...] = ()
    why: str = ""
    budget: Budget | None = None


class Plan:
    """Of one application. First it is told what is wanted, then what is there, each parents before children; then
    ``faults``, or :meth:`takes_away`, :meth:`changes` and ``makes``, in this order.

    It is asked for and told a little at a time, so that whoever does so can do other things in between.
    """

    def __init__(self, app: str, at_run_time: Collection[str] = ()) -> None:
        self.faults: list[str] = []
        self._changes: list[tuple[int, Step]] = []
        self._takes: list[Step] = []
        self._gives: list[Step] = []
        self.makes: dict[str, Step] = {}
        self.grows: Counter[str] = Counter()
        """By how many children each process will have more, or fewer."""
        self._app = app
        self._at_run_time = frozenset(at_run_time)
        self._wanted: dict[str, ProcessSpec] = {}
        self._going: dict[str, Step | None] = {}  # None: it goes with what is above it

    def want(self, address: str, spec: ProcessSpec) -> None:
        """It is to be there."""
        if address in self._wanted:
            self.faults.append(f"{address} is declared twice")
        self._wanted[address] = spec
        self.makes[address] = Step("add", address)
        self.grows[parent(address)] += 1

    def see(self, slot: Present) -> None:
        """It is there."""
        wanted, above = self._wanted.get(slot.address), parent(slot.address)
        if above in self._going:
            self._goes_along(slot, above, wanted is not None)
        elif slot.app != self._app:
            if wanted is not None:
                self.faults.append(f"{slot.address} is there, and application {self._app} did not make it")
        elif wanted is None:
            self._going[slot.address] = Step("remove", slot.address, why="it is not declared")
        else:
            self._compare(slot, wanted)
        if wanted is not None or slot.address in self._going:
            self.grows[above] -= 1

    def _goes_along(self, slot: Present, above: str, wanted: bool) -> None:
        self._going[slot.address] = None
        if slot.app != self._app and not slot.agents:
            self.faults.append(
                f"{slot.address} would go with {above}, and application {self._app} did not make it"
            )
        elif wanted:
            self.makes[slot.address] = Step("replace", slot.address, why=f"it goes with {above}")

    def _compare(self, slot: Present, wanted: ProcessSpec) -> None:
        differing = differences(wanted, slot.spec)
        if not self._at_run_time.issuperset(differing) or _stays(slot, wanted, differing):
            self._going[slot.address] = self.makes[slot.address] = Step("replace", slot.address, differing)
            return
        others = tuple(name for name in differing if name != "budget")
        if others:
            self._changes.append((_turn(wanted, others), Step("change", slot.address, others)))
        if "budget" in differing:
            self._reckon(slot, wanted.budget)
        if slot.down:
            self.makes[slot.address] = Step("start", slot.address, why=f"it is {slot.state}")
        else:
            del self.makes[slot.address]

    def _reckon(self, slot: Present, wanted: Budget | None) -> None:
        """First what its budget has less, then what it has more."""
        before, between = slot.spec.budget, less(slot.spec.budget, wanted)
        if between != before:
            why = change_in_words(before, between, slot.in_use)
            self._takes.append(Step("change", slot.address, ("budget",), why, between))
        if between != wanted:
            why = change_in_words(between, wanted, slot.in_use)
            self._gives.append(Step("change", slot.address, ("budget",), why, wanted))

    def takes_away(self) -> Iterator[Step]:
        """What goes, each with all below it, the last that was made first."""
        return (step for step in reversed(self._going.values()) if step is not None)

    def changes(self) -> list[Step]:
        """What is changed while it is there. A child that is significant no more goes before the supervisor that is to
        end with none, and one that becomes it behind the supervisor that is to. What budgets have less comes back from
        below to those above, and from there goes what they have more.
        """
        others = [step for _, step in sorted(self._changes, key=lambda change: change[0])]
        return [*self._takes[::-1], *others, *self._gives]

    def steps(self) -> Iterator[Step]:
        """All of them, as a person is told: what is taken away, changed, and made, started or replaced."""
        yield from (step for step in self.takes_away() if step.action == "remove")
        yield from self.changes()
        yield from self.makes.values()


def _stays(slot: Present, wanted: ProcessSpec, differing: Collection[str]) -> bool:
    """Whether its supervisor would not take another spec of it: it has one for all its children, or would have to keep
    a temporary one that does not run. Whether a supervisor makes its children of a template stays, too, and a budget of
    what is measured is for what is made with it.
    """
    temporary = "restart" in differing and wanted.restart == "temporary"
    made_of = "template" in differing and None in (wanted.template, slot.spec.template)
    measured = "budget" in differing and not may_change(slot.spec.budget, wanted.budget)
    return bool(differing) and (
        slot.dynamic or made_of or measured or (temporary and slot.state != "running")
    )


def _turn(wanted: ProcessSpec, differing: Collection[str]) -> int:
    if "significant" not in differing:
        return 1
    return 2 if wanted.significant else 0


def differences(wanted: ProcessSpec, there: ProcessSpec) -> tuple[str, ...]:
    """The fields in which two specs differ, as a spawn names them."""
    differing = [
        item.name for item in fields(wanted) if getattr(wanted, item.name) != getattr(there, item.name)
    ]
    if "config" not in differing:
        return tuple(differing)
    names = sorted({*wanted.config, *there.config})
    own = [name for name in names if wanted.config.get(name) != there.config.get(name)]
    return tuple(name for name in differing if name != "config") + tuple(own)


@dataclass(frozen=True, slots=True)
class Group:
    """Steps that follow one another and are alike, as they are told: the first and last address, and how many."""

    action: Action
    address: str
    last: str
    count: int
    fields: tuple[str, ...]
    why: str


def grouped(steps: Iterable[Step], before: Sequence[Group] = ()) -> list[Group]:
    """The groups of ``before``, and of the ``steps`` that follow them: those that do the same to replicas of one entry,
    whose names differ by a number.
    """
    groups = list(before)
    for alike, some in groupby(steps, _alike):
        row = [*some]
        if not alike[0]:
            groups += [_group([step]) for step in row]
        elif groups and _alike(groups[-1]) == alike:
            groups[-1] = replace(groups[-1], last=row[-1].address, count=groups[-1].count + len(row))
        else:
            groups.append(_group(row))
    return groups


def _alike(of: Step | Group) -> tuple[str, Action, tuple[str, ...], str]:
    """What those of one group have in common; the first of it is empty for what is in a group by itself."""
    return _entry(of.address), of.action, of.fields, of.why


def _group(row: Sequence[Step]) -> Group:
    first = row[0]
    return Group(first.action, first.address, row[-1].address, len(row), first.fields, first.why)


def _entry(address: str) -> str:
    """The address of a replica without its number; empty for what has none."""
    stem, dash, number = address.rpartition("-")
    return stem if dash and number.isdecimal() else ""
