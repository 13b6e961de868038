"""The documents of a node's memory, as far as the node itself needs them: whose they are, who may read them, how large.

A document is a state record of the journal (``chain.vectors.document``) beside its entry ``memory.written``. Its text
goes from the record to the archive and is never held here: :class:`Documents` keeps some three hundred bytes of each,
whatever its length. Pure: drafts and decisions, nothing is written or asked.

Who reads what: a person everything; a process what is shared, and what belongs to its own address or to one above it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from chain.ledger.ledger import Draft, StateChange
from chain.vectors.document import (
    EXCERPT_CHARACTERS,
    TABLE,
    Document,
    DocumentError,
    encode_document,
    may_read,
    shown_hash,
)
from kernel.bounds import Bounds
from kernel.errors import Busy, Invalid, NotFound
from kernel.values import cut_bytes, sha256_hex

DERIVED_TITLE_BYTES = 80
KEPT_FOR_PERSONS = 10
"""One part in so many of the node's memory is filled by no process."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one document. ``seq`` is the ledger entry that wrote it, ``text_hash`` what it says of the text
    (SHA-256, hexadecimal; empty when it was taken over from a snapshot that did not keep it), ``shown_hash`` what it
    says of title and beginning (:func:`chain.vectors.document.shown_hash`; empty for one that an earlier version
    wrote).
    """

    id: str
    owner: str
    scope: str
    bytes: int
    seq: int
    text_hash: str = ""
    shown_hash: str = ""

    def is_text(self, text: str) -> bool:
        """Whether ``text`` is what was written, as far as is known."""
        return self.text_hash in ("", sha256_hex(text))

    def is_shown(self, title: str, text: str) -> bool:
        """Whether ``title`` and the beginning of ``text`` are what was written, as far as is known."""
        return self.shown_hash in ("", shown_hash(title, text))

    def may_begin(self, text: str) -> bool:
        """Whether the document is longer than ``text``, which is no more than what a search shows of it."""
        size = len(text.encode("utf-8", "surrogatepass"))
        return len(text) <= EXCERPT_CHARACTERS and size < self.bytes


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document before it is written. ``owner`` is an address or ``operator``; no title: its first line. ``pid``: of
    the process that writes it, 0 for a person.
    """

    owner: str
    scope: str
    title: str
    text: str
    time_us: int
    trace: bytes
    cause: int
    pid: int = 0


class Documents:
    """All documents of the node by id, and what each owner has. Changed only by the state's reducer."""

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._facts)

    def written(self, body: dict[str, Any], seq: int) -> None:
        """Apply ``memory.written``."""
        hashes = str(body.get("text_hash", "")), str(body.get("shown_hash", ""))
        self.hold(Fact(body["id"], body["owner"], body["scope"], body["bytes"], seq, *hashes))

    def facts(self) -> Iterator[Fact]:
        """All of them, oldest first."""
        yield from self._facts.values()

    def hold(self, new: Fact) -> None:
        """Take a document in, in the place of one with the same id."""
        self.forgotten(new.id)
        fact = replace(new, owner=sys.intern(new.owner), scope=sys.intern(new.scope))
        self._facts[fact.id] = fact
        self._counts[fact.owner] += 1
        self._bytes[fact.owner] += fact.bytes
        self.bytes += fact.bytes

    def forgotten(self, ident: str) -> None:
        """Apply ``memory.forgotten``. One that is not there changes nothing."""
        fact = self._facts.pop(ident, None)
        if fact is None:
            return
        self._counts[fact.owner] -= 1
        self._bytes[fact.owner] -= fact.bytes
        self.bytes -= fact.bytes
        if not self._counts[fact.owner]:
            del self._counts[fact.owner], self._bytes[fact.owner]

    def may_read(self, ident: str, reader: str | None) -> bool:
        """Whether there is such a document and ``reader`` (an address, None for a person) may see it."""
        fact = self._facts.get(ident)
        return fact is not None and may_read(fact.owner, fact.scope, reader)

    def readable(self, ident: str, reader: str | None) -> Fact:
        """The document, if ``reader`` may see it. Raises NotFound, in the same words when it is merely not allowed."""
        if not self.may_read(ident, reader):
            raise NotFound(f"no document {ident[:40]!r} in memory")
        return self._facts[ident]

    def owners(self, most: int) -> list[dict[str, Any]]:
        """Who has how much, those with the most documents first."""
        return [
            {"owner": owner, "documents": count, "bytes": self._bytes[owner]}
            for owner, count in sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        ]

    def check_room(self, owner: str, size: int, bounds: Bounds, *, by_process: bool) -> None:
        """Raises Busy when a document of ``size`` bytes has no place: for a process that writes sooner than for a
        person.
        """
        for what, held, limit, shared in (
            (f"documents of {owner}", self._counts[owner] + 1, bounds.documents_per_owner, False),
            ("documents of this node", len(self) + 1, bounds.documents, True),
            ("bytes of all documents", self.bytes + size, bounds.documents_bytes, True),
        ):
            kept = limit // KEPT_FOR_PERSONS if shared and by_process else 0
            if held > limit - kept:
                whose = f" less {kept} that are kept for persons" if kept else ""
                raise Busy(
                    f"memory is full: this would make {held} {what}, limit {limit}{whose}; forget some first"
                )


def draft_document(
    new: NewDocument, documents: Documents, bounds: Bounds, seq: int
) -> tuple[str, tuple[Draft | StateChange, ...]]:
    """The id and the records of a document whose entry will be written as ``seq``. Raises Invalid, Busy."""
    title = " ".join(new.title.split()) or _first_line(new.text)
    ident = f"d{seq}"
    document = Document(ident, new.owner, new.scope, title, new.text, seq, new.time_us)
    try:
        value = encode_document(document)
    except DocumentError as error:
        raise Invalid(str(error)) from error
    size = len(new.text.encode())
    documents.check_room(new.owner, size, bounds, by_process=new.pid != 0)
    body = {
        "id": ident,
        "owner": new.owner,
        "scope": new.scope,
        "text_hash": sha256_hex(new.text),
        "bytes": size,
        "title": title,
        "shown_hash": shown_hash(title, new.text),
    }
    draft = Draft("memory.written", body, new.pid, ident, new.trace, new.cause)
    return ident, (draft, StateChange(TABLE, ident, value))


def _first_line(text: str) -> str:
    """The beginning of the first line that says anything."""
    line = next((line for line in text[:4096].splitlines() if line.strip()), "")
    return cut_bytes(" ".join(line.split()), DERIVED_TITLE_BYTES)[0]


def draft_forgetting(ident: str, by: str, trace: bytes, cause: int) -> tuple[Draft | StateChange, ...]:
    """The records that take a document out of memory."""
    draft = Draft("memory.forgotten", {"id": ident, "by": by}, 0, ident, trace, cause)
    return draft, StateChange(TABLE, ident, None)
