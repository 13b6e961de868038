"""The records of a document that is written or forgotten. Pure: drafts and decisions, nothing is written or asked."""

from __future__ import annotations

from dataclasses import dataclass

from chain.entry.draft import Draft, StateChange
from chain.vectors.document import TABLE, Document, DocumentError, encode_document, shown_hash
from kernel.errors import Invalid
from kernel.values import cut_bytes, sha256_hex

DERIVED_TITLE_BYTES = 80


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

    @property
    def size_bytes(self) -> int:
        """Of its text, as UTF-8."""
        return len(self.text.encode())


def draft_document(new: NewDocument, seq: int) -> tuple[str, tuple[Draft | StateChange, ...]]:
    """The id and the records of a document whose entry will be written as ``seq``. Raises Invalid."""
    title = " ".join(new.title.split()) or _first_line(new.text)
    ident = f"d{seq}"
    document = Document(ident, new.owner, new.scope, title, new.text, seq, new.time_us)
    try:
        value = encode_document(document)
    except DocumentError as error:
        raise Invalid(str(error)) from error
    body = {
        "id": ident,
        "owner": new.owner,
        "scope": new.scope,
        "text_hash": sha256_hex(new.text),
        "bytes": new.size_bytes,
        "title": title,
        "shown_hash": shown_hash(title, new.text),
        "pid": new.pid,
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
