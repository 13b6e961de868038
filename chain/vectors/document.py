"""A document of the memory, as it stands in the journal: the state record of table ``doc``, its key the id.

Pure, and light enough for the node: what is stored, what it may weigh, and who may read it. The value is msgpack
``{"id", "owner", "scope", "title", "text", "tags", "time_us", "seq"}``; ``seq`` is the ledger entry that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import msgpack

from chain.errors import ChainError

TABLE = "doc"
OWN, SHARED = "own", "shared"
SCOPES = (OWN, SHARED)

MAX_TEXT_BYTES = 256 * 2**10
MAX_TITLE_BYTES = 256
MAX_TAGS = 16
MAX_TAG_BYTES = 64
MAX_ID_CHARACTERS = 64
EXCERPT_CHARACTERS = 1_000  # of its text, which a search shows
MAX_OWNER_CHARACTERS = 1_200


class DocumentError(ChainError):
    """A document is not of the form that the memory keeps, or over a limit. The message names the part."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document. ``scope`` own: for its owner and the processes below it; shared: for every process."""

    id: str
    owner: str
    scope: str
    title: str
    text: str
    seq: int
    time_us: int
    tags: tuple[str, ...] = ()

    @property
    def text_hash(self) -> bytes:
        """SHA-256 of what is embedded: vectors are kept under it."""
        return sha256(self.searched.encode("utf-8", "surrogatepass")).digest()

    @property
    def searched(self) -> str:
        """What search looks at: title, tags and text."""
        return "\n".join(part for part in (self.title, " ".join(self.tags), self.text) if part)


def shown_hash(title: str, text: str) -> str:
    """SHA-256, hexadecimal, of what a search shows of a document: title, line feed, and the beginning of its text."""
    return sha256(f"{title}\n{text[:EXCERPT_CHARACTERS]}".encode("utf-8", "surrogatepass")).hexdigest()


def check_document(title: str, text: str, scope: str, tags: Sequence[str] = ()) -> None:
    """Raise DocumentError when these may not become a document. For the door: before anything is copied."""
    if len(text) > MAX_TEXT_BYTES or (size := _size("text", text)) > MAX_TEXT_BYTES:
        size = len(text) if len(text) > MAX_TEXT_BYTES else size
        raise DocumentError(f"a document of {size} bytes, limit {MAX_TEXT_BYTES}: split it")
    if not text.strip():
        raise DocumentError("a document without text")
    if len(title) > MAX_TITLE_BYTES or _size("title", title) > MAX_TITLE_BYTES:
        raise DocumentError(f"a title of {len(title)} characters, limit {MAX_TITLE_BYTES} bytes")
    if scope not in SCOPES:
        raise DocumentError(f"scope is {scope[:32]!r}, must be own or shared")
    if len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG_BYTES for tag in tags):
        raise DocumentError(f"at most {MAX_TAGS} tags of {MAX_TAG_BYTES} characters")


def encode_document(document: Document) -> bytes:
    """The value of the state record. Raises DocumentError."""
    check_document(document.title, document.text, document.scope, document.tags)
    value: bytes = msgpack.packb(asdict(document))
    return value


def decode_document(key: str, value: bytes) -> Document:
    """The document of a state record. Raises DocumentError."""
    try:
        fields = msgpack.unpackb(value)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise DocumentError(f"document {key[:64]}: not msgpack: {type(error).__name__}") from error
    if type(fields) is not dict:
        raise DocumentError(f"document {key[:64]}: not a table")
    texts: dict[str, Any] = {name: fields.get(name) for name in ("id", "owner", "scope", "title", "text")}
    numbers: dict[str, Any] = {name: fields.get(name) for name in ("seq", "time_us")}
    tags = fields.get("tags") or []
    if (
        not all(type(text) is str for text in texts.values())
        or not all(type(number) is int and 0 <= number < 2**63 for number in numbers.values())
        or type(tags) is not list
        or not all(type(tag) is str for tag in tags)
        or texts["id"] != key
    ):
        raise DocumentError(f"document {key[:64]}: not of the form that memory keeps")
    document = Document(**texts, **numbers, tags=tuple(tags))
    if len(key) > MAX_ID_CHARACTERS or len(document.owner) > MAX_OWNER_CHARACTERS:
        raise DocumentError(f"document {key[:64]}: id or owner is too long")
    check_document(document.title, document.text, document.scope, document.tags)
    return document


def readable_owners(address: str) -> frozenset[str]:
    """Whose own documents the process at ``address`` may read: its own, and those of every place above it."""
    parts = address.strip("/").split("/")
    above = {"/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return frozenset(above | {"/", address})


def may_read(owner: str, scope: str, reader: str | None) -> bool:
    """Whether ``reader`` (an address; None: the operator) may read a document of this owner and scope."""
    return reader is None or scope == SHARED or owner in readable_owners(reader)


def _size(what: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise DocumentError(f"the {what} holds half a character pair, which is no text") from error
