"""Many entries at once, when nothing is wrong with any of them: the fast way through an audit.

It decides nothing. :func:`clean_run` says of entries in a row that each is right in itself and follows on the one
before, or else None, and then they are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from operator import lt
from typing import Any, cast

import msgpack

from chain.entry.entry import (
    FORMAT,
    LEAF_TYPES,
    MAX_BODY_BYTES,
    MAX_INTEGER,
    MAX_LEAF_BYTES,
    SALT_BYTES,
    are_names,
    are_scalars,
    are_subjects,
    encode_body,
    pack,
)
from chain.entry.kinds import well_typed
from chain.entry.record import Columns, RawEntry
from chain.errors import ChainError, EntryError

_BYTES = {bytes}
_RUN_ENTRIES = 64
_RUN_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class CleanRun:
    """Entries in a row, field by field. ``hashes``: of the leaves; ``maps``: the bodies, decoded."""

    leaves: Sequence[bytes]
    salts: Sequence[bytes]
    bodies: Sequence[bytes]
    times_us: Sequence[int]
    pids: Sequence[int]
    counts: Sequence[int]
    kinds: Sequence[str]
    causes: Sequence[int]
    hashes: Sequence[bytes]
    maps: Sequence[dict[str, Any]]


def clean_run(columns: Columns, seq: int, node: str, previous: bytes) -> CleanRun | None:
    """The entries in ``columns``, when they are canonical ones of ``node`` from ``seq`` on, the first of them on the
    leaf hash ``previous``, and each with its body, whose fields have their types. What they say of time and of their
    processes is not looked at.
    """
    leaves = columns.leaves
    if any({*map(type, column)} != _BYTES for column in (leaves, columns.salts, columns.bodies)):
        return None
    salts, packed = cast(Sequence[bytes], columns.salts), cast(Sequence[bytes], columns.bodies)
    if max(map(len, leaves)) > MAX_LEAF_BYTES or {*map(len, salts)} != {SALT_BYTES}:
        return None
    try:
        rows = [*map(msgpack.unpackb, leaves)]
        if {*map(type, rows)} != {list} or {*map(len, rows)} != {len(LEAF_TYPES)}:
            return None
        fields = [*zip(*rows, strict=True)]
        if any({*map(type, field)} != {kind} for field, kind in zip(fields, LEAF_TYPES, strict=True)):
            return None
        if [*map(pack, rows)] != [*leaves]:
            return None
        maps = _decode_bodies(packed)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError, OverflowError, EntryError):
        return None
    formats, seqs, times_us, nodes, pids, counts, kinds, subjects, traces, causes, commitments, before = (
        fields
    )
    hashes = [sha256(b"\x00" + leaf).digest() for leaf in leaves]
    if (
        maps is not None
        and {*formats} == {FORMAT}
        and seqs == (*range(seq, seq + len(leaves)),)
        and {*nodes} == {node}
        and before == (previous, *hashes[:-1])
        and [*commitments] == [sha256(salt + body).digest() for salt, body in zip(salts, packed, strict=True)]
        and all(min(field) >= 0 and max(field) <= MAX_INTEGER for field in (seqs, times_us, pids, counts))
        and min(causes) >= -1
        and all(map(lt, causes, seqs))
        and are_names(nodes, kinds)
        and are_subjects(subjects)
        and {*map(len, traces)} <= {0, 16}
        and all(map(well_typed, kinds, maps))
    ):
        return CleanRun(leaves, salts, packed, times_us, pids, counts, kinds, causes, hashes, maps)
    return None


def in_pieces(columns: Columns) -> Iterator[Columns]:
    """``columns`` whole, or some entries at a time when the bodies are long: decoded, they take many times the room."""
    if sum(len(body) for body in columns.bodies if body is not None) <= _RUN_BYTES:
        yield columns
    else:
        yield from in_columns(map(RawEntry, columns.leaves, columns.salts, columns.bodies))


def in_columns(entries: Iterable[RawEntry]) -> Iterator[Columns]:
    """``entries`` as they come, some at a time: 64, or fewer long ones. What came before an error is handed out."""
    held: list[RawEntry] = []
    size = 0
    try:
        for entry in entries:
            held.append(entry)
            size += len(entry.leaf) + len(entry.body or b"")
            if len(held) == _RUN_ENTRIES or size >= _RUN_BYTES:
                yield _columns(held)
                held, size = [], 0
    except ChainError:
        if held:
            yield _columns(held)
        raise
    if held:
        yield _columns(held)


def _columns(entries: Sequence[RawEntry]) -> Columns:
    return Columns(*zip(*((entry.leaf, entry.salt, entry.body) for entry in entries), strict=True))


def _decode_bodies(packed: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """As :func:`chain.entry.entry.decode_body`, for all; None, or what msgpack raises, when one is no body."""
    if max(map(len, packed)) > MAX_BODY_BYTES:
        return None
    maps = [*map(msgpack.unpackb, packed)]
    if {*map(type, maps)} != {dict}:
        return None
    if are_scalars(chain.from_iterable(map(dict.values, maps))):
        texts = {*map(type, chain.from_iterable(maps))} <= {str}
        again = [*map(pack, maps)] if texts and [*map(sorted, maps)] == [*map(list, maps)] else []
    else:
        again = [*map(encode_body, maps)]
    return maps if again == [*packed] else None
