"""What a slot says of a process and of its children, as supervision reads it."""

from __future__ import annotations

from kernel.model.address import USER
from kernel.model.spec import ProcessSpec
from kernel.slices.tree.slots import Slot
from kernel.supervision.reducer import INFINITY, ChildSpec, Flags

TERM_S = 5.0  # what a process that is ended may take for the turn it is in


def child_spec(spec: ProcessSpec) -> ChildSpec:
    """As its supervisor has it."""
    suits = INFINITY if spec.type == "supervisor" else TERM_S
    shutdown_s = suits if spec.shutdown_s is None else float(spec.shutdown_s)
    return ChildSpec(spec.name, spec.restart, shutdown_s, spec.type, spec.significant, spec.on_logical)


def flags_of(slot: Slot) -> Flags:
    """Of the supervisor of its children: a worker's, and that of ``/user``, parks what fails too often."""
    spec, (restarts, period_s) = slot.spec, slot.spec.intensity
    if spec.type == "worker" or slot.address == USER:
        return Flags(restarts, period_s, "park")
    return supervisor_flags(spec)


def supervisor_flags(spec: ProcessSpec) -> Flags:
    """Of a supervisor that a person made."""
    return Flags(
        *spec.intensity,
        strategy=spec.strategy,
        auto_shutdown=spec.auto_shutdown,
        template=None if spec.template is None else child_spec(spec.template),
    )
