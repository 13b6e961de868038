"""What people may ask of memory: commands recorded with who typed them, questions not."""

from __future__ import annotations

from kernel.control.asked import Asked
from kernel.kernel import Kernel
from kernel.message.messaging import OPERATOR
from kernel.model.address import validate_address
from kernel.operations.memory import (
    Document,
    Forgotten,
    Hits,
    Memory,
    MemoryStats,
    OfDocument,
    Reindexed,
    Remember,
    Remembered,
    Search,
)
from kernel.operations.operation import Handler, Nothing
from kernel.policy.asker import PERSON
from kernel.policy.proposal import ReadMemory, WriteMemory
from kernel.state.documents import NewDocument, draft_document, draft_forgetting
from kernel.state.recorder import ledger_errors
from kernel.values import clean


class MemoryControl:
    """A person sees every document."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._documents = kernel.state.documents

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Memory.stats.by(self.stats),
            Memory.add.by(self.add),
            Memory.search.by(self.search),
            Memory.reindex.by(self.reindex),
            Memory.show.by(self.show),
            Memory.forget.by(self.forget),
        )

    async def add(self, asked: Asked, request: Remember) -> Remembered:
        """Raises Invalid, Busy, Unavailable."""
        recorder, scope = self._kernel.recorder, request.scope
        whose = validate_address(request.owner) if request.owner else OPERATOR
        title, text = clean(request.title), clean(request.text)
        new = NewDocument(whose, scope, title, text, recorder.ledger.now_us(), b"", -1)
        draft_document(new, 0)  # refused before the command is recorded
        self._kernel.policy.require(PERSON, WriteMemory(whose, new.size_bytes, new.scope))
        seq, trace = asked.record(text=new.text, title=new.title, scope=scope, owner=whose)
        new = NewDocument(whose, scope, new.title, new.text, new.time_us, trace, seq)
        unit = recorder.unit()
        place = unit.next_seq
        ident, records = draft_document(new, place)
        unit.add(*records)
        with ledger_errors():
            await recorder.commit(unit).durable()
        return {"id": ident, "seq": place, "owner": whose, "scope": scope, "bytes": len(new.text.encode())}

    async def search(self, asked: Asked, request: Search) -> Hits:
        """Raises Invalid, Unavailable, TimedOut."""
        query = clean(request.query)
        self._kernel.policy.require(PERSON, ReadMemory(query=query))
        return await self._kernel.memory.search(query, request.k, None, request.mode)

    async def show(self, asked: Asked, request: OfDocument) -> Document:
        """Raises NotFound, Unavailable, TimedOut."""
        self._kernel.policy.require(PERSON, ReadMemory(document=request.id))
        return await self._kernel.memory.read(request.id, None)

    async def forget(self, asked: Asked, request: OfDocument) -> Forgotten:
        """The index follows. Raises NotFound, Unavailable."""
        fact = self._documents.readable(request.id, None)
        seq, trace = asked.record(id=fact.id)
        records = draft_forgetting(fact.id, asked.by, trace, seq)
        with ledger_errors():
            await self._kernel.recorder.commit(records).durable()
        return {"id": fact.id, "owner": fact.owner, "scope": fact.scope, "seq": fact.seq}

    async def stats(self, asked: Asked, request: Nothing) -> MemoryStats:
        """Never fails: an absent archive is said in ``index``."""
        return await self._kernel.memory.stats()

    async def reindex(self, asked: Asked, request: Nothing) -> Reindexed:
        """Raises Unavailable, TimedOut."""
        await self._kernel.memory.check()  # refused before the command is recorded
        asked.record()
        return await self._kernel.memory.reindex()
