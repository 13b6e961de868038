"""Answers as JSON: encoded a little at a time, however much they hold, and no sooner than they are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse

from weftos.api.parts import SLICE_CHARS, json_answer, json_rows

LONGEST_PIECE = 64 * (4 * 1024) * 6  # a few texts of control characters, each as \u0001
HARD = "\x01" * 256 * 1024

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
    | st.sampled_from(["x" * 5_000, "\U0001f600\ud83d" * 4_000, "y" * 200_000]),
    lambda inner: st.lists(inner, max_size=80) | st.dictionaries(st.text(max_size=5), inner, max_size=80),
    max_leaves=120,
)  # fmt: skip


def sent(answer: Response) -> list[str]:
    """The slices of an answer."""

    async def all_of_them() -> list[str]:
        if not isinstance(answer, StreamingResponse):
            return [bytes(answer.body).decode()]
        return [str(each) async for each in answer.body_iterator]

    return asyncio.run(all_of_them())


async def paged(*pages: list[Any]) -> AsyncIterator[list[Any]]:
    for page in pages:
        yield page


@given(VALUES)
def test_an_answer_is_what_json_says_of_it_however_it_is_cut(value: Any) -> None:
    assert "".join(sent(json_answer(value))) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(
    "pages", [[], [[]], [[1], []], [[1, 2], [3]], [[], [1]], [[HARD, {"a": [HARD]}], ["b"]]]
)
def test_rows_are_one_array_whatever_their_pages_are(pages: list[list[Any]]) -> None:
    whole = [row for page in pages for row in page]
    assert "".join(sent(json_rows(paged(*pages)))) == json.dumps(whole, separators=(",", ":"))


@pytest.mark.parametrize(
    "value", [[{"text": HARD}] * 3, {"rows": [[HARD]] * 3}, {"text": HARD}, [["a" * 99] * 50] * 300]
)
def test_no_slice_is_long_whatever_one_row_holds(value: Any) -> None:
    slices = sent(json_answer(value))
    assert len(slices) > 3 and max(map(len, slices)) < SLICE_CHARS + 30_000
    assert (
        max(map(len, sent(json_rows(paged(value if isinstance(value, list) else [value])))))
        < SLICE_CHARS + 30_000
    )


def test_a_page_is_not_asked_for_before_the_one_before_it_is_read() -> None:
    asked = []

    async def pages() -> AsyncIterator[list[str]]:
        for number in range(3):
            asked.append(number)
            yield ["x" * SLICE_CHARS]

    async def read() -> None:
        answer = json_rows(pages())
        assert isinstance(answer, StreamingResponse)
        slices = answer.body_iterator.__aiter__()
        assert asked == []
        await anext(slices)
        assert asked == [0]
        async for _ in slices:
            pass
        assert asked == [0, 1, 2]

    asyncio.run(read())
