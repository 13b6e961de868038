"""Capability: a tool is used, and given to a child, by who holds it; who may speak to others may watch them."""

from __future__ import annotations

from kernel.errors import CapabilityError
from kernel.model.address import is_below
from kernel.model.capability import Rights, child_of, handed_down, may_make
from kernel.model.spec import ProcessSpec
from kernel.policy.asker import Asker
from kernel.policy.proposal import (
    CancelTurn,
    Facts,
    Proposal,
    SpawnProcess,
    UseTool,
    Verdict,
    WatchProcess,
    deny,
)

SPEAKING = frozenset({"send_message", "ask"})


def capability_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """The rights in force must hold the tool; a child gets none that they, or the agent above it, do not hold."""
    asker = proposal.asker
    match proposal.operation:
        case UseTool(declaration) if asker.rights is not None and declaration.name not in asker.rights:
            return deny(
                f"capability: {declaration.name} is not among the rights of this turn ({_named(asker.rights)})"
            )
        case SpawnProcess(spec, parent):
            child = spec if spec.template is None else spec.template
            why = (
                _exceeds(asker, child.tools)
                or _exceeds_above(child, parent, facts)
                or _exceeds_code(asker, child, facts)
            )
            return deny(why, CapabilityError) if why else None
        case WatchProcess() as watch if not _may_watch(asker, watch):
            return deny(
                f"capability: a monitor needs one of {', '.join(sorted(SPEAKING))}, unless it is of a process below "
                f"its own ({_named(asker.rights or frozenset())})",
                CapabilityError,
            )
        case CancelTurn(target, sender) if asker.process and not _may_cancel(asker, target, sender):
            return deny(
                f"capability: a process cancels what is below it, and what it has sent itself; {target} is not below "
                f"{asker.process}",
                CapabilityError,
            )
    return None


def _may_cancel(asker: Asker, target: str, sender: str) -> bool:
    return is_below(target, asker.process) or sender == asker.process


def _may_watch(asker: Asker, watch: WatchProcess) -> bool:
    if asker.rights is None or asker.rights & SPEAKING:
        return True
    return bool(asker.process) and not watch.node and is_below(watch.target, asker.process)


def _exceeds(asker: Asker, tools: tuple[str, ...]) -> str:
    """Why who asks cannot give ``tools``; empty when it can."""
    if asker.rights is None:
        return ""
    excess = sorted(set(tools) - asker.rights)
    if excess and asker.name:
        return f"{asker.name} may have used here: {_named(asker.rights, 'no tool')}; not {', '.join(excess)}"
    return _refusal(Rights(asker.rights), tools)


def _exceeds_above(child: ProcessSpec, parent: str, facts: Facts) -> str:
    """Rights shrink below an agent, whoever asks: supervisors in between hold none and pass them on."""
    above = facts.state.slots.worker_above(parent)
    if above is None:
        return ""
    held, wanted = above.spec.capabilities, child.capabilities
    if handed_down(held, above.address, wanted) != wanted:
        return f"{above.address} does not hand all of its limits down to this child: please report it"
    return _refusal(Rights.of(above.spec.tools), child.tools)


def _exceeds_code(asker: Asker, child: ProcessSpec, facts: Facts) -> str:
    """An agent gives a child its own behaviour and its own kind of cell, or what its capabilities say of these."""
    slot = facts.state.slots.get(asker.process) if asker.process else None
    if slot is None:
        return ""
    own = slot.spec
    if not may_make(own.capabilities, own.behaviour, child.behaviour):
        return f"a child of {asker.process} may not be of behaviour {child.behaviour}"
    if child.isolation != own.isolation and not (
        child.isolation == "dedicated" and own.capabilities.dedicated
    ):
        return f"a child of {asker.process} may not have a {child.isolation} cell"
    return ""


def _refusal(held: Rights, tools: tuple[str, ...]) -> str:
    try:
        child_of(held, Rights.of(tools))
    except CapabilityError as error:
        return str(error)
    return ""


def _named(tools: frozenset[str], none: str = "none") -> str:
    return ", ".join(sorted(tools)) or none
