"""Memory as the node offers it: the archive finds and holds the texts, the node decides who may see which.

Everything the archive answers is checked once more against :class:`kernel.state.documents.Documents`, so that an index
that is behind, or foreign, shows nobody what is forgotten or not theirs. What was written before a question is found by
it: the journal is flushed first, and the archive is told how far it reaches before it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from chain.errors import LedgerUnavailable
from kernel.bounds import Bounds
from kernel.errors import Invalid, TimedOut, Unavailable
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.memory.requests import (
    FoundDocument,
    FoundHit,
    IndexStats,
    ReadQuestion,
    ReindexQuestion,
    SearchAnswer,
    SearchQuestion,
    ToIndex,
)
from kernel.operations.memory import Document, Hit, Hits, MemoryStats, Reindexed, SearchMode
from kernel.operations.operation import Nothing
from kernel.shapes import ShapeError, read, told
from kernel.state.recorder import Recorder
from kernel.values import canonical, cut_bytes

T = TypeVar("T")
Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]

MOST_OWNERS = 50
_HIT_FIELDS = ("id", "title", "text", "score", "parts", "seq", "owner", "scope")
"""What a model is shown of a hit."""


async def no_archive(op: str, args: dict[str, Any]) -> Any:
    """Stands for an archive on a node that has none."""
    raise HelperLost("archive is not running")


class Memory:
    """Questions to memory. ``reader`` is the address that asks, None for a person."""

    def __init__(self, recorder: Recorder, bounds: Bounds, archive: Ask = no_archive) -> None:
        self._ledger = recorder.ledger
        self._documents = recorder.state.documents
        self._bounds = bounds
        self._archive = archive

    async def search(self, query: str, k: int, reader: str | None, mode: SearchMode = "hybrid") -> Hits:
        """The best ``k`` documents that ``reader`` may see. Raises Invalid, Unavailable, TimedOut."""
        size = len(query.encode("utf-8", "surrogatepass"))
        if size > self._bounds.memory_query_bytes:
            raise Invalid(f"query of {size} bytes, limit {self._bounds.memory_query_bytes}")
        if not query.strip():
            raise Invalid("the query is empty: say what to look for")
        if not 1 <= k <= self._bounds.memory_results:
            raise Invalid(f"k is {k}, must be 1 to {self._bounds.memory_results}")
        answer = await self._ask("search", SearchQuestion(query, k, reader, mode), SearchAnswer)
        hits = [shown for hit in answer.results if (shown := self._shown(hit, reader)) is not None]
        return {
            "results": hits[:k],
            "mode": answer.mode,
            "degraded": answer.degraded,
            "embedder": answer.embedder,
        }

    def _shown(self, hit: FoundHit, reader: str | None) -> Hit | None:
        """The hit with what the node itself knows of it; None when ``reader`` may not see it, or it is not what was
        written.
        """
        if not self._documents.may_read(hit.id, reader):
            return None
        fact = self._documents.readable(hit.id, reader)
        if not fact.is_shown(hit.title, hit.text):
            return None
        if not (fact.is_text(hit.text) or (hit.cut and fact.may_begin(hit.text))):
            return None
        return {
            "id": hit.id,
            "title": hit.title,
            "text": hit.text,
            "cut": hit.cut,
            "score": hit.score,
            "parts": hit.parts,
            "owner": fact.owner,
            "scope": fact.scope,
            "seq": fact.seq,
            "time_us": hit.time_us,
            "tags": list(hit.tags),
        }

    async def read(self, ident: str, reader: str | None) -> Document:
        """One document whole. Raises NotFound, Unavailable, TimedOut."""
        fact = self._documents.readable(ident, reader)
        found = await self._ask("read", ReadQuestion(ident, reader), FoundDocument)
        if found.id != ident:
            raise Unavailable(
                f"the archive does not give document {ident}: it may still be reading the journal"
            )
        if not (fact.is_text(found.text) and fact.is_shown(found.title, found.text)):
            raise Unavailable(
                f"the archive gives another text or title for document {ident} than entry {fact.seq} names by its "
                "hash: its files were changed; stop the node, delete archive/ in its data directory, and it is built "
                "again"
            )
        return {
            "id": found.id,
            "title": found.title,
            "text": found.text,
            "owner": fact.owner,
            "scope": fact.scope,
            "seq": fact.seq,
            "bytes": fact.bytes,
            "time_us": found.time_us,
            "tags": list(found.tags),
        }

    async def stats(self) -> MemoryStats:
        """What the node holds, and ``index``: what the archive says of its index, or why it says nothing."""
        try:
            index = told(await self._ask("stats", Nothing(), IndexStats))
        except (Unavailable, TimedOut) as error:
            index = {"fault": str(error)}
        return {
            "documents": len(self._documents),
            "bytes": self._documents.bytes,
            "owners": self._documents.owners(MOST_OWNERS),
            "index": index,
        }

    async def check(self) -> None:
        """Raises Unavailable, TimedOut where the archive does not answer for its index."""
        await self._ask("stats", Nothing(), IndexStats)

    async def reindex(self) -> Reindexed:
        """Have the index built anew. Raises Unavailable, TimedOut."""
        answer = await self._ask("reindex", ReindexQuestion(), ToIndex)
        return {"documents": answer.documents}

    async def _ask(self, op: str, question: Any, kind: type[T]) -> T:
        with contextlib.suppress(LedgerUnavailable):  # what is on the disk can be searched all the same
            await self._ledger.barrier()
        limit_s = self._bounds.memory_timeout_s
        try:
            return read(kind, await asyncio.wait_for(self._archive(op, told(question)), limit_s))
        except ShapeError as error:
            raise Unavailable(f"the archive's answer to {op} is none: {error}") from error
        except HelperLost as error:
            raise Unavailable(f"memory cannot be searched now: {error}") from error
        except HelperRefused as error:
            raise Unavailable(f"the archive refused to {op}: {error}") from error
        except TimeoutError:
            raise TimedOut(f"memory did not answer within {limit_s:g} s; the archive may be busy") from None


def hits_text(hits: list[Hit], limit_bytes: int) -> str:
    """Hits as the JSON text a model reads: a list, as many as fit into ``limit_bytes``, each with an even share."""
    share = limit_bytes // (2 * max(1, len(hits)))
    shown = [
        {**{field: hit.get(field) for field in _HIT_FIELDS}, "text": cut_bytes(hit["text"], share)[0]}
        for hit in hits
    ]
    while len((text := canonical(shown)).encode()) > limit_bytes and shown:
        shown.pop()
    return text


def document_text(document: Document, offset: int, limit_bytes: int) -> str:
    """A document from character ``offset`` on, as JSON of at most ``limit_bytes``; ``next_offset``: there is more.
    Raises Invalid when nothing of it fits.
    """
    shown = {field: document.get(field) for field in ("id", "title", "owner", "scope", "seq")}
    rest, size = document["text"][offset:], limit_bytes
    while True:
        piece, cut = cut_bytes(rest, size)
        more = {"next_offset": offset + len(piece)} if cut else {}
        text = canonical({**shown, "text": piece, **more})
        if len(text.encode()) <= limit_bytes and (piece or not cut):
            return text
        if not piece:
            raise Invalid(
                f"document {document['id']} cannot be shown: with its title and owner nothing of it fits into a result "
                f"of {limit_bytes} bytes"
            )
        size //= 2
