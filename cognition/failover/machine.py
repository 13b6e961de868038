"""The failover machine: which provider is asked, how often, and when it is over. Pure.

A *provider* here is one place of the chain that the route gives: a provider and a model of it. An error is fatal for
the *provider* (it will not answer this, another may) or for the *request* (nobody is to answer it), or it may pass.

The table has a row for every state and event. Where the outcome depends on what is left the row holds a guard: the
first of ``again`` (retries left), ``other`` (providers left), ``else`` that is true decides. An event that means
nothing in a state leaves it as it is. n providers with r retries each take at most n(2r+2)+1 transitions: one into the
first selection, and for each provider one into its attempt, two for each retry, and one out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

Scope = Literal["", "provider", "request"]


class State(StrEnum):
    """Where a question stands."""

    IDLE = "Idle"
    SELECTING = "Selecting"
    ATTEMPTING = "Attempting"
    SUCCEEDED = "Succeeded"
    RETRYING = "Retrying"
    EXHAUSTED = "Exhausted"
    ABORTED = "Aborted"


class Event(StrEnum):
    """What happens to it."""

    START = "Start"
    PROVIDER_SUCCESS = "ProviderSuccess"
    RETRYABLE_ERROR = "RetryableError"
    FATAL_ERROR = "FatalError"
    USER_ABORT = "UserAbort"
    TIMEOUT = "Timeout"


OVER = frozenset({State.SUCCEEDED, State.EXHAUSTED, State.ABORTED})


@dataclass(frozen=True, slots=True)
class Guarded:
    """``again`` with a retry left for this provider, else ``other`` with a provider left, else ``none``."""

    again: State | None
    other: State
    none: State


TRY_AGAIN = Guarded(State.RETRYING, State.SELECTING, State.EXHAUSTED)
NEXT_ONE = Guarded(None, State.SELECTING, State.EXHAUSTED)
Row = State | Guarded

# An error that is fatal for the request ends it wherever it comes, before this table is read: see step().
TABLE: dict[State, dict[Event, Row]] = {
    State.IDLE: {
        Event.START: State.SELECTING,
        Event.PROVIDER_SUCCESS: State.IDLE,
        Event.RETRYABLE_ERROR: State.IDLE,
        Event.FATAL_ERROR: State.IDLE,
        Event.USER_ABORT: State.ABORTED,
        Event.TIMEOUT: State.IDLE,
    },
    State.SELECTING: {
        Event.START: State.ATTEMPTING,
        Event.PROVIDER_SUCCESS: State.SELECTING,
        Event.RETRYABLE_ERROR: State.SELECTING,
        Event.FATAL_ERROR: NEXT_ONE,
        Event.USER_ABORT: State.ABORTED,
        Event.TIMEOUT: State.SELECTING,
    },
    State.ATTEMPTING: {
        Event.START: State.ATTEMPTING,
        Event.PROVIDER_SUCCESS: State.SUCCEEDED,
        Event.RETRYABLE_ERROR: TRY_AGAIN,
        Event.FATAL_ERROR: NEXT_ONE,
        Event.USER_ABORT: State.ABORTED,
        Event.TIMEOUT: TRY_AGAIN,
    },
    State.RETRYING: {
        Event.START: State.ATTEMPTING,
        Event.PROVIDER_SUCCESS: State.RETRYING,
        Event.RETRYABLE_ERROR: State.RETRYING,
        Event.FATAL_ERROR: NEXT_ONE,
        Event.USER_ABORT: State.ABORTED,
        Event.TIMEOUT: NEXT_ONE,
    },
    State.SUCCEEDED: dict.fromkeys(Event, State.SUCCEEDED),
    State.EXHAUSTED: dict.fromkeys(Event, State.EXHAUSTED),
    State.ABORTED: dict.fromkeys(Event, State.ABORTED),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A question on its way. ``provider``: its place in the chain, from 0; ``retries``: those used up for it."""

    providers: int
    max_retries: int
    state: State = State.IDLE
    provider: int = 0
    retries: int = 0

    @property
    def over(self) -> bool:
        return self.state in OVER

    def step(self, event: Event, scope: Scope = "") -> Machine:
        """What it becomes. ``scope``: for whom an error is fatal, where it is said; a fatal error of which nothing is
        said is the provider's. One that is fatal for the provider leaves it no retry.
        """
        if scope == "request" and not self.over and self.state is not State.IDLE:
            return replace(self, state=State.ABORTED)
        row = TABLE[self.state][event]
        if isinstance(row, State):
            return replace(self, state=row)
        if row.again is not None and scope != "provider" and self.retries < self.max_retries:
            return replace(self, state=row.again, retries=self.retries + 1)
        if self.provider + 1 < self.providers:
            return replace(self, state=row.other, provider=self.provider + 1, retries=0)
        return replace(self, state=row.none)


def most_transitions(providers: int, max_retries: int) -> int:
    """So many steps at most change something."""
    return providers * (2 * max_retries + 2) + 1
