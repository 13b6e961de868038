"""The documents of a node's memory, as far as the node itself needs them: whose they are, who may read them, how large.

A document is a state record of the journal (``chain.vectors.document``) beside its entry ``memory.written``. Its text
goes from the record to the archive and is never held here: :class:`Documents` keeps some three hundred bytes of each,
whatever its length.

Who reads what: a person everything; a process what is shared, and what belongs to its own address or to one above it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from chain.vectors.document import EXCERPT_CHARACTERS, OWN, may_read, shown_hash
from kernel.errors import NotFound
from kernel.model.rows import as_rows, made, row
from kernel.operations.memory import Owner
from kernel.slice import Handler, Slice, Told
from kernel.values import sha256_hex


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one document. ``seq`` is the ledger entry that wrote it, ``text_hash`` what it says of the text
    (SHA-256, hexadecimal; empty when it was taken over from a snapshot that did not keep it), ``shown_hash`` what it
    says of title and beginning (:func:`chain.vectors.document.shown_hash`; empty for one that an earlier version
    wrote). ``pid``: the process that wrote it, 0 for a person, and for one that an earlier version wrote.
    """

    id: str
    owner: str
    scope: str
    bytes: int
    seq: int
    text_hash: str = ""
    shown_hash: str = ""
    pid: int = 0

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


class Documents(Slice):
    """All documents of the node by id, and what each owner has.

    Format 1 knew no hash of a document's text, format 2 none of what is shown of it, format 3 not who wrote it.
    """

    NAME = "documents"
    FORMAT = 4
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: _one_more(rows, ""),
        2: lambda rows: _one_more(rows, ""),
        3: lambda rows: _one_more(rows, 0),
    }

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}
        self._counts: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._own: dict[str, dict[str, None]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._facts)

    def hears(self) -> Mapping[str, Handler]:
        return {
            "memory.written": self._written,
            "memory.forgotten": lambda told: self._forget(told.body["id"]),
        }

    def _written(self, told: Told) -> None:
        body = told.body
        hashes = str(body.get("text_hash", "")), str(body.get("shown_hash", ""))
        pid = int(body.get("pid", 0))
        self._hold(Fact(body["id"], body["owner"], body["scope"], body["bytes"], told.seq, *hashes, pid))

    def facts(self) -> Iterator[Fact]:
        """All of them, oldest first."""
        yield from self._facts.values()

    def _hold(self, new: Fact) -> None:
        """Take a document in, in the place of one with the same id."""
        self._forget(new.id)
        fact = replace(new, owner=sys.intern(new.owner), scope=sys.intern(new.scope))
        self._facts[fact.id] = fact
        self._counts[fact.owner] += 1
        self._bytes[fact.owner] += fact.bytes
        self.bytes += fact.bytes
        if fact.pid and fact.scope == OWN:
            self._own.setdefault(fact.owner, {})[fact.id] = None

    def _forget(self, ident: str) -> None:
        fact = self._facts.pop(ident, None)
        if fact is None:
            return
        self._counts[fact.owner] -= 1
        self._bytes[fact.owner] -= fact.bytes
        self.bytes -= fact.bytes
        own = self._own.get(fact.owner, {})
        own.pop(ident, None)
        if not own:
            self._own.pop(fact.owner, None)
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

    def owners(self, most: int) -> list[Owner]:
        """Who has how much, those with the most documents first."""
        return [
            {"owner": owner, "documents": count, "bytes": self._bytes[owner]}
            for owner, count in sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        ]

    def written_for_itself(self, address: str, most: int) -> list[str]:
        """Documents that the process at ``address`` wrote for itself, oldest first: no person's, and none shared."""
        return list(islice(self._own.get(address, ()), most))

    def count_of(self, owner: str) -> int:
        """How many documents an owner has."""
        return self._counts[owner]

    def rows(self) -> Any:
        return [row(fact) for fact in self._facts.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(Fact, each))


def _one_more(rows: Any, field: str | int) -> Any:
    return [[*each, field] for each in as_rows(rows)]
