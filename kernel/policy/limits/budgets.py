"""Budgets: what a process, or whoever has it act, has used up is refused from then on. It is the accounts that say so
(:mod:`kernel.budget`), of addresses: a process that was started again has no more.
"""

from __future__ import annotations

from kernel.budget.account import Book
from kernel.budget.allowance import why_no_message, why_no_tool
from kernel.errors import Busy, Invalid
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Resource, shown
from kernel.policy.proposal import (
    AskModel,
    Broadcast,
    Facts,
    Proposal,
    Publish,
    SendMessage,
    SpawnProcess,
    UseTool,
    Verdict,
    deny,
)

_MEASURED: tuple[Resource, ...] = ("cpu_ms", "memory_bytes")


def budgets_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """One tool call, one message, and the tokens of a question have to be left; and of what a new process is to have
    for itself all of it, where it comes out of somebody's.
    """
    asker, book = proposal.asker, facts.state.accounts.book
    match proposal.operation:
        case AskModel(unpaid=unpaid):
            return deny(unpaid, Busy) if unpaid else None
        case SpawnProcess(spec, parent) if why := _why_not_measured(book, spec, parent, facts.measured):
            return deny(f"budget: {why}", Invalid)
        case _ if not book.accounts:
            return None
        case UseTool(paid=False) if asker.turn in facts.state.accounts.landed:
            return _denied("the last answer of this turn was given, and no tool is called after it")
        case UseTool(paid=False) if asker.process:
            return _denied(why_no_tool(book, asker.process, asker.principal))
        case SendMessage(answers=False) if asker.process:
            return _denied(why_no_message(book, asker.process))
        case Publish(receivers=many) | Broadcast(receivers=many) if asker.process:
            return _denied(why_no_message(book, asker.process, many))
        case SpawnProcess(spec, parent, promised=promised) if spec.budget is not None:
            for (above, resource), amount in book.sources(parent, spec.budget).items():
                left = book.accounts[above].lines[resource].left - promised.get((above, resource), 0)
                if left < amount:
                    has = f"{shown(resource, max(0, left))} {resource}"
                    return _denied(f"{above} has {has} left, and cannot give {shown(resource, amount)}")
    return None


def _why_not_measured(book: Book, spec: ProcessSpec, parent: str, measured: bool) -> str:
    """Processor time and memory are told by the cell of who uses them: of a shared one nobody can tell who that was,
    and of one on another machine nobody tells it.
    """
    own_cell = spec.type != "worker" or spec.isolation != "shared"
    if own_cell and measured:
        return ""
    own = {} if spec.budget is None else spec.budget.amounts()
    for resource in _MEASURED:
        above = book.nearest(parent, resource)
        if resource in own or above is not None:
            whose = "it has" if resource in own or above is None else f"{above.address}, above it, has"
            if not measured:
                return (
                    f"{whose} a budget of {resource}, and nobody measures that here: cells of this node may be on "
                    "other machines; leave that budget out"
                )
            return (
                f"{whose} a budget of {resource}, which is measured in a cell of its own alone: spawn {spec.name} with "
                "isolation dedicated (--isolation dedicated), or without that budget"
            )
    return ""


def _denied(why: str) -> Verdict | None:
    return deny(f"budget: {why}", Busy) if why else None
