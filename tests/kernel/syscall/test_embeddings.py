"""The way of a question for vectors from the archive to the gateway and back, with twins for both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.memory.embeddings import WAITING, Embeddings
from tests.patience import HANG_S

QUESTION = {"id": "e1", "provider": "p", "model": "m", "texts": ["a"]}
VECTORS = {"count": 1, "dimensions": 2, "data": bytes(8)}


class Twins:
    """The gateway answers with ``answer``; what the archive is told is in ``told``."""

    def __init__(self, answer: Callable[[], Awaitable[Any]], timeout_s: float = 20.0) -> None:
        self._answer = answer
        self.asked: list[Any] = []
        self.told: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.embeddings = Embeddings(self._gateway, self._archive, timeout_s)

    async def _gateway(self, op: str, args: dict[str, Any]) -> Any:
        self.asked.append((op, args))
        return await self._answer()

    async def _archive(self, op: str, args: dict[str, Any]) -> Any:
        self.told.put_nowait((op, args))
        raise HelperLost("archive died")  # it need not live to see its answer

    async def next(self) -> tuple[str, dict[str, Any]]:
        return await asyncio.wait_for(self.told.get(), HANG_S)


async def vectors() -> Any:
    return VECTORS


async def for_ever() -> Any:
    await asyncio.Event().wait()


def failing(error: Exception) -> Callable[[], Awaitable[Any]]:
    async def fail() -> Any:
        raise error

    return fail


async def nothing() -> Any:
    return None


def test_a_question_goes_to_the_gateway_as_it_is_and_its_answer_back_under_its_id() -> None:
    async def run() -> None:
        twins = Twins(vectors)
        twins.embeddings.noticed(HelperNotice("archive", "embed", QUESTION))
        assert await twins.next() == ("embedded", {**VECTORS, "id": "e1"})
        assert twins.asked == [("embed", QUESTION)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failing(HelperLost("gateway died")), "gateway died"),
        (failing(HelperRefused("ProviderError: a vector with NaN")), "a vector with NaN"),
        (failing(HelperRefused("x" * 9_000)), "x" * 500),
        (nothing, "malformed"),
        (for_ever, "no vectors within 0.01 s"),
    ],
)
def test_what_goes_wrong_is_an_answer_too(answer: Callable[[], Awaitable[Any]], words: str) -> None:
    async def run() -> None:
        twins = Twins(answer, 0.01)
        twins.embeddings.noticed(HelperNotice("archive", "embed", QUESTION))
        op, told = await twins.next()
        assert (op, told["id"]) == ("embedded", "e1")
        assert words in told["error"]
        assert len(told["error"]) <= 500

    asyncio.run(run())


def test_no_more_than_a_number_wait_and_another_notice_is_nothing() -> None:
    async def run() -> None:
        twins = Twins(for_ever)
        twins.embeddings.noticed(HelperNotice("archive", "something", {}))
        for number in range(WAITING + 1):
            twins.embeddings.noticed(HelperNotice("archive", "embed", {**QUESTION, "id": f"e{number}"}))
        assert await twins.next() == ("embedded", {"error": "64 questions wait already", "id": f"e{WAITING}"})
        assert len(twins.asked) == WAITING

    asyncio.run(run())
