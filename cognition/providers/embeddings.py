"""``POST {base_url}/embeddings``: the request, and the answer as numbers. Pure; the server is not trusted."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cognition.errors import ProviderError
from cognition.providers.answer import error_words, load_object

MAX_TEXTS = 64
MAX_DIMENSIONS = 16_384
_NUMBER_BYTES = 32
_BESIDE_BYTES = 64 * 2**10
_BESIDE_PARTS = 64
_BESIDE_VALUES = 1024


@dataclass(frozen=True, slots=True)
class Vectors:
    """``count`` vectors of ``dimensions`` numbers: little-endian float32, one after the other, in ``data``."""

    count: int
    dimensions: int
    data: bytes


class Embedder(Protocol):
    """A provider that makes vectors too."""

    async def embed(self, texts: Sequence[str], model: str) -> Vectors:
        """One vector for each text, in order. Raises :class:`cognition.errors.ProviderError`. May be cancelled."""


def embeddings_body(texts: Sequence[str], model: str) -> bytes:
    """The request's body."""
    return json.dumps({"model": model, "input": list(texts), "encoding_format": "float"}).encode()


def embeddings_bytes(count: int) -> int:
    """What an answer with vectors of ``count`` texts has at most."""
    return _BESIDE_BYTES + count * MAX_DIMENSIONS * _NUMBER_BYTES


def parse_embeddings(data: bytes, count: int, secret: str) -> Vectors:
    """The vectors of an answer, in the order of the texts. Raises ProviderError unless all ``count`` are there,
    of one dimension, and every number is finite.
    """
    most = count * MAX_DIMENSIONS
    if data.count(b",") > most + _BESIDE_VALUES:
        raise ProviderError(f"the model server gave more than {most} numbers for {count} texts")
    answer = load_object(data, _BESIDE_PARTS + 2 * count)
    if answer.get("error"):
        raise ProviderError(f"the model server answered: {error_words(answer['error'], secret)}")
    items = answer.get("data")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ProviderError("the model server answered with JSON that holds no embeddings (it has no data)")
    if len(items) != count:
        raise ProviderError(f"the model server gave {len(items)} embeddings for {count} texts")
    rows: dict[int, list[float]] = {}
    for place, item in enumerate(items):
        rows[_index(item, place, count)] = _numbers(item.get("embedding"), place)
    if len(rows) != count:
        raise ProviderError("the model server gave two embeddings for one text")
    dimensions = len(rows[0]) if rows else 0
    for place, row in rows.items():
        if len(row) != dimensions:
            raise ProviderError(f"embedding {place} has {len(row)} dimensions, the first {dimensions}")
    try:
        packed = b"".join(struct.pack(f"<{dimensions}f", *rows[place]) for place in range(count))
    except OverflowError as error:
        raise ProviderError("an embedding holds a number too large for 32 bits") from error
    return Vectors(count, dimensions, packed)


def _index(item: dict[str, Any], place: int, count: int) -> int:
    index = item.get("index", place)
    if type(index) is not int or not 0 <= index < count:
        raise ProviderError(f"embedding {place} has no usable index")
    return index


def _numbers(embedding: Any, place: int) -> list[float]:
    if not isinstance(embedding, list) or not 1 <= len(embedding) <= MAX_DIMENSIONS:
        raise ProviderError(f"embedding {place} is not a list of 1 to {MAX_DIMENSIONS} numbers")
    try:
        finite = all(type(n) in (int, float) and math.isfinite(n) for n in embedding)
    except OverflowError:
        finite = False
    if not finite:
        raise ProviderError(f"embedding {place} holds something that is not a finite number (NaN, infinity)")
    return embedding
