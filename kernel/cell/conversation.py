"""A list of messages, told in terms of another one that both sides know. Pure.

A message is known by its **digest**, the SHA-256 of its canonical JSON. A list is known by how many messages it has and
by the SHA-256 of their digests, one after the other; whoever keeps the digests can tell by that of any beginning of the
list whether it is meant. **Pieces** say how a list is put together: ``[first, behind]`` are messages of the known list,
from one up to before another, and a number is that many of those that are said, in their order. So a conversation that
goes on is ``[[0, 40], 2]``, and one whose window has slid ``[[0, 1], [7, 40], 2]``.

A cell tells its requests so (:class:`Conversation`), the node its ledger and the gateway.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgpack

from kernel.cell.protocol import Terms

DIGEST_BYTES = 32
Pieces = list[list[int] | int]
S = TypeVar("S", bound=Sequence[Any])


def canonical_json(value: Any) -> str:
    """Its text: keys sorted, no spaces. Raises ValueError for NaN, TypeError for what JSON cannot say."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def has_text_keys(value: Any) -> bool:
    """Whether every key in ``value`` is text, as JSON's are: others have another order when they are read back."""
    if isinstance(value, dict):
        return all(type(key) is str and has_text_keys(item) for key, item in value.items())
    return all(map(has_text_keys, value)) if isinstance(value, list | tuple) else True


def as_json(message: Any) -> Any:
    """``message`` as it is when it is read back. What JSON cannot say stays as it is, for others to refuse."""
    try:
        return message if has_text_keys(message) else json.loads(canonical_json(message))
    except (TypeError, ValueError, RecursionError):
        return message


def digest_of(text: str) -> bytes:
    """The digest of a message, of its canonical text."""
    return hashlib.sha256(text.encode()).digest()


def list_hash(digests: bytes | memoryview) -> str:
    """Hex hash of the list of messages with these digests."""
    return hashlib.sha256(digests).hexdigest()


def common_messages(known: bytes, digests: bytes) -> int:
    """With how many messages two lists begin alike."""
    whole = min(len(known), len(digests))
    if known[:whole] == digests[:whole]:
        return whole // DIGEST_BYTES
    count = 0
    while known[count : count + DIGEST_BYTES] == digests[count : count + DIGEST_BYTES]:
        count += DIGEST_BYTES
    return count // DIGEST_BYTES


def pieces_of(known: bytes, digests: bytes) -> Pieces:
    """How the second list is put together of the first and of what must be said."""
    count, behind = len(digests) // DIGEST_BYTES, len(known) // DIGEST_BYTES
    same = common_messages(known, digests)
    pieces: Pieces = [[0, same]] if same else []
    if same in (count, behind):
        return pieces if same == count else [*pieces, count - same]
    known_list = [known[at : at + DIGEST_BYTES] for at in range(0, len(known), DIGEST_BYTES)]
    places = {digest: place for place, digest in reversed(list(enumerate(known_list)))}
    due = same
    for at in range(same * DIGEST_BYTES, len(digests), DIGEST_BYTES):
        digest = digests[at : at + DIGEST_BYTES]
        place = due if due < behind and known_list[due] == digest else places.get(digest, -1)
        last = pieces[-1] if pieces else None
        if place < 0 and isinstance(last, int):
            pieces[-1] = last + 1
        elif place < 0:
            pieces.append(1)
        elif isinstance(last, list) and last[1] == place:
            last[1] = due = place + 1
        else:
            due = place + 1
            pieces.append([place, due])
    return pieces


def new_places(pieces: Pieces) -> Iterator[int]:
    """Where in the list that is put together those stand that are said."""
    at = 0
    for piece in pieces:
        if isinstance(piece, int):
            yield from range(at, at + piece)
            at += piece
        else:
            at += piece[1] - piece[0]


def count_of(pieces: Any, known: int, said: int) -> int:
    """How many messages that makes, of a list of ``known`` and ``said`` new ones. Raises ValueError for what is no such
    thing, whatever it is.
    """
    if not isinstance(pieces, list):
        raise ValueError("they are no list")
    taken = new = 0
    for piece in pieces:
        match piece:
            case [int() as first, int() as behind] if (
                type(first) is type(behind) is int and 0 <= first < behind <= known
            ):
                taken += behind - first
            case int() if type(piece) is int and piece > 0:
                new += piece
            case _:
                raise ValueError(f"{piece!r:.40} is no part of {known} messages and {said} new ones")
    if new != said:
        raise ValueError(f"they take {new} new messages of {said}")
    return taken + new


def parts(pieces: Pieces, known: S, said: S, width: int = 1) -> list[S]:
    """What the pieces take of ``known`` and ``said``, of which each message has ``width`` items."""
    found: list[S] = []
    at = 0
    for piece in pieces:
        if isinstance(piece, int):
            found.append(said[at * width : (at + piece) * width])  # type: ignore[arg-type]  # a slice is of its kind
            at += piece
        else:
            found.append(known[piece[0] * width : piece[1] * width])  # type: ignore[arg-type]
    return found


class Conversation:
    """A cell's side of one turn: what its node knows of it. That is ``history``, until a request was made; then that.

    ``packed``: the messages of the newest request, as they were when it was made.
    """

    def __init__(self, history: Sequence[dict[str, Any]]) -> None:
        self._history = history
        self.packed: list[bytes] = []
        self._digests = b""

    def told(self, messages: list[Any]) -> tuple[list[Any], Terms | None]:
        """Which of ``messages`` are to be said, as JSON has them, in terms of what is known; without terms all."""
        messages, packed = self._as_json(messages)
        try:
            packed += [msgpack.packb(message) for message in messages[len(packed) :]]
            digests = self._read(messages, packed)
            known = self._digests or self._read(self._history, [])
        except (TypeError, ValueError, OverflowError):  # no JSON: for the node to refuse, or for the link
            return messages, None
        self.packed, self._digests = packed, digests
        pieces = pieces_of(known, digests)
        if all(isinstance(piece, int) for piece in pieces):
            return messages, None
        said = [messages[place] for place in new_places(pieces)]
        return said, Terms(len(known) // DIGEST_BYTES, list_hash(known), pieces)

    def _as_json(self, messages: Sequence[Any]) -> tuple[list[Any], list[bytes]]:
        """The messages as JSON has them, and those packed with which the request before began: they have its bytes, so
        there is nothing in them that JSON reads otherwise.
        """
        packed: list[bytes] = []
        with suppress(TypeError, ValueError, OverflowError):
            for message, before in zip(messages, self.packed, strict=False):
                if msgpack.packb(message) != before:
                    break
                packed.append(before)
        return [*messages[: len(packed)], *map(as_json, messages[len(packed) :])], packed

    def _read(self, messages: Sequence[Any], packed: list[bytes]) -> bytes:
        """Their digests. Those that begin like the request before were read then."""
        same = 0
        for ours, before in zip(packed, self.packed, strict=False):
            if ours != before:
                break
            same += 1
        read = (digest_of(canonical_json(message)) for message in messages[same:])
        return self._digests[: same * DIGEST_BYTES] + b"".join(read)
