"""The memory's indices, kept in step with the archive's documents: catalog, BM25, vectors. For the archive's thread.

Nothing here waits or does I/O but on its own files. :meth:`MemoryIndex.step` does a bounded piece of what is to do, so
that questions can be answered in between; what it needs a model for waits in :meth:`wanted` until :meth:`embedded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chain.archive.archive import Archive
from chain.vectors.document import Document, may_read
from chain.vectors.kept_vectors import Matrix
from cognition.recall.bm25 import Bm25Index
from cognition.recall.fusion import Fused, reciprocal_rank
from cognition.recall.lexical import embed
from kernel.memory.requests import FoundDocument, FoundHit, IndexStats
from weftos.archive.embedder import Embedder
from weftos.archive.memory_catalog import Catalog, Held, Numbers
from weftos.archive.memory_vectors import MemoryVectors

STEP_DOCUMENTS = 256
EMBED_TEXTS = 32
EMBED_CHARACTERS = 8_000
SPARE_PLACES = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """One search. ``reader`` None: the operator. ``vector``: of the query, where the embedder is a model."""

    query: str
    k: int
    reader: str | None
    mode: str
    vector: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Documents that wait for a vector, and what to embed for each."""

    numbers: tuple[int, ...]
    hashes: tuple[bytes, ...]
    texts: tuple[str, ...]


class MemoryIndex:
    """The indices over ``archive.documents``, their files below ``directory``."""

    def __init__(self, archive: Archive, directory: Path, embedder: Embedder) -> None:
        self._archive = archive
        self._catalog = Catalog()
        self._bm25 = Bm25Index()
        self._vectors = MemoryVectors(directory, embedder)
        self._to_do: dict[str, int] = {}
        self._settled = False

    @property
    def embedder(self) -> Embedder:
        """Whose vectors these are."""
        return self._vectors.embedder

    @property
    def dimensions(self) -> int:
        """Of the index; 0 while the model has not answered for the first time."""
        return self._vectors.dimensions

    @property
    def pending(self) -> int:
        """How many documents have no vector yet, or are not indexed at all."""
        return len(self._to_do) + len(self._vectors.waiting)

    @property
    def waiting(self) -> bool:
        """Whether documents wait for a model."""
        return bool(self._vectors.waiting)

    def open(self) -> None:
        """Load the vector index, and delete those of other embedders. Raises OSError."""
        self._vectors.open()

    def close(self) -> None:
        """Save what is not saved. Raises OSError."""
        self._vectors.close(save=self._settled)

    def abandon(self) -> None:
        """Let go of the files as they are, which are to be removed."""
        self._vectors.close(save=False)

    def step(self) -> bool:
        """Do a piece of what is to do; whether more is left. Raises ChainError, OSError."""
        everything, changed = self._archive.ask(self._archive.documents.take_changed)
        if everything or self._catalog.places > 2 * len(self._catalog) + SPARE_PLACES:
            self._begin_again({**({} if everything else self._all()), **changed})
        else:
            for one, number in changed.items():
                self._to_do.pop(one, None)
                self._to_do[one] = number
        batch = dict(islice(self._to_do.items(), STEP_DOCUMENTS))
        if batch:
            self._settled = False
            numbers = [number for number in batch.values() if number >= 0]
            self._take(batch, self._archive.ask(lambda: self._archive.documents.get(numbers)))
        if not self._to_do and not self._settled:
            self._settle()
        return bool(self._to_do)

    def search(self, question: Question) -> tuple[tuple[FoundHit, ...], int]:
        """The results, best first, and how many documents are pending. Raises ChainError."""
        visible = self._catalog.visible(question.reader)
        depth = max(4 * question.k, 40)
        lists: dict[str, list[tuple[int, float]]] = {}
        if question.mode != "vector":
            places = self._bm25.search(question.query, depth, None if visible is None else visible.places)
            lists["bm25"] = [(self._catalog.number_at(place), score) for place, score in places]
        vector = self._query_vector(question)
        if vector is not None and self.dimensions:
            found = self._vectors.search(vector, depth, None if visible is None else visible.numbers)
            lists["vector"] = [hit for hit in found if hit[0] in self._catalog.by_number]
        weights = {"bm25": self._bm25.known(question.query)}
        return self._results(reciprocal_rank(lists, weights)[: question.k]), self.pending

    def visible_numbers(self, reader: str | None) -> Numbers | None:
        """The entries of what ``reader`` may find, rising; None for everything."""
        visible = self._catalog.visible(reader)
        return None if visible is None else visible.numbers

    def read(self, document_id: str, reader: str | None) -> FoundDocument | None:
        """One document with its whole text; None when there is none that ``reader`` may read."""
        held = self._catalog.by_id.get(document_id)
        numbers = [] if held is None else [held.number]
        found = self._archive.ask(lambda: self._archive.documents.get(numbers))
        if not found or not may_read(found[0].owner, found[0].scope, reader):
            return None
        return FoundDocument(*_shown(found[0]))

    def stats(self, fault: str) -> IndexStats:
        """``fault``: what holds the memory up, empty when nothing does."""
        return IndexStats(
            documents=len(self._catalog),
            shared=self._catalog.shared,
            owners=self._catalog.owners,
            text_bytes=self._catalog.text_bytes,
            pending=self.pending,
            skipped=self._archive.documents.skipped,
            embedder=self.embedder.name,
            dimensions=self.dimensions,
            vectors=self._vectors.indexed,
            kept=self._vectors.kept,
            index_bytes=self._vectors.index_bytes,
            rebuilt=self._vectors.rebuilt,
            fault=fault,
        )

    def reindex(self, fresh: bool) -> int:
        """Empty the indices; how many documents are to do. Raises OSError.

        With ``fresh``, or after an embedder had changed its dimension, the kept vectors go too.
        """
        self._vectors.clear(fresh)
        self._begin_again(self._all())
        return len(self._to_do)

    def wanted(self) -> Wanted:
        """The next documents that wait for a model. Raises ChainError."""
        numbers = list(islice(self._vectors.waiting, EMBED_TEXTS))
        held = self._archive.ask(lambda: self._archive.documents.get(numbers))
        self._vectors.waiting -= set(numbers) - {document.seq for document in held}
        return Wanted(
            tuple(document.seq for document in held),
            tuple(document.text_hash for document in held),
            tuple(document.searched[:EMBED_CHARACTERS] for document in held),
        )

    def check_dimensions(self, dimensions: int) -> None:
        """Raise VectorError when vectors of ``dimensions`` cannot be compared with those of the index."""
        self._vectors.check_dimensions(dimensions)

    def embedded(self, wanted: Wanted, vectors: Matrix) -> None:
        """Index the vectors of ``wanted``. Raises VectorError, OSError."""
        rows = [
            row
            for row, (number, text_hash) in enumerate(zip(wanted.numbers, wanted.hashes, strict=True))
            if number in self._vectors.waiting and self._catalog.by_number[number].text_hash == text_hash
        ]
        numbers, hashes = [wanted.numbers[row] for row in rows], [wanted.hashes[row] for row in rows]
        self._vectors.embedded(numbers, hashes, vectors[rows])
        if not self.pending:
            self._settle()

    def _query_vector(self, question: Question) -> Matrix | None:
        if question.mode == "bm25":
            return None
        return embed([question.query])[0] if self.embedder.lexical else question.vector

    def _results(self, fused: Sequence[Fused]) -> tuple[FoundHit, ...]:
        results = []
        for one in fused:
            held = self._catalog.by_number[one.document]
            parts = {name: {"rank": part.rank, "score": part.score} for name, part in one.parts.items()}
            results.append(FoundHit(*_shown(held.shown), held.cut, one.score, parts))
        return tuple(results)

    def _take(self, ids: Iterable[str], documents: Sequence[Document]) -> None:
        """Bring catalog, BM25 and vectors in step with ``documents``, which are all that there is of ``ids``."""
        for one in ids:
            self._to_do.pop(one, None)
            if (old := self._catalog.by_id.get(one)) is not None:
                self._drop(old, [document for document in documents if document.id == one])
        added: list[tuple[Held, str]] = []
        for document in documents:
            held = self._catalog.add(document)
            if held is None:
                self._archive.documents.skip()
                continue
            self._bm25.add(held.place, document.searched)
            added.append((held, document.searched))
        self._vectors.add(added)

    def _drop(self, old: Held, successors: Sequence[Document]) -> None:
        """Forget ``old``; its vector too, unless the same document comes back with the same text."""
        self._catalog.remove(old)
        self._bm25.remove(old.place)
        same = any(one.seq == old.number and one.text_hash == old.text_hash for one in successors)
        self._vectors.remove(old.number, keep=same)

    def _settle(self) -> None:
        self._settled = True
        self._vectors.settle(self._catalog.by_number)

    def _all(self) -> dict[str, int]:
        return {one: held.number for one, held in self._catalog.by_id.items()}

    def _begin_again(self, documents: Mapping[str, int]) -> None:
        """Index the words of all documents anew; vectors are compared one by one, and kept where they still fit."""
        self._catalog = Catalog()
        self._bm25 = Bm25Index()
        self._vectors.waiting.clear()
        self._to_do = {**self._to_do, **documents}
        self._settled = False


def _shown(document: Document) -> tuple[str, str, str, int, str, str, int, tuple[str, ...]]:
    return (
        document.id,
        document.title,
        document.text,
        document.seq,
        document.owner,
        document.scope,
        document.time_us,
        document.tags,
    )
