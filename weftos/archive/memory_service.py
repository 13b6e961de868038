"""Memory's half of the archive process: search over the documents, by words and by vectors.

Everything here is a projection of the journal's state records of table ``doc`` (:mod:`chain.vectors.document`), and
lives in the archive's thread. It answers ``search``, ``read``, ``stats`` and ``reindex``
(:mod:`kernel.memory.requests`), and takes

``embedded`` ``{"id", "count", "dimensions", "data"}`` (little-endian float32, row by row) or ``{"id", "error"}``: the
            answer to a notice ``embed`` ``{"id", "provider", "model", "texts"}``, which is sent to the node when an
            embedder other than lexical is configured, and which the node forwards to the gateway's operation ``embed``
            as it is. What ``embed`` answers there can be sent back as it is, with the ``id`` added.

The embedder is given on the command line: ``--embedder lexical`` (default) or ``--embedder PROVIDER --embedding-model
MODEL [--embedding-dimensions N]``.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from chain.archive.archive import Archive
from chain.disk import Disk
from chain.errors import ChainError
from chain.vectors.kept_vectors import Matrix
from chain.vectors.vectors import VectorError
from kernel.memory.requests import (
    FoundDocument,
    ReadQuestion,
    ReindexQuestion,
    SearchAnswer,
    SearchQuestion,
    ToIndex,
)
from kernel.operations.operation import Nothing
from kernel.shapes import read, told
from weftos.archive.embedder import MAX_DIMENSIONS, Embedder
from weftos.archive.memory_index import MemoryIndex, Question

T = TypeVar("T")
Notify = Callable[[str, dict[str, Any]], None]

MAX_QUERY_BYTES = 4 * 2**10
MAX_RESULTS = 50
MAX_ID_CHARS = 64
CATCH_UP_S = 0.5
QUERY_EMBED_S = 2.0
EMBED_S = 60.0
RETRY_S = (1.0, 2.0, 5.0, 15.0, 60.0)
_READERS_LIMIT = 1_200


class EmbedFault(Exception):
    """The model behind the embedder gave no usable vectors; the message says why. Handled inside this module."""


class MemoryService:
    """Answers the operations above; ``notify`` tells the node something unasked.

    All work on the indices happens in ``thread``, which is the archive's.
    """

    def __init__(
        self,
        archive: Archive,
        directory: Path,
        embedder: Embedder,
        thread: Executor,
        notify: Notify,
        embed_s: float = EMBED_S,
    ) -> None:
        self._archive = archive
        self._directory = directory
        self._index = MemoryIndex(archive, directory, embedder)
        self._thread = thread
        self._notify = notify
        self._embed_s = embed_s
        self._asked: dict[str, asyncio.Future[Matrix]] = {}
        self._numbers = itertools.count(1)
        self._embedding: asyncio.Task[None] | None = None
        self._fault = ""

    async def open(self) -> None:
        """Load the vector index. Raises OSError."""
        await self._in_thread(self._index.open)

    async def close(self) -> None:
        """Stop asking and save. Raises OSError."""
        if self._embedding is not None:
            self._embedding.cancel()
            await asyncio.wait([self._embedding])
        await self._in_thread(self._index.close)

    async def rebuild(self, archive: Callable[[], None]) -> None:
        """Remove all files of the index, and begin an empty one; ``archive``, in between, does so with the archive.

        Raises ChainError, OSError.
        """
        self._embed_again()
        self._fault = ""
        await self._in_thread(self._begin_anew, archive)

    def _begin_anew(self, archive: Callable[[], None]) -> None:
        embedder = self._index.embedder
        self._index.abandon()
        self._index = MemoryIndex(self._archive, self._directory, embedder)
        try:
            if self._directory.exists():
                shutil.rmtree(self._directory)
            # what was erased must not come back with a power cut
            Disk().sync_directory(self._directory.parent)
            archive()
        finally:
            self._index.open()

    async def follow(self) -> None:
        """Index what the archive has loaded, piece by piece. Raises ChainError, OSError."""
        while await self._in_thread(self._index.step):
            pass
        self._embed_waiting()

    async def handle(self, op: str, args: dict[str, Any]) -> Any:
        """Answer one operation over what the archive has loaded. Raises ChainError, OSError, ValueError."""
        match op:
            case "search":
                return told(await self._search(read(SearchQuestion, args)))
            case "read":
                return told(await self._read(read(ReadQuestion, args)))
            case "stats":
                read(Nothing, args)
                await self._catch_up()
                return told(await self._in_thread(self._index.stats, self._fault))
            case "reindex":
                return told(await self._reindex(read(ReindexQuestion, args)))
            case "embedded":
                return self._embedded(args)
            case _:
                raise ValueError(f"the memory knows no operation {op!r}")

    async def _search(self, asked: SearchQuestion) -> SearchAnswer:
        _check_query(asked.query)
        _check_reader(asked.owner)
        if not 1 <= asked.k <= MAX_RESULTS:
            raise ValueError(f"k must be 1 to {MAX_RESULTS}")
        await self._catch_up()
        vector, degraded = None, ""
        if asked.mode != "bm25" and not self._index.embedder.lexical:
            try:
                vector = await self._query_vector(asked.query, asked.vector)
            except EmbedFault as fault:
                degraded = f"found by words only: {fault}"
        question = Question(asked.query, asked.k, asked.owner, asked.mode, vector)
        results, pending = await self._in_thread(self._index.search, question)
        return SearchAnswer(results, asked.mode, degraded, pending, self._index.embedder.name)

    async def _read(self, asked: ReadQuestion) -> FoundDocument:
        await self._catch_up()
        _check_reader(asked.owner)
        if len(asked.id) > MAX_ID_CHARS:
            raise ValueError("id must be a document's id")
        found = await self._in_thread(self._index.read, asked.id, asked.owner)
        if found is None:
            raise ValueError(f"no document {asked.id!r}")
        return found

    async def _reindex(self, asked: ReindexQuestion) -> ToIndex:
        await self._catch_up()
        count = await self._in_thread(self._index.reindex, asked.fresh)
        self._fault = ""
        self._embed_again()
        return ToIndex(count)

    async def _catch_up(self) -> None:
        """Index what was just written, for a moment; a long backlog goes on in the background."""
        until = time.monotonic() + CATCH_UP_S
        while await self._in_thread(self._index.step) and time.monotonic() < until:
            pass
        self._embed_waiting()

    async def _query_vector(self, query: str, given: bytes | None) -> Matrix:
        if given is not None:
            vectors = _floats({"count": 1, **_vector(given)})
            return vectors[:1].reshape(-1)
        if self._fault:
            raise EmbedFault(self._fault)
        vectors = await self._ask([query], min(QUERY_EMBED_S, self._embed_s))
        try:
            self._index.check_dimensions(vectors.shape[1])
        except VectorError as error:
            raise EmbedFault(str(error)) from error
        return vectors[:1].reshape(-1)

    def _embed_waiting(self) -> None:
        if self._index.waiting and (self._embedding is None or self._embedding.done()):
            self._embedding = asyncio.create_task(self._embed_all())

    def _embed_again(self) -> None:
        """Drop a pause after a fault: a person asked for a new start."""
        if self._embedding is not None:
            self._embedding.cancel()
            self._embedding = None

    async def _embed_all(self) -> None:
        """Ask for vectors until none is missing; after a fault again, ever later, for as long as it takes."""
        faults = 0
        while self._index.waiting:
            try:
                wanted = await self._in_thread(self._index.wanted)
                if wanted.texts:
                    vectors = await self._ask(wanted.texts, self._embed_s)
                    await self._in_thread(self._index.embedded, wanted, vectors)
                faults, self._fault = 0, ""
            except (EmbedFault, ChainError, OSError) as error:
                self._report(str(error))
                await asyncio.sleep(RETRY_S[min(faults, len(RETRY_S) - 1)])
                faults += 1

    async def _ask(self, texts: Any, timeout_s: float) -> Matrix:
        """Vectors of ``texts`` from the model, one row each. Raises EmbedFault."""
        embedder = self._index.embedder
        ident = f"e{next(self._numbers)}"
        future: asyncio.Future[Matrix] = asyncio.get_running_loop().create_future()
        self._asked[ident] = future
        request = {"id": ident, "provider": embedder.provider, "model": embedder.model, "texts": list(texts)}
        self._notify("embed", request)
        try:
            vectors = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise EmbedFault(f"embedder {embedder.name} gave no answer within {timeout_s:g} s") from None
        finally:
            self._asked.pop(ident, None)
        if len(vectors) != len(texts):
            raise EmbedFault(f"embedder {embedder.name} gave {len(vectors)} vectors for {len(texts)} texts")
        return vectors

    def _embedded(self, args: dict[str, Any]) -> None:
        """The answer to a notice ``embed``; one that nobody waits for any more is dropped."""
        future = self._asked.get(str(args.get("id")))
        if future is None or future.done():
            return
        error = args.get("error")
        if error:
            future.set_exception(EmbedFault(f"embedder {self._index.embedder.name}: {str(error)[:500]}"))
            return
        try:
            future.set_result(_floats(args))
        except EmbedFault as fault:
            future.set_exception(fault)

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            print(f"memory: {fault}", file=sys.stderr, flush=True)
        self._fault = fault

    async def _in_thread(self, call: Callable[..., T], *values: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *values)


def _check_query(query: str) -> None:
    if len(query) > MAX_QUERY_BYTES or len(query.encode("utf-8", "replace")) > MAX_QUERY_BYTES:
        raise ValueError(f"a query of {len(query)} characters, limit {MAX_QUERY_BYTES} bytes")


def _check_reader(reader: str | None) -> None:
    if reader is not None and len(reader) > _READERS_LIMIT:
        raise ValueError("owner must be an address")


def _vector(given: bytes) -> dict[str, Any]:
    if len(given) % 4:
        raise EmbedFault("the query's vector is not of little-endian float32")
    return {"dimensions": len(given) // 4, "data": given}


def _floats(args: dict[str, Any]) -> Matrix:
    """``count`` rows of ``dimensions`` numbers from ``data``. Raises EmbedFault."""
    count, dimensions, data = args.get("count"), args.get("dimensions"), args.get("data")
    if type(count) is not int or type(dimensions) is not int or not isinstance(data, bytes):
        raise EmbedFault("the vectors came without count, dimensions and data")
    if not 1 <= dimensions <= MAX_DIMENSIONS or count < 0 or len(data) != 4 * count * dimensions:
        raise EmbedFault(f"{len(data)} bytes for {count} vectors of {dimensions} dimensions")
    vectors: Matrix = np.frombuffer(data, "<f4").reshape(count, dimensions).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise EmbedFault("a vector holds a number that is not finite (NaN or infinity)")
    return vectors
