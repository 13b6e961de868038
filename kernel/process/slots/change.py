"""What a slot's spec, and its supervisor's flags, are changed to while it is there. Decides; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.budget.account import Book
from kernel.budget.changed import relined
from kernel.errors import Invalid, NotFound, SupervisionError
from kernel.model.address import USER, name_of
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import PAUSED_BY, Resource
from kernel.process.live import Supervisors
from kernel.process.slots.specs import child_spec, flags_of
from kernel.slices.tree.slots import Slot, Slots
from kernel.supervision.reducer import (
    ChangeFlags,
    ChangeSpec,
    Child,
    Event,
    Phase,
    SlotState,
    Supervisor,
    step,
)

OF_A_CHILD = ("restart", "shutdown_s", "significant", "on_logical", "turn_timeout_s", "budget", "mailbox")
OF_ITS_FLAGS = ("intensity", "strategy", "auto_shutdown", "template")
OF_ITS_TEMPLATE = {
    "child_restart": "restart",
    "child_shutdown_s": "shutdown_s",
    "on_logical": "on_logical",
    "turn_timeout_s": "turn_timeout_s",
    "mailbox": "mailbox",
}
"""What is said to a supervisor of the children that it makes of a template, and what that is of these."""


@dataclass(frozen=True, slots=True)
class Change:
    """``spec`` is what the slot at ``address`` has from then on, ``fields`` are those in which that is another, and
    ``events`` what supervisors are to be told, each by the address whose children it has. ``lines``: what its account
    has from then on, None when that stays; ``resumes``: it was paused by its budget, and is not any more.
    """

    address: str
    spec: ProcessSpec
    fields: tuple[str, ...]
    events: tuple[tuple[str, Event], ...]
    lines: Mapping[Resource, int] | None = None
    resumes: bool = False


def change_of(
    slots: Slots, supervisors: Supervisors, book: Book, address: str, fields: Mapping[str, Any]
) -> Change:
    """All of ``fields``, or none: raises Invalid, NotFound, and SupervisionError with what its supervisor says."""
    slot = slots.get(address)
    if slot is None:
        raise NotFound(f"there is no slot at {address}")
    fields = _templated(slot, fields)
    _check_fields(slot, fields)
    spec = replace(slot.spec, **fields)
    if child_spec(replace(spec, shutdown_s=None)) == child_spec(spec):
        spec = replace(spec, shutdown_s=None)  # it is what suits the type
    if faults := spec.check():
        raise SupervisionError(
            "bad_flags" if set(fields) <= {*OF_ITS_FLAGS} else "bad_spec", "; ".join(faults)
        )
    differ = tuple(name for name in fields if getattr(spec, name) != getattr(slot.spec, name))
    events: list[tuple[str, Event]] = []
    if child_spec(spec) != child_spec(slot.spec):
        events.append((slot.parent, ChangeSpec(child_spec(spec))))
    flags = flags_of(replace(slot, spec=spec))
    if flags != flags_of(slot):
        events.append((address, ChangeFlags(flags)))
    for at, event in events:
        step(supervisors.get(at) or _at_rest(slots, at, slot), event, 0.0, 0.0)
    told = tuple(each for each in events if each[0] in supervisors)
    if "budget" not in differ:
        return Change(address, spec, differ, told)
    lines = relined(book, address, slot.spec.budget, spec.budget)
    return Change(
        address, spec, differ, told, lines, slot.suspended == PAUSED_BY and _is_enough(book, address, lines)
    )


def _is_enough(book: Book, address: str, lines: Mapping[Resource, int]) -> bool:
    """Whether nothing is used up with so much granted."""
    had = book.accounts[address].lines if address in book.accounts else {}
    return all(replace(had[each], granted=most).percent < 100 for each, most in lines.items() if each in had)


def _templated(slot: Slot, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """With a whole template in the place of what is said of it."""
    template = slot.spec.template
    of_it = {OF_ITS_TEMPLATE[name]: value for name, value in fields.items() if name in OF_ITS_TEMPLATE}
    if template is None or not of_it:
        return fields
    others = {name: value for name, value in fields.items() if name not in OF_ITS_TEMPLATE}
    return {**others, "template": replace(template, **of_it)}


def _check_fields(slot: Slot, fields: Mapping[str, Any]) -> None:
    if not fields:
        raise Invalid(f"say what of {slot.address} is to be changed")
    if none := [name for name in fields if name in ("child_restart", "child_shutdown_s")]:
        raise Invalid(f"{', '.join(none)} is of a template, and {slot.address} has none")
    if unknown := [name for name in fields if name not in (*OF_A_CHILD, *OF_ITS_FLAGS)]:
        raise Invalid(f"{', '.join(unknown)} cannot be changed: stop, remove and spawn it anew")
    if slot.address == USER and set(fields) != {"intensity"}:
        raise Invalid(f"of {USER} the intensity alone can be changed")
    if slot.spec.type == "worker" and (found := [name for name in OF_ITS_FLAGS if name in fields]):
        raise Invalid(f"{', '.join(found)} belongs to a supervisor, and {slot.address} is none")


def _at_rest(slots: Slots, address: str, slot: Slot) -> Supervisor:
    """What a supervisor that does not run just now has of the children which a change is about: ``slot``, when that is
    one of them, else those whose own end may end it.
    """
    children = [slot] if slot.parent == address else slots.children(address)
    kept = {
        name_of(child.address): Child(child_spec(child.spec), order, SlotState(child.state), Phase.NONE)
        for order, child in enumerate(children)
        if child is slot or child.spec.significant
    }
    return Supervisor.having(flags_of(slots[address]), kept)
