"""Rates: how many messages of one sender are accepted in a minute, and in an hour.

The windows slide: a message is accepted when fewer than so many were in the sixty seconds, and in the hour, before it.
What was accepted is on record with the name that it counts for (``rate`` of ``message.accepted``), and read by the
slice ``rates``: so a restart gives nothing anew, and one who is not limited costs nothing. What is refused counts for
nothing. Times are those of the ledger, which never fall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from kernel.errors import RateLimited
from kernel.policy.asker import Asker
from kernel.policy.proposal import Facts, Proposal, SendMessage, Verdict
from kernel.slices.rates import HOUR_US, MOST_SENDERS, Rates

MINUTE_US = 60 * 1_000_000
OTHERS = "(others)"
"""For whom all messages count of senders that come when as many as are counted one by one have spoken this hour."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Messages in a minute and in an hour; None: any number."""

    per_minute: int | None = None
    per_hour: int | None = None

    def __bool__(self) -> bool:
        return self.per_minute is not None or self.per_hour is not None


@dataclass(frozen=True, slots=True)
class Wait:
    """``limit`` messages are accepted in a ``window``, and the next one in so long."""

    limit: int
    window: str
    wait_us: int


def wait_of(times: Sequence[int], limit: RateLimit, now_us: int) -> Wait | None:
    """How long until one more is accepted; None: it is now. ``times``: of those that were, oldest first."""
    waits = []
    for most, window, window_us in (
        (limit.per_minute, "minute", MINUTE_US),
        (limit.per_hour, "hour", HOUR_US),
    ):
        if most is not None and len(times) >= most and (wait_us := times[-most] + window_us - now_us) > 0:
            waits.append(Wait(most, window, wait_us))
    return max(waits, key=lambda each: each.wait_us, default=None)


def sender_of(asker: Asker) -> str:
    """Who sends: a process, whoever has it act; else who he is to the node."""
    return asker.process or asker.who


@dataclass(frozen=True, slots=True)
class RateLimits:
    """``senders``: by name or address, or a glob of them, before ``everybody``, which is for all but the processes of
    this node. ``known``: names of identities, which are always counted one by one.
    """

    everybody: RateLimit = RateLimit()
    senders: Mapping[str, RateLimit] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.senders or self.everybody)

    def of(self, asker: Asker) -> RateLimit:
        """What holds for whoever asks."""
        who = sender_of(asker)
        globs = [each for each in self.senders if each == who or fnmatchcase(who, each)]
        if globs:
            return self.senders[who if who in globs else min(globs, key=lambda each: (-len(each), each))]
        by_itself = asker.process or asker.channel in ("process", "node")
        return RateLimit() if by_itself else self.everybody

    def counts_for(self, asker: Asker, rates: Rates) -> str:
        """The name that a message of whoever asks counts for; empty where nobody limits it."""
        if not self or not self.of(asker):
            return ""
        who = sender_of(asker)
        full = len(rates) >= MOST_SENDERS and who not in rates and who not in self.known
        return OTHERS if full else who

    def wait(self, asker: Asker, rates: Rates, now_us: int) -> Wait | None:
        """How long until a message of whoever asks is accepted; None: it is now."""
        name = self.counts_for(asker, rates)
        return wait_of(rates.get(name, ()), self.of(asker), now_us) if name else None


class HasRates(Protocol):
    """Where the limits stand that hold now."""

    @property
    def rates(self) -> RateLimits: ...


@dataclass(frozen=True, slots=True)
class RatesGate:
    """A message too many in its window is refused, and the refusal says when to try again."""

    terms: HasRates

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        match proposal.operation:
            case SendMessage(origin="", answers=False, at_us=now_us) if now_us:
                asker = proposal.asker
                wait = self.terms.rates.wait(asker, facts.state.rates, now_us)
                return None if wait is None else denied(asker, wait)
        return None


def denied(asker: Asker, wait: Wait) -> Verdict:
    """The refusal, in words."""
    seconds = -(-wait.wait_us // 1_000_000)
    why = f"rate: {sender_of(asker)} may send {wait.limit} messages in a {wait.window}; try again in {seconds} s"
    return Verdict("deny", (why,), RateLimited, float(seconds))
