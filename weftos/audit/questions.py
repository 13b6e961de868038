"""The requests that models were asked, put together again from the ledger and held to the hashes that it has of them.

An entry tells a request in terms of an earlier one (``prefix_of``, ``pieces``) and says what is new, but for what tools
gave: that is in their outcomes, and named (``results``). So each message is found by following the entries back; the
hash of all of them, and that of the request, show that nothing is missing and nothing is other than it was asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from chain.entry.reader import EntryRecord
from kernel.cell.conversation import Pieces, canonical_json, count_of, digest_of, list_hash, parts
from kernel.values import sha256_hex

MOST_MESSAGES = 100_000
MOST_CHARACTERS = 64 * 2**20
"""Of all messages of a request: a short entry can name a long one as often as it likes."""
_ASKED = ("provider", "model", "tools")
Told = list[tuple[bytes, int, Any]]
"""Of each message its digest, the characters of its canonical JSON, and itself."""


class Unreadable(Exception):
    """Why a request cannot be put together, or is not the one that was hashed."""


class Questions:
    """``entry`` gives those that were not read yet. What was read is kept, each message once."""

    def __init__(self, entry: Callable[[int], EntryRecord] | None = None) -> None:
        self._entry = entry
        self._told: dict[int, Told] = {}

    def read(self, record: EntryRecord) -> list[Any]:
        """The messages of a ``model.asked``. Raises :class:`Unreadable`."""
        if record.entry.seq not in self._told:
            for each in reversed(self._path(record)):
                self._told[each.entry.seq] = self._put_together(each)
        return [message for _, _, message in self._told[record.entry.seq]]

    def new(self, record: EntryRecord) -> list[Any]:
        """The messages that are new in a ``model.asked``. Raises :class:`Unreadable`."""
        seq, body, left = record.entry.seq, _body(record), MOST_CHARACTERS
        try:
            messages: list[Any] = json.loads(body["new"])
            named = json.loads(body.get("results", "[]"))
            if len({at for _, at, _ in named}) < len(named):  # each is looked for in files
                raise Unreadable(f"entry {seq} names a result twice")
            for place, at, count in named:
                messages[place]["content"] = content = self._result(at, seq)[:count]
                left -= len(content)
                if left < 0:
                    raise Unreadable(f"entry {seq}: the results are more than any node takes")
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise Unreadable(f"entry {seq} does not say what was asked: {error}") from error
        return messages

    def _result(self, at: int, seq: int) -> str:
        """What the tool gave whose outcome is entry ``at``, as ``seq`` says."""
        if self._entry is None or type(at) is not int or not 0 <= at < seq:
            raise Unreadable(f"entry {at}, of whose result entry {seq} tells, is not here")
        result: str = _body(self._entry(at), "tool.outcome", "no outcome of a tool")["result"]
        return result

    def _path(self, record: EntryRecord) -> list[EntryRecord]:
        """It and those in terms of which it is told, as far back as is not known."""
        path = [record]
        while True:
            seq, base = path[-1].entry.seq, _body(path[-1])["prefix_of"]
            if base == -1 or base in self._told:
                return path
            if self._entry is None or not 0 <= base < seq:
                raise Unreadable(f"entry {base}, in terms of which entry {seq} is told, is not here")
            path.append(self._entry(base))

    def _put_together(self, record: EntryRecord) -> Told:
        seq, body = record.entry.seq, _body(record)
        if body["truncated"]:
            raise Unreadable(f"entry {seq} does not hold all that it says: it was cut, or refused")
        try:
            new = [_read(message) for message in self.new(record)]
            known = self._told[body["prefix_of"]] if body["prefix_of"] >= 0 else []
            pieces = _pieces(body, len(new))
            if (count := count_of(pieces, len(known), len(new))) > MOST_MESSAGES:
                raise ValueError(f"{count} messages are more than any node takes")
        except (ValueError, TypeError, RecursionError) as error:
            raise Unreadable(f"entry {seq} does not say what was asked: {error}") from error
        told = [one for part in parts(pieces, known, new) for one in part]
        if (size := sum(characters for _, characters, _ in told)) > MOST_CHARACTERS:
            raise Unreadable(f"entry {seq}: {size} characters are more than any node takes")
        _check(body, told, seq)
        return told


def _read(message: Any) -> tuple[bytes, int, Any]:
    text = canonical_json(message)
    return digest_of(text), len(text), message


def _body(
    record: EntryRecord, kind: str = "model.asked", other: str = "no question to a model"
) -> dict[str, Any]:
    if record.erased:
        raise Unreadable(f"entry {record.entry.seq} is erased")
    if record.entry.kind != kind:
        raise Unreadable(f"entry {record.entry.seq} is {other}")
    return record.body


def _pieces(body: dict[str, Any], new: int) -> Pieces:
    """Entries of builds before conversations by reference begin like the one before, and go on with what is new."""
    if "pieces" in body:
        pieces: Pieces = json.loads(body["pieces"])
        return pieces
    before: Pieces = [[0, body["prefix_count"]]] if body["prefix_count"] else []
    return [*before, new] if new else before


def _check(body: dict[str, Any], told: Told, seq: int) -> None:
    messages: Any = [message for _, _, message in told]
    if "messages_hash" in body:
        messages = list_hash(b"".join(digest for digest, _, _ in told))
        if messages != body["messages_hash"]:
            raise Unreadable(f"entry {seq}: its messages are not those that were hashed")
    try:
        asked = json.loads(body.get("asked", ""))
        rest = {name: asked[name] for name in _ASKED} | {
            name: asked[name] for name in ("options",) if name in asked
        }
        request = canonical_json({"messages": messages, **rest})
    except (ValueError, KeyError, TypeError):
        if "messages_hash" in body:
            return  # what else was asked is too long to be held
        raise Unreadable(f"entry {seq} does not hold what its hash is of") from None
    if sha256_hex(request) != body["request_hash"]:
        raise Unreadable(f"entry {seq}: its request is not the one that was hashed")
