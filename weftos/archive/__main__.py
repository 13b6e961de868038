"""The archive process: ``python -P -m weftos.archive --data DIR --link-fd N --boot B``.

It follows the ledger's files by itself; the node only tells it how far they are durable. What it is asked, and answers,
has the shapes of :mod:`kernel.memory.requests`.

DuckDB and the indices work in one thread, and statements of others in a second, so the link is always served and the
ledger always followed. A statement that cannot be stopped ends the process, and the node starts it again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from chain.archive.archive import Archive, ArchiveUnavailable
from chain.archive.query import DEADLINE_S, STOP_S, Answer, QueryError
from chain.entry.entry import MAX_INTEGER
from chain.errors import ChainError
from kernel.helper.helper import die_with_parent, serve_link
from kernel.memory.requests import (
    AboutQuestion,
    ArchiveStatus,
    Durable,
    LogQuestion,
    LogRows,
    SqlAnswer,
    SqlFault,
    SqlQuestion,
    SqlRows,
)
from kernel.operations.operation import Nothing
from kernel.shapes import read, told
from weftos.archive.embedder import Embedder, make_embedder
from weftos.archive.memory_service import MemoryService, Notify

T = TypeVar("T")

NICE = 10  # what it makes can be made again at any time: the node, its cells and workers go first
FOLLOW_S = 0.02
RETRY_S = 1.0
CATCH_UP_S = 3.0
SQL_ASKED = 8
END_S = 0.2  # for the last answer to reach the node
STUCK_STATUS = 3


class ArchiveService:
    """Serves one :class:`~chain.archive.archive.Archive`: loads what became durable, answers questions in between.

    ``vectors`` is the memory's directory; ``notify`` tells the node something unasked.
    """

    def __init__(self, archive: Archive, vectors: Path, embedder: Embedder, notify: Notify) -> None:
        self._archive = archive
        self._thread = ThreadPoolExecutor(1, "archive")
        self._query_thread = ThreadPoolExecutor(1, "query")
        self._queries: set[asyncio.Future[Answer]] = set()
        self._memory = MemoryService(archive, vectors, embedder, self._thread, notify)
        self._durable: int | None = None
        self._following: asyncio.Task[None] | None = None
        self._indexing: asyncio.Task[None] | None = None
        self._to_index = False
        self._fault: str | None = None
        self._one_query = asyncio.Lock()  # the time of each counts from when it begins
        self._asked = 0

    async def open(self) -> None:
        """Open the archive. Raises ChainError, OSError."""
        await self._in_thread(self._archive.open)
        await self._memory.open()
        self._follow()

    async def close(self) -> None:
        tasks = [task for task in (self._following, self._indexing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self._memory.close()
        finally:
            await self._in_thread(self._archive.close)
            self._thread.shutdown()
            self._query_thread.shutdown()

    async def handle(self, op: str, args: dict[str, Any]) -> Any:
        """Answer one frame of the link. Raises ChainError, ValueError."""
        match op:
            case "durable":
                self._durable = read(Durable, args).size
                self._follow()
                return None
            case "log":
                return told(await self._log(read(LogQuestion, args)))
            case "about":
                return told(await self._about(read(AboutQuestion, args)))
            case "sql":
                return told(await self._sql(read(SqlQuestion, args)))
            case "status":
                read(Nothing, args)
                return told(ArchiveStatus(self._archive.size, self._archive.rebuilt, self._fault))
            case "rebuild":
                read(Nothing, args)
                await self._memory.rebuild(partial(self._archive.rebuild, "it was asked for"))
                self._follow()
                return told(Nothing())
            case "search" | "read" | "stats" | "reindex":
                await self._in_thread(self._archive.update, self._durable)
                answer = await self._memory.handle(op, args)
                self._index()
                return answer
            case "embedded":
                return await self._memory.handle(op, args)
            case _:
                raise ValueError(f"the archive knows no operation {op!r}")

    async def _log(self, asked: LogQuestion) -> LogRows:
        await self._catch_up()
        ask = partial(
            self._archive.log, pid=asked.pid, kind=asked.kind, before=asked.before, limit=asked.limit
        )
        return LogRows(await self._in_thread(ask), self._archive.size)

    async def _about(self, asked: AboutQuestion) -> LogRows:
        await self._catch_up()
        ask = partial(
            self._archive.about,
            asked.kinds,
            asked.subjects,
            asked.turn,
            since=asked.since,
            limit=asked.limit,
        )
        return LogRows(await self._in_thread(ask), self._archive.size)

    async def _sql(self, asked: SqlQuestion) -> SqlAnswer:
        if self._asked >= SQL_ASKED:
            return _error("busy", f"{SQL_ASKED} queries are under way or wait, the limit: ask again later")
        self._asked += 1
        try:
            async with self._one_query:
                return await self._query(partial(self._archive.query, asked.sql, asked.limit))
        finally:
            self._asked -= 1

    async def _query(self, work: Callable[[], Answer]) -> SqlAnswer:
        await self._catch_up()
        loaded = self._archive.size
        loop = asyncio.get_running_loop()
        query = loop.run_in_executor(self._query_thread, work)
        self._queries.add(query)
        query.add_done_callback(self._queries.discard)
        try:
            answer = await asyncio.wait_for(asyncio.shield(query), DEADLINE_S + STOP_S)
        except QueryError as error:
            return _error(error.code, str(error))
        except TimeoutError:
            self._report("a query cannot be stopped, so this process ends")
            loop.call_later(END_S, os._exit, STUCK_STATUS)
            return _error("timeout", "the query could not be stopped in time; the archive starts again")
        columns = [list(column) for column in answer.columns]
        return SqlAnswer(found=SqlRows(columns, answer.rows, answer.cut, loaded))

    async def _catch_up(self) -> None:
        """Load what the node has acknowledged so far, for a moment; a long backlog goes on in the background."""
        durable, until = self._durable, time.monotonic() + CATCH_UP_S
        loaded = -1
        while loaded < self._archive.size < (durable or MAX_INTEGER) and time.monotonic() < until:
            loaded = self._archive.size
            await self._in_thread(self._archive.update, durable)

    def _follow(self) -> None:
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._load())

    async def _load(self) -> None:
        """Load until nothing is left, each time a little later, so that many groups become one transaction."""
        more = True
        while more:
            await asyncio.sleep(FOLLOW_S)
            loaded, durable = self._archive.size, self._durable
            try:
                await self._in_thread(self._archive.update, durable)
                self._fault = None
            except (ChainError, OSError) as error:
                self._report(str(error))
                await asyncio.sleep(RETRY_S)
                continue
            self._index()
            more = self._archive.size > loaded or self._durable != durable
        await self._in_thread(self._archive.settle)

    def _index(self) -> None:
        """Have the memory take up what was loaded, beside the loading, which it must not hold up."""
        self._to_index = True
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.create_task(self._index_all())

    async def _index_all(self) -> None:
        while self._to_index:
            self._to_index = False
            try:
                await self._memory.follow()
            except (ChainError, OSError) as error:
                self._report(str(error))
                await asyncio.sleep(RETRY_S)
                self._to_index = True

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            print(f"archive: {fault}", file=sys.stderr, flush=True)
        self._fault = fault

    async def _in_thread(self, call: Callable[..., T], *values: Any) -> T:
        """``call``, and once more when somebody's query is over that may have taken all the memory there was."""
        loop, before = asyncio.get_running_loop(), set(self._queries)
        try:
            return await loop.run_in_executor(self._thread, call, *values)
        except ArchiveUnavailable:
            greedy = before | self._queries
            if not greedy:
                raise
            await asyncio.wait(greedy)
            return await loop.run_in_executor(self._thread, call, *values)


def _error(code: str, message: str) -> SqlAnswer:
    return SqlAnswer(fault=SqlFault(code, message))


async def serve(data: Path, embedder: Embedder, link_fd: int, boot: int) -> None:
    """Serve one link until its end. Raises ChainError, OSError when the archive cannot be opened."""
    notices: list[Notify] = []
    directory = data / "archive"
    service = ArchiveService(
        Archive(directory / "audit.duckdb", data),
        directory / "vectors",
        embedder,
        lambda op, args: notices[0](op, args) if notices else None,
    )
    await service.open()
    try:
        await serve_link(link_fd, boot, service.handle, notices.append)
    finally:
        await service.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process. Exit status 1 when the archive cannot be opened."""
    parser = argparse.ArgumentParser(prog="weftos.archive")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--embedder", default="lexical")
    parser.add_argument("--embedding-model", default="")
    parser.add_argument("--embedding-dimensions", type=int, default=0)
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--boot", type=int, required=True)
    arguments = parser.parse_args(argv)
    die_with_parent()
    os.nice(NICE)
    try:
        embedder = make_embedder(
            arguments.embedder, arguments.embedding_model, arguments.embedding_dimensions
        )
        asyncio.run(serve(arguments.data, embedder, arguments.link_fd, arguments.boot))
    except (ChainError, OSError, ValueError) as error:
        print(f"archive: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
