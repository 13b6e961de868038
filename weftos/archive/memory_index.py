"""The memory's indices, kept in step with the archive's documents: catalog, BM25, vectors. For the archive's thread.

Nothing here waits or does I/O but on its own files. :meth:`MemoryIndex.step` does a bounded piece of what is to do, so
that questions can be answered in between; what it needs a model for waits in :meth:`wanted` until :meth:`embedded`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from chain.archive.archive import Archive
from chain.vectors.document import Document, may_read
from chain.vectors.kept_vectors import Matrix
from chain.vectors.vectors import VectorError, VectorIndex, directory_of
from cognition.recall.bm25 import Bm25Index
from cognition.recall.fusion import Fused, reciprocal_rank
from cognition.recall.lexical import embed
from weftos.archive.embedder import Embedder
from weftos.archive.memory_catalog import Catalog, Held, Numbers

STEP_DOCUMENTS = 256
EMBED_TEXTS = 32
EMBED_CHARACTERS = 8_000
LEAST_LEXICAL_SIMILARITY = 0.1
SAVE_AFTER = 1_000
SPARE_PLACES = 10_000

_FOLDER = re.compile(r"(?P<embedder>.+)-(?P<dimensions>[1-9][0-9]{0,4})")


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
        self._directory = directory
        self.embedder = embedder
        self._catalog = Catalog()
        self._bm25 = Bm25Index()
        self._vectors: VectorIndex | None = None
        self._to_do: dict[str, int] = {}
        self._waiting: set[int] = set()
        self._settled = False
        self._other_dimensions = False
        self.rebuilt: str | None = None

    @property
    def dimensions(self) -> int:
        """Of the index; 0 while the model has not answered for the first time."""
        return self._vectors.dimensions if self._vectors is not None else 0

    @property
    def pending(self) -> int:
        """How many documents have no vector yet, or are not indexed at all."""
        return len(self._to_do) + len(self._waiting)

    @property
    def waiting(self) -> bool:
        """Whether documents wait for a model."""
        return bool(self._waiting)

    def open(self) -> None:
        """Load the vector index, and delete those of other embedders. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        dimensions = self.embedder.dimensions
        for path in sorted(self._directory.iterdir()):
            match = _FOLDER.fullmatch(path.name)
            ours = match is not None and match["embedder"] == directory_of(self.embedder.name)
            if match is not None and ours and dimensions in (0, int(match["dimensions"])):
                dimensions = int(match["dimensions"])
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        if dimensions:
            self._open_vectors(dimensions)

    def close(self) -> None:
        """Save what is not saved. Raises OSError."""
        if self._vectors is not None:
            if self._vectors.unsaved and self._settled:
                self._vectors.save()
            self._vectors.close()

    def abandon(self) -> None:
        """Let go of the files as they are, which are to be removed."""
        if self._vectors is not None:
            self._vectors.close()

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

    def search(self, question: Question) -> tuple[list[dict[str, Any]], int]:
        """The results, best first, and how many documents are pending. Raises ChainError."""
        visible = self._catalog.visible(question.reader)
        depth = max(4 * question.k, 40)
        lists: dict[str, list[tuple[int, float]]] = {}
        if question.mode != "vector":
            places = self._bm25.search(question.query, depth, None if visible is None else visible.places)
            lists["bm25"] = [(self._catalog.number_at(place), score) for place, score in places]
        vector = self._query_vector(question)
        if vector is not None and self._vectors is not None:
            found = self._vectors.search(vector, depth, None if visible is None else visible.numbers)
            least = LEAST_LEXICAL_SIMILARITY if self.embedder.lexical else 0.0
            lists["vector"] = [
                (number, score)
                for number, score in found
                if score > least and number in self._catalog.by_number
            ]
        weights = {"bm25": self._bm25.known(question.query)}
        return self._results(reciprocal_rank(lists, weights)[: question.k]), self.pending

    def visible_numbers(self, reader: str | None) -> Numbers | None:
        """The entries of what ``reader`` may find, rising; None for everything."""
        visible = self._catalog.visible(reader)
        return None if visible is None else visible.numbers

    def read(self, document_id: str, reader: str | None) -> dict[str, Any] | None:
        """One document with its whole text; None when there is none that ``reader`` may read."""
        held = self._catalog.by_id.get(document_id)
        numbers = [] if held is None else [held.number]
        found = self._archive.ask(lambda: self._archive.documents.get(numbers))
        if not found or not may_read(found[0].owner, found[0].scope, reader):
            return None
        return _told(found[0])

    def stats(self) -> dict[str, Any]:
        vectors = self._vectors
        return {
            "documents": len(self._catalog),
            "shared": self._catalog.shared,
            "owners": self._catalog.owners,
            "text_bytes": self._catalog.text_bytes,
            "embedder": self.embedder.name,
            "dimensions": self.dimensions,
            "vectors": len(vectors) if vectors is not None else 0,
            "pending": self.pending,
            "kept": len(vectors.kept) if vectors is not None else 0,
            "index_bytes": vectors.graph_bytes if vectors is not None else 0,
            "skipped": self._archive.documents.skipped,
            "rebuilt": self.rebuilt,
        }

    def reindex(self, fresh: bool) -> int:
        """Empty the indices; how many documents are to do. Raises OSError.

        With ``fresh``, or after an embedder had changed its dimension, the kept vectors go too.
        """
        fresh = fresh or self._other_dimensions
        self._other_dimensions = False
        if self._vectors is not None:
            self._vectors.clear(forget=fresh)
            if fresh and not self.embedder.dimensions:
                self._vectors.close()
                shutil.rmtree(self._folder(self._vectors.dimensions))
                self._vectors = None
        self._begin_again(self._all())
        return len(self._to_do)

    def wanted(self) -> Wanted:
        """The next documents that wait for a model. Raises ChainError."""
        numbers = list(islice(self._waiting, EMBED_TEXTS))
        held = self._archive.ask(lambda: self._archive.documents.get(numbers))
        self._waiting -= set(numbers) - {document.seq for document in held}
        return Wanted(
            tuple(document.seq for document in held),
            tuple(document.text_hash for document in held),
            tuple(document.searched[:EMBED_CHARACTERS] for document in held),
        )

    def check_dimensions(self, dimensions: int) -> None:
        """Raise VectorError when vectors of ``dimensions`` cannot be compared with those of the index."""
        expected = self.dimensions or self.embedder.dimensions
        if expected and dimensions != expected:
            self._other_dimensions = True
            raise VectorError(
                f"embedder {self.embedder.name} answered {dimensions} dimensions, its index has {expected}: "
                "set the right embedder, or begin anew with `weftos memory reindex`"
            )

    def embedded(self, wanted: Wanted, vectors: Matrix) -> None:
        """Index the vectors of ``wanted``. Raises VectorError, OSError."""
        self.check_dimensions(vectors.shape[1])
        if self._vectors is None:
            self._open_vectors(vectors.shape[1])
        rows = [
            row
            for row, (number, text_hash) in enumerate(zip(wanted.numbers, wanted.hashes, strict=True))
            if number in self._waiting and self._catalog.by_number[number].text_hash == text_hash
        ]
        self._put([wanted.numbers[row] for row in rows], [wanted.hashes[row] for row in rows], vectors[rows])
        for row in rows:
            self._waiting.remove(wanted.numbers[row])
        if not self._waiting and not self._to_do:
            self._settle()

    def _query_vector(self, question: Question) -> Matrix | None:
        if question.mode == "bm25":
            return None
        return embed([question.query])[0] if self.embedder.lexical else question.vector

    def _results(self, fused: Sequence[Fused]) -> list[dict[str, Any]]:
        results = []
        for one in fused:
            held = self._catalog.by_number[one.document]
            parts = {name: {"rank": part.rank, "score": part.score} for name, part in one.parts.items()}
            results.append({**_told(held.shown), "cut": held.cut, "score": one.score, "parts": parts})
        return results

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
        self._take_vectors(added)

    def _drop(self, old: Held, successors: Sequence[Document]) -> None:
        """Forget ``old``; its vector too, unless the same document comes back with the same text."""
        self._catalog.remove(old)
        self._bm25.remove(old.place)
        self._waiting.discard(old.number)
        same = any(one.seq == old.number and one.text_hash == old.text_hash for one in successors)
        if self._vectors is not None and not same:
            self._vectors.remove(old.number)

    def _take_vectors(self, added: Sequence[tuple[Held, str]]) -> None:
        vectors = self._vectors
        missing = [
            (held, text)
            for held, text in added
            if vectors is None or vectors.hash_of(held.number) != held.text_hash
        ]
        kept = [held for held, _ in missing if vectors is not None and held.text_hash in vectors.kept]
        if vectors is not None:
            vectors.put_kept([held.number for held in kept], [held.text_hash for held in kept])
            missing = [(held, text) for held, text in missing if held.text_hash not in vectors.kept]
        if not self.embedder.lexical:
            self._waiting.update(held.number for held, _ in missing)
            return
        rows = embed([text for _, text in missing])
        self._put([held.number for held, _ in missing], [held.text_hash for held, _ in missing], rows)

    def _put(self, numbers: Sequence[int], hashes: Sequence[bytes], rows: Matrix) -> None:
        """Index rows that are not all zeros: a text without words is near nothing."""
        if self._vectors is not None and len(numbers):
            some = np.flatnonzero(rows.any(axis=1)).tolist()
            self._vectors.put([numbers[at] for at in some], [hashes[at] for at in some], rows[some])

    def _settle(self) -> None:
        """Everything is indexed: take out what is no document any more, and save when it is worth it."""
        self._settled = True
        vectors = self._vectors
        if vectors is None:
            return
        for number in vectors.documents():
            if number not in self._catalog.by_number:
                vectors.remove(number)
        if not self._waiting:
            vectors.forget_unused()
        if vectors.unsaved > max(SAVE_AFTER, len(vectors) // 10):
            vectors.save()

    def _all(self) -> dict[str, int]:
        return {one: held.number for one, held in self._catalog.by_id.items()}

    def _begin_again(self, documents: Mapping[str, int]) -> None:
        """Index the words of all documents anew; vectors are compared one by one, and kept where they still fit."""
        self._catalog = Catalog()
        self._bm25 = Bm25Index()
        self._waiting.clear()
        self._to_do = {**self._to_do, **documents}
        self._settled = False

    def _folder(self, dimensions: int) -> Path:
        return self._directory / f"{directory_of(self.embedder.name)}-{dimensions}"

    def _open_vectors(self, dimensions: int) -> None:
        vectors = VectorIndex(self._folder(dimensions), self.embedder.name, dimensions)
        try:
            vectors.open()
        except OSError:
            with suppress(OSError):
                vectors.close()
            raise
        self._vectors = vectors
        self.rebuilt = vectors.rebuilt


def _told(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "seq": document.seq,
        "owner": document.owner,
        "scope": document.scope,
        "time_us": document.time_us,
        "tags": list(document.tags),
    }
