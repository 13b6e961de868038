"""A question goes along a chain of providers until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import get_args

import pytest

from cognition.config.failover_config import FailoverConfig
from cognition.failover.asking import EVENTS, MOST_WAITED_MS, Failover, Place, chain_of
from cognition.failover.machine import Event
from cognition.failover.waiting import JITTER_BITS, MOST_MS, wait_ms
from kernel.abi import ErrorKind, ModelAnswer, ModelRequest

A, B, C = Place("a", "m1"), Place("b", ""), Place("c", "m3")
REQUEST = ModelRequest(({"role": "user", "content": "x"},))
OK = ModelAnswer("ok", "fine")


def failed(kind: ErrorKind, retry_after_s: float = 0.0) -> ModelAnswer:
    return ModelAnswer("error", f"it was {kind}", error_kind=kind, retry_after_s=retry_after_s)


class Providers:
    """Scripted answers, one behind the other, and what was asked."""

    def __init__(self, *answers: ModelAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[ModelRequest] = []
        self.logged: list[str] = []

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        self.asked.append(request)
        return self.answers.pop(0)

    @property
    def places(self) -> list[str]:
        return [request.provider for request in self.asked]


async def no_chance() -> int:
    return 0


def walk(
    *answers: ModelAnswer, chain: Sequence[Place] = (A, B, C), **config: object
) -> tuple[Providers, Failover, ModelAnswer]:
    providers = Providers(*answers)
    made = FailoverConfig(**config)  # type: ignore[arg-type]
    failover = Failover(providers.ask, no_chance, tuple(chain), made, providers.logged.append)
    return providers, failover, asyncio.run(failover.ask(REQUEST))


def test_the_first_answer_is_the_answer() -> None:
    providers, failover, answer = walk(OK)
    assert answer == OK and not failover.attempts
    [asked] = providers.asked
    assert (asked.provider, asked.model, asked.retry, asked.after_ms) == ("a", "m1", False, 0)


def test_what_may_pass_is_tried_again_later_each_time_and_then_the_next_is_asked() -> None:
    providers, failover, answer = walk(*[failed("server")] * 3, OK)
    assert answer == OK and providers.places == ["a", "a", "a", "b"]
    assert [request.after_ms for request in providers.asked] == [0, 1_000, 2_000, 0]
    assert [(str(each.place), each.error_kind) for each in failover.attempts] == [("a/m1", "server")] * 3
    assert providers.logged == ["a/m1 has not answered (server): it was server"] * 3


def test_a_timeout_counts_as_one_that_may_pass_and_then_fails_over() -> None:
    providers, _, _ = walk(failed("timeout"), failed("timeout"), OK, max_retries_per_provider=1)
    assert providers.places == ["a", "a", "b"]


@pytest.mark.parametrize("kind", ["auth", "context_overflow", "invalid", ""])
def test_what_is_fatal_for_a_provider_goes_to_the_next_at_once(kind: ErrorKind) -> None:
    assert walk(failed(kind), OK)[0].places == ["a", "b"]


@pytest.mark.parametrize("kind", ["content_refused", "budget", "refused", "cancelled"])
def test_what_is_fatal_for_the_request_is_carried_to_nobody_else(kind: ErrorKind) -> None:
    providers, _, answer = walk(failed(kind))
    assert answer == failed(kind) and providers.places == ["a"]


def test_when_nobody_is_left_the_last_error_says_what_was_tried() -> None:
    _, _, answer = walk(failed("auth"), failed("auth"), failed("server"), max_retries_per_provider=0)
    assert answer.error_kind == "server"
    assert answer.text == "it was server (tried a/m1: auth, b: auth, c/m3: server)"


def test_what_a_server_asks_for_is_waited_for_and_no_more_than_is_bearable() -> None:
    providers, _, _ = walk(failed("rate_limited", 7.5), OK)
    assert providers.asked[1].after_ms == 7_500
    providers, _, _ = walk(failed("rate_limited", MOST_WAITED_MS), OK)
    assert providers.places == ["a", "b"] and providers.asked[1].after_ms == 0


def test_who_has_answered_is_asked_the_next_question_and_who_was_given_up_is_not() -> None:
    providers = Providers(failed("auth"), OK, OK, failed("auth"), OK)
    failover = Failover(providers.ask, no_chance, (A, B, C), FailoverConfig(), providers.logged.append)

    async def questions() -> None:
        for _ in range(3):
            assert (await failover.ask(REQUEST)).status == "ok"

    asyncio.run(questions())
    assert providers.places == ["a", "b", "b", "b", "c"]


def test_the_chain_is_the_route_and_then_the_configured_order_each_once() -> None:
    assert chain_of(A, ("b", "a/m1", "c/m3/x")) == (A, B, Place("c", "m3/x"))


def test_every_kind_of_error_means_something() -> None:
    assert set(EVENTS) == set(get_args(ErrorKind))
    assert EVENTS["timeout"][0] is Event.TIMEOUT


@pytest.mark.parametrize(("retry", "ms"), [(1, 1_000), (2, 2_000), (5, 16_000), (6, MOST_MS), (10, MOST_MS)])
def test_waits_grow_by_their_factor_to_a_limit_and_chance_takes_off_half_at_most(retry: int, ms: int) -> None:
    config = FailoverConfig()
    assert wait_ms(config, retry, 0, 0) == ms
    assert ms / 2 <= wait_ms(config, retry, 0, 2**JITTER_BITS - 1) < ms * 0.51
    assert wait_ms(config, retry, 45, 12_345) == 45_000


def test_each_key_of_the_waits_acts() -> None:
    assert wait_ms(FailoverConfig(retry_delay_ms=10), 2, 0, 0) == 20
    assert wait_ms(FailoverConfig(backoff_factor=3), 3, 0, 0) == 9_000
