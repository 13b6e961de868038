"""BM25 over documents that come and go (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).

``score = sum over query words of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))`` with
``idf = ln(1 + (N - df + 0.5) / (df + 0.5))``. Postings are two flat arrays a word, kept sorted by document number, so
adding and removing is exact (no tombstones, the same scores as a new index) and searching is array arithmetic.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter

import numpy as np
import numpy.typing as npt

from cognition.recall.words import words

K1 = 1.2
B = 0.75
MAX_QUERY_WORDS = 64

Mask = npt.NDArray[np.bool_]


class _Postings:
    """The documents that hold one word, rising, and how often each does."""

    __slots__ = ("counts", "documents")

    def __init__(self) -> None:
        self.documents = array("i")
        self.counts = array("H")

    def add(self, document: int, count: int) -> None:
        if not self.documents or document > self.documents[-1]:
            self.documents.append(document)
            self.counts.append(count)
            return
        at = bisect_left(self.documents, document)
        self.documents.insert(at, document)
        self.counts.insert(at, count)

    def remove(self, document: int) -> None:
        at = bisect_left(self.documents, document)
        del self.documents[at]
        del self.counts[at]


class Bm25Index:
    """Documents are small whole numbers of the caller's (array places: keep them dense). For one thread."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._postings: list[_Postings] = []
        self._words_of: dict[int, array[int]] = {}
        self._lengths = np.zeros(1024, np.float32)
        self._total = 0

    def __len__(self) -> int:
        return len(self._words_of)

    def add(self, document: int, text: str) -> None:
        """Index ``text`` as ``document``, in place of what it was."""
        if document in self._words_of:
            self.remove(document)
        if document >= len(self._lengths):
            self._lengths = np.concatenate(
                (self._lengths, np.zeros(max(document + 1, len(self._lengths)), np.float32))
            )
        found = words(text)
        terms = array("i")
        for word, count in Counter(found).items():
            term = self._terms.setdefault(word, len(self._postings))
            if term == len(self._postings):
                self._postings.append(_Postings())
            self._postings[term].add(document, min(count, 65535))
            terms.append(term)
        self._words_of[document] = terms
        self._lengths[document] = len(found)
        self._total += len(found)

    def remove(self, document: int) -> None:
        """Forget ``document``, if it is there."""
        terms = self._words_of.pop(document, None)
        if terms is None:
            return
        for term in terms:
            self._postings[term].remove(document)
        self._total -= int(self._lengths[document])
        self._lengths[document] = 0

    def search(self, query: str, k: int, allowed: Mask | None = None) -> list[tuple[int, float]]:
        """The ``k`` best documents that hold a word of ``query``: (document, score), best first, ties by number.

        ``allowed[document]`` says which may be found, none behind its end; None: all. Of a query of many words the
        64 rarest count.
        """
        scores = self._scores(query)
        if scores is None:
            return []
        if allowed is not None:
            scores[: len(allowed)][~allowed[: len(scores)]] = 0
            scores[len(allowed) :] = 0
        found = np.flatnonzero(scores)
        if len(found) > k:
            values = scores[found]
            least = np.partition(values, len(values) - k)[len(values) - k]
            found = found[values >= least]
        order = np.lexsort((found, -scores[found]))[:k]
        return [(int(found[at]), float(scores[found[at]])) for at in order]

    def known(self, query: str) -> float:
        """How much of ``query`` its words can see, 0 to 1: the share of the words that some document holds, each by its
        idf. A misspelt word or a synonym is held by none, and a word that most documents hold says little.
        """
        held = missing = 0.0
        for word in set(words(query)):
            term = self._terms.get(word)
            found = 0 if term is None else len(self._postings[term].documents)
            if found:
                held += self._idf(found)
            else:
                missing += self._idf(0)
        return held / (held + missing) if held else 0.0

    def _idf(self, holding: int) -> float:
        return math.log(1 + (len(self._words_of) - holding + 0.5) / (holding + 0.5))

    def _scores(self, query: str) -> npt.NDArray[np.float32] | None:
        known = [self._terms[word] for word in sorted(set(words(query))) if word in self._terms]
        postings = [self._postings[term] for term in known if self._postings[term].documents]
        if not postings:
            return None
        postings.sort(key=lambda posting: len(posting.documents))
        mean = max(self._total / len(self._words_of), 1.0)
        scores = np.zeros(len(self._lengths), np.float32)
        for posting in postings[:MAX_QUERY_WORDS]:
            documents = np.frombuffer(posting.documents, np.int32)
            counts = np.frombuffer(posting.counts, np.uint16).astype(np.float32)
            idf = self._idf(len(documents))
            norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B / mean) * self._lengths[documents]
            scores[documents] += np.float32(idf * (K1 + 1)) * counts / (counts + norms)
        return scores
