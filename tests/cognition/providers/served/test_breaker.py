"""A model that fails again and again is given up for a while, and found again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from cognition.errors import ProviderError
from cognition.providers.base import ProviderBounds, Question
from cognition.providers.openai_compatible import CHAT
from cognition.providers.served.breaker import MOST_MODELS, Breaker
from cognition.providers.served.retry import ONCE
from cognition.providers.served.served import Served
from cognition.providers.served.settings import ServerSettings
from tests.cognition.providers.test_openai_compatible import Screen
from tests.servers.processes import model_server

QUESTION = Question(({"role": "user", "content": "?"},))


def opened(failures: int = 2) -> Breaker:
    breaker = Breaker(failures, 10.0)
    for at_s in range(failures):
        assert breaker.admit("m", float(at_s)) == 0
        breaker.failed("m", float(at_s))
    return breaker


def test_after_so_many_faults_in_a_row_nothing_is_asked_for_a_while_and_then_one_question() -> None:
    breaker = opened()
    assert [breaker.admit("m", at_s) for at_s in (1.0, 6.0, 10.5)] == [10.0, 5.0, 0.5]
    assert breaker.admit("other", 1.0) == 0
    assert [breaker.admit("m", at_s) for at_s in (11.0, 11.0, 20.0)] == [0, 10.0, 1.0]


def test_the_one_that_is_let_through_opens_or_closes_it() -> None:
    for answered in (True, False):
        breaker = opened()
        assert breaker.admit("m", 12.0) == 0
        if answered:
            breaker.answered("m")
        else:
            breaker.failed("m", 13.0)
        assert breaker.admit("m", 14.0) == (0 if answered else 9.0)


def test_the_one_that_was_let_through_and_never_came_back_lets_another_through_later() -> None:
    breaker = opened()
    assert [breaker.admit("m", at_s) for at_s in (12.0, 21.0, 22.0)] == [0, 1.0, 0]


def test_an_answer_begins_the_count_anew_and_without_a_number_there_is_none() -> None:
    breaker = Breaker(2, 10.0)
    for _ in range(3):
        breaker.failed("m", 0.0)
        breaker.answered("m")
    assert breaker.admit("m", 0.0) == 0
    never = Breaker(0, 10.0)
    never.failed("m", 0.0)
    assert never.admit("m", 0.0) == 0


def test_of_more_models_than_are_known_the_one_that_failed_longest_ago_is_forgotten() -> None:
    breaker = opened(1)
    for number in range(MOST_MODELS - 1):
        breaker.failed(f"m{number}", 1.0)
    assert breaker.admit("m", 1.0) > 0
    breaker.failed("one more", 1.0)
    assert breaker.admit("m", 1.0) == 0


def test_a_server_that_fails_is_left_alone_and_who_asks_is_told(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"status": 503}, {"status": 503}, {"text": "now"}]}) as server:

        async def run() -> list[str]:
            bounds = ProviderBounds(breaker_failures=2, breaker_open_s=3600)
            served = Served(CHAT, ServerSettings("local", server.base_url, "m1"), "", ONCE, bounds)
            kinds = []
            for model in ("", "", "", "m2"):
                try:
                    kinds.append((await served.ask(replace(QUESTION, model=model), Screen())).text)
                except ProviderError as error:
                    kinds.append(error.kind)
            await served.close()
            return kinds

        assert asyncio.run(run()) == ["server", "server", "unavailable", "now"]
        assert len(server.requests()) == 3
