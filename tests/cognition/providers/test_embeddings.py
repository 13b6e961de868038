"""Embeddings of a server that is not trusted: what is believed of an answer, and a real server process behind it."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.errors import ProviderError
from cognition.providers.base import ProviderBounds
from cognition.providers.embeddings import MAX_DIMENSIONS, Vectors, embeddings_body, parse_embeddings
from cognition.providers.openai_compatible import CHAT, OpenAICompatible
from cognition.providers.served.retry import RetryPolicy
from cognition.providers.served.served import Served
from cognition.providers.served.settings import ServerSettings
from tests.patience import HANG_S
from tests.servers.processes import model_server


def answer(*rows: Any, **more: Any) -> bytes:
    return json.dumps({"data": [{"embedding": row} for row in rows], **more}).encode()


def test_vectors_come_in_the_order_of_the_texts_as_little_endian_floats() -> None:
    data = [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, -2.0]}]
    vectors = parse_embeddings(json.dumps({"data": data}).encode(), 2, "")
    assert vectors == Vectors(2, 2, struct.pack("<4f", 1, -2, 3, 4.5))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "list, not an object"),
        (b"{}", "no embeddings"),
        (b'{"data": [' + b"[]," * 100 + b"[]]}", "more than 68 objects and arrays"),
        (b'{"data": [7]}', "no embeddings"),
        (b'{"error": {"message": "no such model"}}', "answered: no such model"),
        (answer([1.0]), "gave 1 embeddings for 2 texts"),
        (answer([1.0], [1.0], [1.0]), "gave 3 embeddings for 2 texts"),
        (answer([1.0], [1.0, 2.0]), "embedding 1 has 2 dimensions, the first 1"),
        (answer([1.0], []), "embedding 1 is not a list of 1 to"),
        (answer([1.0], None), "is not a list"),
        (answer([1.0], "AACAPw=="), "is not a list"),
        (answer([1.0], [0.0] * (MAX_DIMENSIONS + 1)), "is not a list of 1 to"),
        (answer([1.0], [0] * (2 * MAX_DIMENSIONS + 1100)), "more than 32768 numbers for 2 texts"),
        (answer([1.0], ["x"]), "not a finite number"),
        (answer([1.0], [None]), "not a finite number"),
        (answer([1.0], [True]), "not a finite number"),
        (answer([1.0], [float("nan")]), "NaN"),
        (answer([1.0], [float("inf")]), "infinity"),
        (answer([1.0], [1e300]), "too large for 32 bits"),
        (answer([1.0], [10**400]), "not a finite number"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "two embeddings"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}', "no usable index"),
        (b'{"data": [{"index": -1, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "no usable index"),
    ],
)
def test_an_answer_that_cannot_be_believed_is_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        parse_embeddings(data, 2, "")


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_every_finite_number_of_32_bits_arrives_as_it_was(rows: list[list[float]]) -> None:
    vectors = parse_embeddings(answer(*rows), len(rows), "")
    assert struct.unpack(f"<{3 * len(rows)}f", vectors.data) == tuple(value for row in rows for value in row)


def test_the_request_is_json_whatever_the_text() -> None:
    body = json.loads(embeddings_body(["a\ud800", "b"], "m"))
    assert (body["model"], body["input"][1]) == ("m", "b")


GOOD = {"raw": answer([1.0, 2.0]).decode()}


def embed(directory: Path, *answers: dict[str, Any], **bounds: Any) -> Vectors:
    """What comes of the answers of a real server process."""

    async def run(base_url: str) -> Vectors:
        policy = RetryPolicy(base_s=0.001, max_s=0.002)
        settings = ServerSettings("local", base_url)
        provider = OpenAICompatible(
            Served(CHAT, settings, "sk-secret-123456", policy, ProviderBounds(**bounds))
        )
        try:
            return await provider.embed(["my car"], "words-1")
        finally:
            await provider.close()

    with model_server(directory, {"answers": answers}) as server:
        vectors = asyncio.run(run(server.base_url))
        asked = server.requests()[-1]
        assert asked["path"] == "/v1/embeddings"
        assert asked["body"] == {"model": "words-1", "input": ["my car"], "encoding_format": "float"}
        assert asked["headers"]["authorization"] == "Bearer sk-secret-123456"
        return vectors


def test_a_server_gives_vectors(tmp_path: Path) -> None:
    assert embed(tmp_path, GOOD) == Vectors(1, 2, struct.pack("<2f", 1, 2))


def test_a_passing_fault_of_the_server_is_tried_again(tmp_path: Path) -> None:
    assert embed(tmp_path, {"status": 503}, {"status": 429}, GOOD).count == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 400, "error": "no such model sk-secret-123456"}, "answered 400: no such model"),
        ({"status": 401}, "does not accept the key"),
        ({"raw": '{"data": [{"embedding": [NaN]}]}'}, "NaN"),
        ({"raw": "[" * 9_000_000}, "more than 1000 bytes"),
        ({"endless": "silence"}, "no whole answer"),
    ],
)
def test_a_lasting_fault_is_told_without_the_key(tmp_path: Path, fault: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderError, match=words) as refused:
        embed(tmp_path, fault, wire_bytes=1000, total_s=1.0 if "endless" in fault else HANG_S)
    assert "sk-secret" not in str(refused.value)


def test_an_answer_much_larger_than_what_was_asked_for_is_refused(tmp_path: Path) -> None:
    large = answer([1.0], beside="x" * 600_000).decode()
    with pytest.raises(ProviderError, match="more than 589824 bytes"):
        embed(tmp_path, {"raw": large})


def test_without_a_model_it_says_what_to_set() -> None:
    async def run() -> None:
        await OpenAICompatible(Served(CHAT, ServerSettings("local", "http://127.0.0.1:9/v1"), "")).embed(
            ["x"], ""
        )

    with pytest.raises(ProviderError, match=r"set memory\.model for local"):
        asyncio.run(run())
