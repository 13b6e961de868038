"""The nearest of many vectors: an HNSW graph (Malkov and Yashunin 2016, by hnswlib) that survives on disk.

A *document* here is a number with the hash of its text. The index can be older than the documents: who owns it compares
:meth:`VectorIndex.hash_of` and puts what is missing, which costs no embedding as long as the vector is kept.

A filter is an array of allowed documents, never a Python callback (that makes hnswlib ten times slower). Few allowed
documents are compared one by one, exactly; of many, more neighbours are asked for than wanted and the others masked
out, and more again when that left too few. Similarity is the inner product of vectors of length 1: 1 is the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import hnswlib
import numpy as np
import numpy.typing as npt

from chain.disk import Disk
from chain.errors import ChainError
from chain.vectors.files import KEPT, LABEL, IndexFiles, UnfitIndex
from chain.vectors.kept_vectors import KeptVectors, Matrix

Numbers = npt.NDArray[np.int64]
Found = list[tuple[int, float]]

LINKS = 16
BUILD_EFFORT = 100
SEARCH_EFFORT = 64
FIRST_CAPACITY = 1024
EXACT_DOCUMENTS = 2_000
EXACT_CHUNK = 20_000
MOST_ASKED = 2_000
THREADS = max(1, min(4, os.cpu_count() or 1))
_SEED = 1


class VectorError(ChainError):
    """Vectors are not of the form this index takes: their number, their dimension, or a number that is none."""


def directory_of(embedder: str) -> str:
    """The folder name of an embedder: readable, and different for each."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in embedder)
    digest = sha256(embedder.encode()).hexdigest()[:8]
    return f"{plain.strip('.')[:48]}-{digest}"


def unit_vectors(vectors: Matrix, count: int, dimensions: int) -> Matrix:
    """``vectors`` scaled to length 1, all-zero ones left. Raises VectorError unless (count, dimensions), finite."""
    if vectors.shape != (count, dimensions):
        raise VectorError(f"vectors of shape {vectors.shape}, expected ({count}, {dimensions})")
    if not np.isfinite(vectors).all():
        raise VectorError("a vector holds a number that is not finite (NaN or infinity)")
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class VectorIndex:
    """The index of ``embedder`` in ``directory``. For one thread.

    ``rebuilt``: why what was on disk could not be used, or None. Documents are whole numbers from 0. One class, since
    the tables of places mean nothing without the graph that they are places in: both are begun anew together.
    """

    def __init__(self, directory: Path, embedder: str, dimensions: int, disk: Disk | None = None) -> None:
        self._directory = directory
        self.embedder = embedder
        self.dimensions = dimensions
        self.kept = KeptVectors(directory / KEPT, embedder, dimensions)
        self._files = IndexFiles(directory, embedder, dimensions, disk or Disk())
        self._unsaved = 0
        self.rebuilt: str | None = None
        self._start()

    def _start(self, capacity: int = FIRST_CAPACITY) -> None:
        self._graph = hnswlib.Index("ip", self.dimensions)
        self._graph.init_index(capacity, LINKS, BUILD_EFFORT, _SEED, allow_replace_deleted=True)
        self._numbers: dict[int, int] = {}
        self._hashes: dict[int, bytes] = {}
        self._uses: dict[bytes, int] = {}
        self._documents = np.full(capacity, -1, np.int64)
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def unsaved(self) -> int:
        """Changes since the last save."""
        return self._unsaved

    @property
    def graph_bytes(self) -> int:
        return int(self._graph.index_file_size())

    def documents(self) -> list[int]:
        """Every document in the index."""
        return list(self._numbers)

    def hash_of(self, document: int) -> bytes | None:
        """The hash of the text whose vector stands for ``document``; None when it is not in the index."""
        return self._hashes.get(document)

    def open(self) -> None:
        """Load what is on disk, or start empty. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.kept.open()
        self.rebuilt = self.kept.dropped or None
        try:
            found = self._files.read(FIRST_CAPACITY)
            if found is not None:
                self._load(*found)
        except UnfitIndex as error:
            self.rebuilt = str(error)
            self._start()
        self._files.sweep()

    def close(self) -> None:
        self.kept.close()

    def put(self, documents: Sequence[int], hashes: Sequence[bytes], vectors: Matrix) -> None:
        """Index ``vectors`` (one row a document, any length) in place of what these documents had; keep them.

        Raises VectorError, and OSError when they cannot be kept.
        """
        rows = unit_vectors(vectors, len(documents), self.dimensions)
        if len(hashes) != len(documents):
            raise VectorError(f"{len(hashes)} hashes for {len(documents)} documents")
        for document in documents:
            self.remove(document)
        for text_hash, row in zip(hashes, rows, strict=True):
            self.kept.put(text_hash, row)
        self._insert(documents, hashes, rows)

    def put_kept(self, documents: Sequence[int], hashes: Sequence[bytes]) -> None:
        """As :meth:`put`, with vectors that are kept already."""
        rows = [self.kept.row_of(text_hash) for text_hash in hashes]
        if -1 in rows or len(hashes) != len(documents):
            raise VectorError(f"{rows.count(-1)} of {len(documents)} vectors are not kept")
        for document in documents:
            self.remove(document, forget=False)
        self._insert(documents, hashes, self.kept.vectors(rows))

    def remove(self, document: int, forget: bool = True) -> None:
        """Take ``document`` out, if it is there, and forget its vector when no other document has the same text."""
        number = self._numbers.pop(document, None)
        if number is None:
            return
        text_hash = self._hashes.pop(document)
        self._graph.mark_deleted(number)
        self._documents[number] = -1
        self._unsaved += 1
        self._uses[text_hash] -= 1
        if not self._uses[text_hash]:
            del self._uses[text_hash]
            if forget:
                self.kept.forget(text_hash)

    def clear(self, forget: bool = False) -> None:
        """Start again with nothing in the index; ``forget`` the kept vectors too. Raises OSError."""
        self._start()
        self._unsaved += 1
        if forget:
            self.kept.clear()

    def _insert(self, documents: Sequence[int], hashes: Sequence[bytes], rows: Matrix) -> None:
        if not documents:
            return
        numbers = np.arange(self._next, self._next + len(documents))
        needed = len(self._numbers) + len(documents)
        if needed > self._graph.get_max_elements():
            self._graph.resize_index(max(needed, 2 * self._graph.get_max_elements()))
        if numbers[-1] >= len(self._documents):
            more = np.full(max(len(self._documents), len(documents)), -1, np.int64)
            self._documents = np.concatenate((self._documents, more))
        self._graph.add_items(rows, numbers, num_threads=THREADS, replace_deleted=True)
        self._documents[numbers] = documents
        self._next += len(documents)
        self._unsaved += len(documents)
        for document, text_hash, number in zip(documents, hashes, numbers.tolist(), strict=True):
            self._numbers[document] = number
            self._hashes[document] = text_hash
            self._uses[text_hash] = self._uses.get(text_hash, 0) + 1

    def search(self, vector: Matrix, k: int, allowed: Numbers | None = None) -> Found:
        """The ``k`` nearest documents: (document, similarity), nearest first, ties by document.

        ``allowed``: the documents that may be found, rising; None: all. Raises VectorError.
        """
        query = unit_vectors(vector.reshape(1, -1), 1, self.dimensions)
        total = len(self._numbers)
        choice = total if allowed is None else len(allowed)
        if not (k > 0 and choice and total and query.any()):
            return []
        if choice <= EXACT_DOCUMENTS:
            return self._exact(query[0], k, allowed)
        asked = k if allowed is None else int(1.3 * k * total / choice) + 8
        while asked <= min(MOST_ASKED, total // 2):
            found = self._near(query, asked, allowed)
            if found is None:
                break
            if len(found) >= k:
                return found[:k]
            asked *= 4
        return self._exact(query[0], k, allowed)

    def _near(self, query: Matrix, asked: int, allowed: Numbers | None) -> Found | None:
        """The allowed ones of the ``asked`` nearest by the graph; None when the graph reaches too few."""
        self._graph.set_ef(max(SEARCH_EFFORT, asked))
        try:
            numbers, distances = self._graph.knn_query(query, asked, num_threads=1)
        except RuntimeError:
            return None
        documents = self._documents[numbers[0].astype(np.int64)]
        similarities = np.float32(1) - distances[0]
        if allowed is not None:
            at = np.minimum(np.searchsorted(allowed, documents), len(allowed) - 1)
            kept = allowed[at] == documents
            documents, similarities = documents[kept], similarities[kept]
        return _best(documents, similarities, len(documents))

    def _exact(self, query: Matrix, k: int, allowed: Numbers | None) -> Found:
        candidates = self._numbers if allowed is None else allowed.tolist()
        held = [document for document in candidates if document in self._numbers]
        best: Found = []
        for start in range(0, len(held), EXACT_CHUNK):
            chunk = held[start : start + EXACT_CHUNK]
            rows = self.kept.vectors([self.kept.row_of(self._hashes[document]) for document in chunk])
            best += _best(np.array(chunk, np.int64), rows @ query, k)
        return sorted(best, key=lambda found: (-found[1], found[0]))[:k]

    def save(self) -> None:
        """Write what is in the index, so that it counts from now on. Raises OSError; then the save before counts."""
        table = np.zeros(len(self._numbers), LABEL)
        table["number"] = list(self._numbers.values())
        table["document"] = list(self._numbers)
        table["hash"] = np.frombuffer(b"".join(self._hashes[one] for one in self._numbers), "V32")
        self._files.write(self._graph, table, self._next)
        self._unsaved = 0

    def forget_unused(self) -> None:
        """Forget kept vectors that no document in the index needs. Raises OSError."""
        for text_hash in self.kept.hashes():
            if text_hash not in self._uses:
                self.kept.forget(text_hash)

    def _load(self, graph: hnswlib.Index, table: npt.NDArray[np.void], following: int) -> None:
        self._graph = graph
        numbers, documents = table["number"].tolist(), table["document"].tolist()
        self._next = following
        self._documents = np.full(max(FIRST_CAPACITY, 2 * following), -1, np.int64)
        self._documents[table["number"]] = table["document"]
        self._numbers = dict(zip(documents, numbers, strict=True))
        self._hashes = dict(zip(documents, map(bytes, table["hash"].tolist()), strict=True))
        self._uses = dict(Counter(self._hashes.values()))
        self._refill()

    def _refill(self) -> None:
        """Keep again what the file of kept vectors has lost and the graph still holds."""
        lost = [document for document, text_hash in self._hashes.items() if text_hash not in self.kept]
        for start in range(0, len(lost), FIRST_CAPACITY):
            part = lost[start : start + FIRST_CAPACITY]
            rows = self._graph.get_items([self._numbers[document] for document in part])
            for document, row in zip(part, rows, strict=True):
                self.kept.put(self._hashes[document], row)


def _best(documents: Numbers, similarities: npt.NDArray[np.floating], k: int) -> Found:
    """The ``k`` with the highest similarity, ties by document."""
    order = np.lexsort((documents, -similarities))[:k]
    return [(int(documents[at]), float(similarities[at])) for at in order]
