"""Capability: a tool is used, and given to a child, by who holds it; who may speak to others may watch them."""

from __future__ import annotations

from kernel.errors import CapabilityError
from kernel.model.address import ancestors, is_below
from kernel.model.capability import Rights, child_of
from kernel.policy.asker import Asker
from kernel.policy.proposal import Facts, Proposal, SpawnProcess, UseTool, Verdict, WatchProcess, deny

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
            tools = spec.tools if spec.template is None else spec.template.tools
            why = _exceeds(asker, tools) or _exceeds_above(tools, parent, facts)
            return deny(why, CapabilityError) if why else None
        case WatchProcess() as watch if not _may_watch(asker, watch):
            return deny(
                f"capability: a monitor needs one of {', '.join(sorted(SPEAKING))}, unless it is of a process below "
                f"its own ({_named(asker.rights or frozenset())})",
                CapabilityError,
            )
    return None


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


def _exceeds_above(tools: tuple[str, ...], parent: str, facts: Facts) -> str:
    """Rights shrink below an agent, whoever asks: supervisors in between hold none and pass them on."""
    for address in (parent, *ancestors(parent)):
        above = facts.state.slots.get(address)
        if above is not None and above.spec.type == "worker":
            return _refusal(Rights.of(above.spec.tools), tools)
    return ""


def _refusal(held: Rights, tools: tuple[str, ...]) -> str:
    try:
        child_of(held, Rights.of(tools))
    except CapabilityError as error:
        return str(error)
    return ""


def _named(tools: frozenset[str], none: str = "none") -> str:
    return ", ".join(sorted(tools)) or none
