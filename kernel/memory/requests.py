"""What the node asks of the archive process (:mod:`weftos.archive`), and what that answers.

``status``, ``stats`` and ``rebuild`` take :class:`~kernel.operations.operation.Nothing`. ``rebuild`` answers the same
when the files are gone; what they held is then loaded again.

The vectors of texts go the other way: the archive asks with the notice ``embed``, whose words the node carries to the
gateway as they are, and back with the operation ``embedded`` (:mod:`kernel.memory.embeddings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel.operations.memory import SearchMode


@dataclass(frozen=True, slots=True)
class Durable:
    """``durable``, a notice: so many entries are on the disk."""

    size: int


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """What ``status`` answers: how many entries it holds, why it was built anew, and the fault that holds it up."""

    entries: int
    rebuilt: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """``log``: the newest entries ``before`` one, of a ``pid`` and a ``kind``."""

    limit: int = 100
    pid: int | None = None
    kind: str | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class AboutQuestion:
    """``about``: the entries from ``since`` on of these ``kinds`` that have one of the ``subjects``, or name the
    ``turn`` in their body; the newest where there are more than ``limit``.
    """

    kinds: list[str]
    subjects: list[str]
    turn: str
    since: int
    limit: int


@dataclass(frozen=True, slots=True)
class LogRows:
    """The answer to either, newest last. ``loaded``: of how many entries."""

    rows: list[Any]
    loaded: int


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """``sql``: one statement, and how many rows at most."""

    sql: str
    limit: int = 100


@dataclass(frozen=True, slots=True)
class SqlRows:
    """``columns``: [name, type] of each; ``cut``: why there are more rows, else empty; ``loaded``: of how many
    entries.
    """

    columns: list[Any]
    rows: list[Any]
    cut: str
    loaded: int


@dataclass(frozen=True, slots=True)
class SqlFault:
    """What is wrong with a statement; ``code`` is that of a :class:`kernel.errors.KernelError`."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The answer to ``sql``: one of the two."""

    found: SqlRows | None = None
    fault: SqlFault | None = None


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """``search``. ``owner``: the address that reads (it sees shared documents, its own and those of the places above
    it); None: the operator, who sees all. ``vector``: of the query (little-endian float32), when it is known.
    """

    query: str
    k: int = 5
    owner: str | None = None
    mode: SearchMode = "hybrid"
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document; what ``read`` answers, with its whole ``text``."""

    id: str
    title: str
    text: str
    seq: int
    owner: str
    scope: str
    time_us: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundHit(FoundDocument):
    """A result: ``text`` is the beginning of its text, ``cut`` whether there is more of it; ``parts`` has {rank, score}
    for each part of the search that found it (bm25, vector).
    """

    cut: bool
    score: float
    parts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer to ``search``, the best first. ``degraded``: why a part of it is missing, else empty; ``pending``: how
    many documents have no vector yet.
    """

    results: tuple[FoundHit, ...]
    mode: str
    degraded: str
    pending: int
    embedder: str


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """``read``: one document, for ``owner`` as in :class:`SearchQuestion`. One that is not there and one that may not
    be read give the same error.
    """

    id: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What ``stats`` answers. ``skipped``: records that are no documents; ``rebuilt``: why the vectors' index was built
    anew.
    """

    documents: int
    shared: int
    owners: int
    text_bytes: int
    pending: int
    skipped: int
    embedder: str
    dimensions: int
    vectors: int
    kept: int
    index_bytes: int
    rebuilt: str | None
    fault: str


@dataclass(frozen=True, slots=True)
class ReindexQuestion:
    """``reindex``: throw the index away and build it again; with ``fresh``, or after an embedder changed its dimension,
    the kept vectors too.
    """

    fresh: bool = False


@dataclass(frozen=True, slots=True)
class ToIndex:
    """Its answer, at once: how many documents there are to index."""

    documents: int
