"""Operations on memory. A person sees every document."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, TypedDict

from kernel.operations.operation import Limit, Nothing, Noun, Operation

SearchMode = Literal["hybrid", "vector", "bm25"]
DocumentId = Annotated[str, Limit(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True)
class Remember:
    """A ``text`` with a ``title`` (empty: the first line). ``scope`` shared: for every process; own: for its ``owner``
    (an address; empty: people alone) and the processes below it."""

    text: str
    _: KW_ONLY
    title: Annotated[str, Limit(max_length=1024)] = ""
    scope: str = "shared"
    owner: Annotated[str, Limit(max_length=1100)] = ""


@dataclass(frozen=True, slots=True)
class Search:
    """The best ``k`` documents for a ``query``, by words and vectors (hybrid) or one of them."""

    query: str
    _: KW_ONLY
    k: int = 5
    mode: SearchMode = "hybrid"


@dataclass(frozen=True, slots=True)
class OfDocument:
    """A document, by its ``id``."""

    id: DocumentId


class Remembered(TypedDict):
    """The new document, and its entry."""

    id: str
    seq: int
    owner: str
    scope: str
    bytes: int


class Hit(TypedDict):
    """A document that was found; ``cut``: its text is its beginning; ``parts``: how each part of the search saw it."""

    id: str
    title: str
    text: str
    cut: bool
    score: float
    parts: dict[str, Any]
    owner: str
    scope: str
    seq: int
    time_us: int
    tags: list[str]


class Hits(TypedDict):
    """Best first. ``degraded``: why a part of the search is missing, else empty."""

    results: list[Hit]
    mode: str
    degraded: str
    embedder: str


class Document(TypedDict):
    """A document whole."""

    id: str
    title: str
    text: str
    owner: str
    scope: str
    seq: int
    bytes: int
    time_us: int
    tags: list[str]


class Forgotten(TypedDict):
    """What is gone, and the entry that it was written by."""

    id: str
    owner: str
    scope: str
    seq: int


class Owner(TypedDict):
    """What one owner has."""

    owner: str
    documents: int
    bytes: int


class MemoryStats(TypedDict):
    """``index``: what the archive says of it, or ``fault``: why it says nothing."""

    documents: int
    bytes: int
    owners: list[Owner]
    index: dict[str, Any]


class Reindexed(TypedDict):
    """How many documents are to be indexed."""

    documents: int


class Memory(Noun):
    """Documents that agents remember and find again."""

    stats = Operation(
        "GET", "/memory", Nothing, MemoryStats, "How much is remembered, by whom, and the index."
    )
    add = Operation("POST", "/memory", Remember, Remembered, "Remember a text.", recorded="memory_add")
    search = Operation("POST", "/memory/search", Search, Hits, "Search all documents, best first.")
    reindex = Operation(
        "POST",
        "/memory/reindex",
        Nothing,
        Reindexed,
        "Have the index built anew, in the background.",
        recorded="memory_reindex",
    )
    show = Operation("GET", "/memory/{id}", OfDocument, Document, "One document whole.")
    forget = Operation(
        "POST",
        "/memory/{id}/forget",
        OfDocument,
        Forgotten,
        "Take a document out of memory, and out of the index.",
        recorded="memory_forget",
    )
