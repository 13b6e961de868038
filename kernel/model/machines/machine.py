"""A machine as a table: what comes of an event in a state, and which event an entry of the ledger is.

What a table does not have changes nothing: it comes too late, of an attempt that is over, or of a turn whose other
entries have been erased. An entry of which the machine does not know the event is refused, when it is to be written and
when it is read back (:mod:`kernel.state.record_forms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)

Table = Mapping[S, Mapping[E, S]]


class By(NamedTuple, Generic[E]):
    """Which event an entry is says one of its fields."""

    field: str
    events: Mapping[str, E]


Events = Mapping[str, E | By[E]]
"""By kind, the event that an entry of it is."""


def event_of(events: Events[E], kind: str, body: Mapping[str, Any]) -> E:
    """The event that an entry is. Raises KeyError for one that the machine does not know."""
    event = events[kind]
    return event.events[body[event.field]] if isinstance(event, By) else event


def names(events: Events[E], kind: str) -> frozenset[str]:
    """What the field may hold that says which event an entry of this kind is."""
    event = events[kind]
    assert isinstance(event, By)
    return frozenset(event.events)
