"""A question is put to the providers of a chain until one answers, as the machine says.

It stands around the questions of a turn: who has answered one is asked the next, and a provider that was given up is
not asked again in that turn. All it learns comes from answers, so a resumed turn takes the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from cognition.config.failover_config import FailoverConfig
from cognition.failover.machine import Event, Machine, Scope, State
from cognition.failover.waiting import wait_ms
from kernel.abi import ErrorKind, ModelAnswer, ModelRequest

Ask = Callable[[ModelRequest], Awaitable[ModelAnswer]]
Random = Callable[[], Awaitable[int]]
MOST_WAITED_MS = 120_000
"""For one question, all its waits together: a server that asks for more is given up."""
LOGGED_CHARS = 300

EVENTS: dict[ErrorKind, tuple[Event, Scope]] = {
    "rate_limited": (Event.RETRYABLE_ERROR, ""),
    "server": (Event.RETRYABLE_ERROR, ""),
    "transport": (Event.RETRYABLE_ERROR, ""),
    "timeout": (Event.TIMEOUT, ""),
    "auth": (Event.FATAL_ERROR, "provider"),
    "context_overflow": (Event.FATAL_ERROR, "provider"),
    "unavailable": (Event.FATAL_ERROR, "provider"),
    "invalid": (Event.FATAL_ERROR, "provider"),
    "": (Event.FATAL_ERROR, "provider"),
    "content_refused": (Event.FATAL_ERROR, "request"),
    "budget": (Event.FATAL_ERROR, "request"),
    "capped": (Event.FATAL_ERROR, "provider"),
    "refused": (Event.FATAL_ERROR, "request"),
    "cancelled": (Event.USER_ABORT, ""),
}
"""What each kind of error is to the machine. What a provider's filter has refused is not carried to the next one, and
what the node refuses it refuses for all, but for a cap, which a cheaper model may be within; a question that is too
long for one model may not be for another."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who is asked: a provider, and a model of it; empty for the default."""

    provider: str
    model: str

    @classmethod
    def of(cls, text: str) -> Place:
        """``provider`` or ``provider/model``."""
        provider, _, model = text.partition("/")
        return cls(provider, model)

    def __str__(self) -> str:
        return "/".join(filter(None, (self.provider or "the default", self.model)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A question that was put and not answered, and why."""

    place: Place
    error_kind: ErrorKind


def chain_of(first: Place, others: Iterable[str]) -> tuple[Place, ...]:
    """Who is asked, one after the other, each once; the ``others`` as ``provider/model``."""
    return tuple(dict.fromkeys((first, *map(Place.of, others))))


class Failover:
    """The questions of one turn. ``attempts``: those that failed, in order."""

    def __init__(
        self,
        ask: Ask,
        random: Random,
        chain: tuple[Place, ...],
        config: FailoverConfig,
        log: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._random = random
        self._chain = chain
        self._config = config
        self._log = log
        self._at = 0
        self.attempts: list[Attempt] = []

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The first answer; the last error, with all that was tried, when nobody gives one."""
        machine = Machine(
            len(self._chain), self._config.max_retries_per_provider, State.SELECTING, self._at
        ).step(Event.START)
        waited_ms, after_ms, begun = 0, 0, len(self.attempts)
        while True:
            place = self._chain[machine.provider]
            answer = await self._ask(
                replace(request, provider=place.provider, model=place.model, retry=False, after_ms=after_ms)
            )
            if answer.status == "ok":
                self._at = machine.provider
                return answer
            self.attempts.append(Attempt(place, answer.error_kind))
            self._log(
                f"{place} has not answered ({answer.error_kind or 'error'}): {answer.text[:LOGGED_CHARS]}"
            )
            event, scope = EVENTS[answer.error_kind]
            tried, machine = machine, machine.step(event, scope)
            after_ms = 0
            if machine.state is State.RETRYING:
                after_ms = wait_ms(self._config, machine.retries, answer.retry_after_s, await self._random())
                if waited_ms + after_ms > MOST_WAITED_MS:
                    machine, after_ms = tried.step(event, "provider"), 0
                waited_ms += after_ms
            if machine.over:
                return replace(answer, text=answer.text + self._told(begun))
            machine = machine.step(Event.START)

    def _told(self, begun: int) -> str:
        """What was tried, where that is more than one attempt."""
        tried = self.attempts[begun:]
        if len(tried) < 2:
            return ""
        said = ", ".join(f"{each.place}: {each.error_kind or 'error'}" for each in tried)
        return f" (tried {said})"
