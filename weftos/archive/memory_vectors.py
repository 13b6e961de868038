"""The vectors of the memory's documents under one embedder, and the documents that wait for a model to give theirs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from chain.vectors.kept_vectors import Matrix
from chain.vectors.vectors import VectorError, VectorIndex, directory_of
from cognition.recall.lexical import embed
from weftos.archive.embedder import Embedder
from weftos.archive.memory_catalog import Held, Numbers

LEAST_LEXICAL_SIMILARITY = 0.1
SAVE_AFTER = 1_000

_FOLDER = re.compile(r"(?P<embedder>.+)-(?P<dimensions>[1-9][0-9]{0,4})")


class MemoryVectors:
    """Their files lie below ``directory``, in a folder of the embedder and its dimensions. There is no index before
    these are known: a model tells them with its first answer. ``waiting``: documents without a vector, by number.
    """

    def __init__(self, directory: Path, embedder: Embedder) -> None:
        self.embedder = embedder
        self.waiting: set[int] = set()
        self.rebuilt: str | None = None
        self._directory = directory
        self._index: VectorIndex | None = None
        self._other_dimensions = False

    @property
    def dimensions(self) -> int:
        """Of the index; 0 while the model has not answered for the first time."""
        return self._index.dimensions if self._index is not None else 0

    def open(self) -> None:
        """Load the index, and delete those of other embedders. Raises OSError."""
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
            self._open(dimensions)

    def close(self, save: bool) -> None:
        """``save`` what is not saved. Raises OSError."""
        if self._index is not None:
            if self._index.unsaved and save:
                self._index.save()
            self._index.close()

    def search(self, vector: Matrix, k: int, numbers: Numbers | None) -> list[tuple[int, float]]:
        """The nearest ``k`` of ``numbers`` (None: of all), nearest first, with how near they are."""
        if self._index is None:
            return []
        least = LEAST_LEXICAL_SIMILARITY if self.embedder.lexical else 0.0
        found = self._index.search(vector, k, numbers)
        return [(number, score) for number, score in found if score > least]

    def add(self, added: Sequence[tuple[Held, str]]) -> None:
        """Index documents with what is searched of them, or have them wait for the model."""
        index = self._index
        missing = [
            (held, text)
            for held, text in added
            if index is None or index.hash_of(held.number) != held.text_hash
        ]
        if index is not None:
            kept = [held for held, _ in missing if held.text_hash in index.kept]
            index.put_kept([held.number for held in kept], [held.text_hash for held in kept])
            missing = [(held, text) for held, text in missing if held.text_hash not in index.kept]
        if not self.embedder.lexical:
            self.waiting.update(held.number for held, _ in missing)
            return
        rows = embed([text for _, text in missing])
        self._put([held.number for held, _ in missing], [held.text_hash for held, _ in missing], rows)

    def remove(self, number: int, keep: bool) -> None:
        """A document is none any more. ``keep`` its vector: the same text comes back."""
        self.waiting.discard(number)
        if self._index is not None and not keep:
            self._index.remove(number)

    def check_dimensions(self, dimensions: int) -> None:
        """Raise VectorError when vectors of ``dimensions`` cannot be compared with those of the index."""
        expected = self.dimensions or self.embedder.dimensions
        if expected and dimensions != expected:
            self._other_dimensions = True
            raise VectorError(
                f"embedder {self.embedder.name} answered {dimensions} dimensions, its index has {expected}: "
                "set the right embedder, or begin anew with `weftos memory reindex`"
            )

    def embedded(self, numbers: Sequence[int], hashes: Sequence[bytes], vectors: Matrix) -> None:
        """What the model gave for documents that wait. Raises VectorError, OSError."""
        self.check_dimensions(vectors.shape[1])
        if self._index is None:
            self._open(vectors.shape[1])
        self._put(numbers, hashes, vectors)
        self.waiting.difference_update(numbers)

    def clear(self, fresh: bool) -> None:
        """Empty the index; with ``fresh``, or after an embedder had changed its dimension, the kept vectors go too.

        Raises OSError.
        """
        fresh = fresh or self._other_dimensions
        self._other_dimensions = False
        if self._index is not None:
            self._index.clear(forget=fresh)
            if fresh and not self.embedder.dimensions:
                self._index.close()
                shutil.rmtree(self._folder(self._index.dimensions))
                self._index = None

    def settle(self, documents: Container[int]) -> None:
        """Everything is indexed: take out what is none of ``documents``, and save when it is worth it."""
        index = self._index
        if index is None:
            return
        for number in index.documents():
            if number not in documents:
                index.remove(number)
        if not self.waiting:
            index.forget_unused()
        if index.unsaved > max(SAVE_AFTER, len(index) // 10):
            index.save()

    @property
    def indexed(self) -> int:
        """How many vectors are in the index."""
        return len(self._index) if self._index is not None else 0

    @property
    def kept(self) -> int:
        """How many are kept."""
        return len(self._index.kept) if self._index is not None else 0

    @property
    def index_bytes(self) -> int:
        """What the index takes."""
        return self._index.graph_bytes if self._index is not None else 0

    def _put(self, numbers: Sequence[int], hashes: Sequence[bytes], rows: Matrix) -> None:
        """Index rows that are not all zeros: a text without words is near nothing."""
        if self._index is not None and len(numbers):
            some = np.flatnonzero(rows.any(axis=1)).tolist()
            self._index.put([numbers[at] for at in some], [hashes[at] for at in some], rows[some])

    def _folder(self, dimensions: int) -> Path:
        return self._directory / f"{directory_of(self.embedder.name)}-{dimensions}"

    def _open(self, dimensions: int) -> None:
        index = VectorIndex(self._folder(dimensions), self.embedder.name, dimensions)
        try:
            index.open()
        except OSError:
            with suppress(OSError):
                index.close()
            raise
        self._index = index
        self.rebuilt = index.rebuilt
