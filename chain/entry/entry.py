"""A ledger entry and its body, and the one byte string that each of them is.

An entry is a msgpack array of fixed order, ``[FORMAT, seq, time_us, node, pid, count, kind, subject, trace,
cause, commitment, previous]``; these bytes are the leaf of the tree. A body is a msgpack map with its keys
sorted. Both are *canonical*: msgpack in its shortest form, and whatever does not encode again to the very
same bytes is refused. So two programs can never read one leaf differently.

Leaf fields never hold user data. The body does, and is bound to its leaf by ``SHA-256(salt || body)`` alone:
erase body and salt, and nothing about the body can be learnt or guessed from the leaf, while every proof
still holds.

This is the hot path of the node: each record it makes passes through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from reprlib import repr as brief
from typing import Any

import msgpack

from chain.errors import BodyTooLarge, EntryError

FORMAT = 1
MAX_BODY_BYTES = 2**20
MAX_LEAF_BYTES = 1024
MAX_BODY_DEPTH = 32
SALT_BYTES = 32
ZERO_HASH = bytes(32)
MAX_INTEGER = 2**63 - 1

_NODE = re.compile(r"[a-z0-9-]{1,64}").fullmatch
_KIND = re.compile(r"[a-z][a-z_]{0,31}(?:\.[a-z][a-z_]{0,31}){0,2}").fullmatch
_SUBJECT = re.compile(r"[!-~]{0,64}").fullmatch
_FIELDS = (
    ("seq", int),
    ("time_us", int),
    ("node", str),
    ("pid", int),
    ("count", int),
    ("kind", str),
    ("subject", str),
    ("trace", bytes),
    ("cause", int),
    ("commitment", bytes),
    ("previous", bytes),
)
_SCALARS = frozenset((str, int, bytes, bool, type(None)))
_FLAT = _SCALARS | {list}
_TEXT = frozenset((str,))
LEAF_TYPES = (int, *(type_ for _, type_ in _FIELDS))
# One packer for all: a call of pack() runs to its end under the interpreter's lock, and an error resets it.
pack = msgpack.Packer(use_bin_type=True, strict_types=True).pack


@dataclass(slots=True, unsafe_hash=True)
class Entry:
    """One leaf of the ledger. Treat as frozen; it is not, because making it is on the hot path.

    seq: place in the ledger, from 0. time_us: microseconds since 1970, UTC, never falling. node: the origin.
    pid: the process that acted (0: the kernel). count: that pid's own counter, from 0. kind: one of
    ``chain.entry.kinds``. subject: at most 64 printable ASCII characters, an id made by the node, never user text.
    trace: 16 bytes or none. cause: seq of the entry that led to this one, always an earlier one; -1 for none.
    commitment: :func:`commit_body` of the body. previous: leaf hash of entry ``seq - 1``, zero bytes for
    entry 0.
    """

    seq: int
    time_us: int
    node: str
    pid: int
    count: int
    kind: str
    subject: str
    trace: bytes
    cause: int
    commitment: bytes
    previous: bytes


@lru_cache(maxsize=512)
def _is_name(node: str, kind: str) -> bool:
    return _NODE(node) is not None and _KIND(kind) is not None


def encode_entry(e: Entry) -> bytes:
    """The leaf. Raises :class:`EntryError` for a field that :func:`decode_entry` would not take back."""
    seq, time_us, node, pid, count, kind = e.seq, e.time_us, e.node, e.pid, e.count, e.kind
    subject, trace, cause, commitment, previous = e.subject, e.trace, e.cause, e.commitment, e.previous
    try:
        if (
            type(seq) is type(time_us) is type(pid) is type(count) is type(cause) is int
            and type(trace) is type(commitment) is type(previous) is bytes
            and -1 <= cause < seq <= MAX_INTEGER
            and 0 <= time_us <= MAX_INTEGER
            and 0 <= pid <= MAX_INTEGER
            and 0 <= count <= MAX_INTEGER
            and _SUBJECT(subject)
            and _is_name(node, kind)
            and len(commitment) == 32 == len(previous)
            and len(trace) in (0, 16)
        ):
            leaf: bytes = pack(
                [FORMAT, seq, time_us, node, pid, count, kind, subject, trace, cause, commitment, previous]
            )
            return leaf
    except TypeError:
        pass
    raise EntryError("; ".join(_faults(e)))


def _faults(e: Entry) -> list[str]:
    """Everything that is wrong with ``e``, in words."""
    faults = [
        f"{name} is {type(getattr(e, name)).__name__}, must be {wanted.__name__}"
        for name, wanted in _FIELDS
        if type(getattr(e, name)) is not wanted
    ]
    if faults:
        return faults
    for name in ("seq", "time_us", "pid", "count"):
        if not 0 <= getattr(e, name) <= MAX_INTEGER:
            faults.append(f"{name} is {getattr(e, name)}, must be 0 to {MAX_INTEGER}")
    if not -1 <= e.cause < e.seq:
        faults.append(f"cause is {e.cause}, must be -1 or an entry before {e.seq}")
    if not _NODE(e.node):
        faults.append(f"node is {e.node!r:.80}, must be 1 to 64 of a-z 0-9 -")
    if not _KIND(e.kind):
        faults.append(f"kind is {e.kind!r:.80}, must be dotted lower-case words")
    if not _SUBJECT(e.subject):
        faults.append(
            f"subject is {e.subject!r:.80}, must be at most 64 printable ASCII characters, no space"
        )
    if len(e.trace) not in (0, 16):
        faults.append(f"trace has {len(e.trace)} bytes, must have 0 or 16")
    for name in ("commitment", "previous"):
        if len(getattr(e, name)) != 32:
            faults.append(f"{name} has {len(getattr(e, name))} bytes, must have 32")
    return faults


def are_names(nodes: Iterable[str], kinds: Iterable[str]) -> bool:
    """Whether each may be the node, and the kind, of an entry."""
    return all(map(_NODE, {*nodes})) and all(map(_KIND, {*kinds}))


def are_subjects(subjects: Iterable[str]) -> bool:
    """Whether each may be the subject of an entry."""
    return all(map(_SUBJECT, {*subjects}))


def are_scalars(values: Iterable[object]) -> bool:
    """Whether a body may hold each of ``values`` as it is, with nothing in it to be sorted or looked at."""
    return _SCALARS.issuperset(map(type, values))


def decode_fields(leaf: bytes) -> list[Any]:
    """The fields in ``leaf``, the format first: as strict as :func:`decode_entry`, which is slower."""
    try:
        values = msgpack.unpackb(leaf, raw=False, strict_map_key=True)
        if type(values) is list and tuple(map(type, values)) == LEAF_TYPES:
            format, seq, time_us, node, pid, count, kind, subject, trace, cause, commitment, previous = values
            if (
                format == FORMAT
                and -1 <= cause < seq <= MAX_INTEGER
                and 0 <= time_us <= MAX_INTEGER
                and 0 <= pid <= MAX_INTEGER
                and 0 <= count <= MAX_INTEGER
                and _is_name(node, kind)
                and _SUBJECT(subject)
                and len(commitment) == 32 == len(previous)
                and len(trace) in (0, 16)
                and len(leaf) <= MAX_LEAF_BYTES
                and pack(values) == leaf
            ):
                return values
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError):
        pass
    return _doubtful_fields(leaf)


def decode_entry(leaf: bytes) -> Entry:
    """The entry in ``leaf``. Strict: field types, ranges, and canonical form. Raises :class:`EntryError`."""
    return Entry(*decode_fields(leaf)[1:])


def _doubtful_fields(leaf: bytes) -> list[Any]:
    """As :func:`decode_fields`, with words for everything that may be wrong."""
    if len(leaf) > MAX_LEAF_BYTES:
        raise EntryError(f"leaf of {len(leaf)} bytes, limit {MAX_LEAF_BYTES}")
    values = _unpack(leaf, "leaf")
    if type(values) is not list or len(values) != 1 + len(_FIELDS):
        raise EntryError(f"leaf is not a msgpack array of {1 + len(_FIELDS)} fields")
    if type(values[0]) is not int or values[0] != FORMAT:
        raise EntryError(f"leaf has format {brief(values[0])}, this version reads format {FORMAT}")
    if encode_entry(Entry(*values[1:])) != leaf:
        raise EntryError("leaf is not canonical: it encodes again to other bytes")
    return values


def encode_body(body: dict[str, Any]) -> bytes:
    """Canonical bytes of a body.

    Keys are strings, sorted at every depth; values are str, int (64 bits), bytes, bool, None, finite float,
    list or dict. Raises :class:`EntryError`, :class:`BodyTooLarge`.
    """
    try:
        kinds = {*map(type, body.values())}
        simple = kinds <= _SCALARS or (kinds <= _FLAT and all(map(_is_flat, body.values())))
        ordered = _in_order(tuple(body)) if simple else None
        if ordered is None:
            body = _canonical(body, 1)
        elif ordered:
            body = {key: body[key] for key in ordered}
        data: bytes = pack(body)
    except (TypeError, OverflowError, UnicodeEncodeError, AttributeError) as error:
        raise EntryError(f"body cannot be encoded: {error}") from error
    if len(data) > MAX_BODY_BYTES:
        raise BodyTooLarge(len(data), MAX_BODY_BYTES)
    return data


@lru_cache(maxsize=512)
def _in_order(keys: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The keys of a body in their order, none when that is how they stand; None when not all of them are text. Those of
    one kind are the same each time.
    """
    if not _TEXT.issuperset(map(type, keys)):
        return None
    ordered = tuple(sorted(keys))
    return () if ordered == keys else ordered


def _is_flat(value: Any) -> bool:
    """Whether ``value`` is a scalar, or a list of nothing but scalars."""
    return type(value) is not list or _SCALARS.issuperset(map(type, value))


def _canonical(value: Any, depth: int) -> Any:
    """``value`` with every map sorted. The general, slower way."""
    if depth > MAX_BODY_DEPTH:
        raise EntryError(f"body is nested deeper than {MAX_BODY_DEPTH}")
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise EntryError(f"a key of the body is {type(key).__name__}, must be str")
        return {key: _canonical(value[key], depth + 1) for key in sorted(value)}
    if kind is list:
        return [_canonical(item, depth + 1) for item in value]
    if kind is float and isfinite(value):
        return value
    raise EntryError(f"a value of the body is {kind.__name__} ({brief(value)}), which a body cannot hold")


def decode_body(data: bytes) -> dict[str, Any]:
    """The body in ``data``. Strict and bounded, as :func:`encode_body`. Raises :class:`EntryError`."""
    if len(data) > MAX_BODY_BYTES:
        raise BodyTooLarge(len(data), MAX_BODY_BYTES)
    body = _unpack(data, "body")
    if type(body) is not dict:
        raise EntryError(f"body is {type(body).__name__}, must be a map")
    if encode_body(body) != data:
        raise EntryError("body is not canonical: it encodes again to other bytes")
    return body


def _unpack(data: bytes, what: str) -> Any:
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise EntryError(f"{what} of {len(data)} bytes is not msgpack: {type(error).__name__}") from error


def commit_body(salt: bytes, body: bytes) -> bytes:
    """SHA-256(salt || body). ``salt`` is 32 random bytes, new for each entry."""
    return sha256(salt + body).digest()
