"""Recall at 10,000 and 100,000 documents: beside bare hnswlib, with filters, and how fast an index is built again."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hnswlib
import numpy as np
import pytest

from benchmarks.conftest import Report
from benchmarks.floors import Floor, time_each
from benchmarks.recall_corpus import OWNERS, Corpus, make_corpus
from chain.vectors.vectors import BUILD_EFFORT, LINKS, SEARCH_EFFORT, THREADS, VectorIndex
from cognition.recall.bm25 import Bm25Index
from cognition.recall.lexical import DIMENSIONS, embed
from weftos.archive.memory_index import MemoryIndex, Question

K = 10
QUERIES = 300
TIMEOUT_S = 900
SIZES = [10_000, 100_000]


@dataclass(slots=True)
class Built:
    """A memory that is built, a bare graph of the same vectors, and what to ask."""

    corpus: Corpus
    index: MemoryIndex
    build_s: float
    rebuild_s: float
    rows: np.ndarray
    bare: hnswlib.Index
    bare_s: float
    queries: list[str]


@pytest.fixture(scope="module", params=SIZES)
def built(request: pytest.FixtureRequest) -> Iterator[Built]:
    with tempfile.TemporaryDirectory(prefix="wb-recall-", dir="/tmp") as name:
        corpus = make_corpus(Path(name), request.param)
        index, build_s = corpus.build()
        index.close()
        for path in Path(name).glob("vectors/*/graph-*"):
            path.unlink()
        index, rebuild_s = corpus.build()
        rows = np.concatenate([embed(corpus.texts[at : at + 4096]) for at in range(0, request.param, 4096)])
        bare = hnswlib.Index("ip", DIMENSIONS)
        bare.init_index(request.param, LINKS, BUILD_EFFORT)
        started = time.perf_counter()
        bare.add_items(rows, num_threads=THREADS)
        bare_s = time.perf_counter() - started
        bare.set_ef(SEARCH_EFFORT)
        rng = random.Random(1)
        queries = [" ".join(rng.sample(rng.choice(corpus.texts).split(), 6)) for _ in range(QUERIES)]
        yield Built(corpus, index, build_s, rebuild_s, rows, bare, bare_s, queries)
        index.close()
        corpus.archive.close()


def asked(built: Built, ask: Callable[[str], object]) -> list[float]:
    """How long each query takes, after one that is not measured."""
    ask(built.queries[0])
    queries = iter(built.queries)
    return time_each(lambda: ask(next(queries)), len(built.queries))


def bare_floor(built: Built) -> Floor:
    """hnswlib alone, with the same parameters and vectors that are there already."""
    vectors = iter(embed(built.queries))
    took = time_each(lambda: built.bare.knn_query(next(vectors), K, num_threads=1), len(built.queries))
    return Floor("bare hnswlib", sorted(took)[len(took) // 2])


def size(built: Built) -> str:
    return f"{len(built.corpus.texts) // 1000} k documents"


def vector_index(built: Built) -> VectorIndex:
    """The index behind the memory, opened a second time: what is saved."""
    (folder,) = built.corpus.directory.glob("vectors/*")
    index = VectorIndex(folder, "lexical-384-v1", DIMENSIONS)
    index.open()
    return index


@pytest.mark.timeout(TIMEOUT_S)
def test_vector_part(built: Built, report: Report) -> None:
    index = vector_index(built)
    vectors = iter(embed(built.queries))
    took = time_each(lambda: index.search(next(vectors), K), len(built.queries))
    report(f"recall, vectors alone, {size(built)}", took, [bare_floor(built)], aim="p50 under 1.5 x")
    index.close()


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_search(built: Built, report: Report, mode: str) -> None:
    took = asked(built, lambda query: built.index.search(Question(query, K, None, mode)))
    aim = "p50 under 5 ms" if mode == "hybrid" else ""
    report(f"search, {mode}, with its texts, {size(built)}", took, [bare_floor(built)], aim=aim)


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("owner", OWNERS)
def test_search_of_an_owner(built: Built, report: Report, owner: str) -> None:
    """Beside an index of its own for what this owner may see: what the filter costs."""
    visible = built.index.visible_numbers(owner)
    assert visible is not None
    own = hnswlib.Index("ip", DIMENSIONS)
    own.init_index(len(visible), LINKS, BUILD_EFFORT)
    own.add_items(built.rows[visible], num_threads=THREADS)
    own.set_ef(SEARCH_EFFORT)
    vectors = embed(built.queries)
    each = iter(vectors)
    alone = time_each(lambda: own.knn_query(next(each), K, num_threads=1), len(vectors))
    index = vector_index(built)
    each = iter(vectors)
    took = time_each(lambda: index.search(next(each), K, visible), len(vectors))
    share = len(visible) / len(built.corpus.texts)
    floors = [Floor("an index per owner", sorted(alone)[len(alone) // 2])]
    report(f"recall, vectors filtered to {share:.0%}, {size(built)}", took, floors)
    index.close()


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("kept", ["with", "without"])
def test_rebuild(built: Built, report: Report, kept: str) -> None:
    took = built.rebuild_s if kept == "with" else built.build_s
    aim = {"with": "under 60 s", "without": "under 120 s"}[kept] if len(built.rows) == SIZES[-1] else ""
    floors = [Floor("hnswlib adds the same", built.bare_s)]
    report(f"index rebuilt {kept} kept vectors, {size(built)}", [took], floors, aim=aim)


@pytest.mark.timeout(TIMEOUT_S)
def test_bm25_alone(built: Built, report: Report) -> None:
    index = Bm25Index()
    for number, text in enumerate(built.corpus.texts):
        index.add(number, text)
    took = asked(built, lambda query: index.search(query, 40))
    report(f"BM25 alone, {size(built)}", took, [bare_floor(built)], aim="under 3 ms")
