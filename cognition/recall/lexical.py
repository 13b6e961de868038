"""The lexical embedder: a text as a vector of its hashed words and character n-grams.

It knows *spelling*, not meaning: two texts are near when they share words or pieces of words, so it survives typing
errors and inflection, and finds no synonyms. No model, no download, no state: the same text gives the same vector on
every machine.

Each word, and each run of 3 to 5 characters of it with its two ends as blanks, is hashed; the hash picks one of 384
places and a sign ("feature hashing", Weinberger et al. 2009). The sum is damped by a signed square root, so that a run
of frequent pieces does not drown the rare ones, and scaled to length 1. All hashes are differences of one polynomial
prefix hash modulo 2**64, so a whole batch is a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cognition.recall.words import words

LEXICAL = "lexical-384-v1"
DIMENSIONS = 384
SIZES = (3, 4, 5)
BATCH_CHARACTERS = 500_000

Vectors = npt.NDArray[np.float32]
_Codes = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.int64]

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 2**64)
_BLANK = ord(" ")


def embed(texts: Sequence[str]) -> Vectors:
    """One row of length 1 for each text, in order: float32, shape (n, 384). A text without words is all zeros."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    start = 0
    while start < len(texts):
        end, characters = start, 0
        parts: list[str] = []
        while end < len(texts) and (not parts or characters < BATCH_CHARACTERS):
            parts.append(" " + " ".join(words(texts[end])) + " ")
            characters += len(parts[-1])
            end += 1
        rows[start:end] = _embed_batch(parts)
        start = end
    return rows


def _embed_batch(parts: Sequence[str]) -> Vectors:
    """Rows of texts that are single words between single blanks."""
    joined = "".join(parts)
    codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    inverses = _powers(_INVERSE, len(codes))
    prefix = np.concatenate(
        (np.zeros(1, np.uint64), np.cumsum((codes + np.uint64(1)) * _powers(_BASE, len(codes))))
    )
    blank = codes == _BLANK
    sums = np.zeros(len(parts) * DIMENSIONS, np.float64)
    for starts, ends in _features(blank):
        hashes = _mix((prefix[ends] - prefix[starts]) * inverses[starts])
        places = owners[starts] * DIMENSIONS + (hashes % np.uint64(DIMENSIONS)).astype(np.int64)
        signed = np.where(hashes >> np.uint64(63), 1.0, -1.0)
        sums += np.bincount(places, signed, len(sums))
    rows = sums.reshape(len(parts), DIMENSIONS)
    rows = np.sign(rows) * np.sqrt(np.abs(rows))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def _features(blank: npt.NDArray[np.bool_]) -> list[tuple[_Places, _Places]]:
    """Starts and ends of the words, and of the n-grams of each size that hold no blank inside."""
    starts = np.flatnonzero(blank[:-1] & ~blank[1:]) + 1
    ends = np.flatnonzero(~blank[:-1] & blank[1:]) + 1
    features = [(starts, ends)]
    blanks: _Places = np.concatenate((np.zeros(1, np.int64), np.cumsum(blank, dtype=np.int64)))
    for size in SIZES:
        at = np.arange(max(0, len(blank) - size + 1))
        inside = blanks[at + size - 1] - blanks[at + 1]
        at = at[inside == 0]
        features.append((at, at + size))
    return features


def _powers(base: int, count: int) -> _Codes:
    """1, base, base**2, ... modulo 2**64."""
    factors = np.full(count, base, np.uint64)
    if count:
        factors[0] = 1
    return np.multiply.accumulate(factors)


def _mix(hashes: _Codes) -> _Codes:
    """Spread the bits: the finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
