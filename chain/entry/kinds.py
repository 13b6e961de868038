"""The one table of ledger kinds: what each entry means, what its body holds, and whether its writer waits.

Kinds are dotted: a noun, then a verb. Bodies are flat maps; every field is present in every entry of its kind, with the
type of its row (:mod:`chain.entry.fields`). The rows stand in :mod:`chain.entry.tables`, by what they
tell of; ``docs/ledger-kinds.md`` tells the same at length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from chain.entry.fields import Fields
from chain.entry.kind import Kind
from chain.entry.tables.budgets import BUDGETS
from chain.entry.tables.messages import MESSAGES
from chain.entry.tables.node import NODE
from chain.entry.tables.peers import PEERS
from chain.entry.tables.processes import PROCESSES
from chain.entry.tables.syscalls import SYSCALLS
from chain.entry.tables.turns import TURNS
from chain.entry.tables.upkeep import UPKEEP

__all__ = ["KINDS", "Kind", "fits", "well_typed"]

_TABLE = (*NODE, *PROCESSES, *MESSAGES, *TURNS, *BUDGETS, *SYSCALLS, *PEERS, *UPKEEP)


def _asks_here(body: Mapping[str, Any]) -> bool:
    """A call of this node asks, and hears of nothing but the answer."""
    waits = body.get("reply_to", "")
    return bool(waits) and "@" not in waits


def _answers_here(body: Mapping[str, Any]) -> bool:
    """It is told to a call of this node."""
    return bool(body.get("call"))


def _does_nothing_outside(body: Mapping[str, Any]) -> bool:
    """The tool has no effects, or none but the question that stands beside it and says itself what it waits for."""
    return body.get("effects") == "none" or body.get("tool") == "ask"


def _is_of_an_apply(body: Mapping[str, Any]) -> bool:
    """An application has it made, with others: the apply answers when all of them are on the disk."""
    return str(body.get("made_by", "")).startswith("app:")


def _costs_no_money(body: Mapping[str, Any]) -> bool:
    return not body.get("payers") and not body.get("scopes")


_LAZY: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "process.spawned": _is_of_an_apply,
    "message.accepted": _asks_here,
    "turn.ended": _answers_here,
    "tool.intent": _does_nothing_outside,
    "budget.reserved": _costs_no_money,
}
KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: replace(kind, lazy_when=_LAZY.get(kind.name)) for kind in _TABLE}
)
_FIT = {kind.name: Fields({name: field.type for name, field in kind.fields.items()}).fit for kind in _TABLE}


def fits(kind: str, body: Mapping[str, Any]) -> bool:
    """Whether ``body`` has exactly the fields of its kind, each of its type. :meth:`Kind.check` says why not."""
    fit = _FIT.get(kind)
    return fit is not None and fit(body)


def well_typed(kind: str, body: Mapping[str, Any]) -> bool:
    """As :func:`fits`, of an entry that may be an older one, or of a kind that came later: what its kind tells of is of
    its type, whatever there is.
    """
    return fits(kind, body) or kind not in KINDS or not KINDS[kind].mistyped(body)
