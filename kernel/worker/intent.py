"""No receipt, no run: what a worker demands before it executes anything."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgpack

from chain.entry.entry import Entry, commit_body, decode_body
from chain.errors import ChainError
from chain.notes.note import VerifierKey, parse
from chain.proofs.receipt import HeadCache, Receipt

SPENT_KEPT = 65_536


class IntentRefused(Exception):
    """The call is not covered by a valid intent; nothing ran. The message says which rule it breaks."""


class Spent:
    """Which intents were used. Remembers at least the last ``kept``; one older than it remembers counts as used."""

    def __init__(self, kept: int = SPENT_KEPT) -> None:
        self._kept = kept
        self._recent: set[int] = set()
        self._older: set[int] = set()
        self._floor = 0  # below it everything counts as used
        self._highest_older = -1
        self._highest_recent = -1

    def claim(self, seq: int) -> bool:
        """True the first time for each ``seq``."""
        if seq < self._floor or seq in self._recent or seq in self._older:
            return False
        self._recent.add(seq)
        if seq > self._highest_recent:
            self._highest_recent = seq
        if len(self._recent) >= self._kept:
            self._floor = max(self._floor, self._highest_older + 1)
            self._older, self._recent = self._recent, set()
            self._highest_older, self._highest_recent = self._highest_recent, -1
        return True


class IntentGate:
    """Decides whether a call may run, from its receipt alone.

    Its rules: the receipt proves an entry of *this node's* ledger (head signed with an Ed25519 key given
    here, of the log that the key names); the entry is a ``tool.intent``; the body is the one that the entry
    commits to; the body names this tool, the hash of exactly these arguments, and the present boot; and no
    intent is admitted twice.
    """

    def __init__(self, key: VerifierKey, boot: int) -> None:
        self._heads = {key.key_id: HeadCache(key)}
        self._boot = f"{boot:016x}"
        self._spent = Spent()

    def accept(self, key: VerifierKey) -> None:
        """``key`` is the node's too: it has changed its keys, or is about to."""
        self._heads.setdefault(key.key_id, HeadCache(key))

    def admit(self, tool: str, arguments: str, receipt: bytes, salt: bytes, body: bytes) -> int:
        """The intent's sequence number, which is used up by this. Raises :class:`IntentRefused`."""
        try:
            entry = self._proved(Receipt.decode(receipt))
            if entry.kind != "tool.intent":
                raise IntentRefused(f"entry {entry.seq} is a {entry.kind}, not a tool.intent")
            if commit_body(salt, body) != entry.commitment:
                raise IntentRefused(f"the body is not the one that entry {entry.seq} commits to")
            intent = decode_body(body)
        except ChainError as error:
            raise IntentRefused(f"no valid receipt: {error}") from error
        for field, wanted in (
            ("tool", tool),
            ("arguments_hash", sha256(arguments.encode()).hexdigest()),
            ("boot", self._boot),
        ):
            if intent.get(field) != wanted:
                found = str(intent.get(field))[:80]
                raise IntentRefused(f"intent {entry.seq} is for {field} {found!r}, this call has {wanted!r}")
        if not self._spent.claim(entry.seq):
            raise IntentRefused(f"intent {entry.seq} was used already; each runs once")
        return entry.seq

    def _proved(self, receipt: Receipt) -> Entry:
        """The entry that the receipt proves, under the key whose id its note bears. Raises a :class:`ChainError`."""
        ids = [line.key_id for line in parse(receipt.note).signatures]
        known = [heads for key_id, heads in self._heads.items() if key_id in ids]
        return (known or list(self._heads.values()))[-1].check(receipt)


def receipt_index(receipt: bytes) -> int:
    """The sequence number that a receipt claims, unchecked; -1 when it cannot be read."""
    try:
        fields: Any = msgpack.unpackb(receipt)
    except (ValueError, msgpack.UnpackException):
        return -1
    match fields:
        case [_, _, int(index), *_]:
            return index
        case _:
            return -1
