"""What people may ask of memory: commands recorded with who typed them, questions not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.kernel import Kernel
from kernel.memory.memory import Mode
from kernel.message.mail import OPERATOR
from kernel.model.address import validate_address
from kernel.state.documents import NewDocument, draft_document, draft_forgetting
from kernel.state.recorder import ledger_errors
from kernel.values import clean

Command = Callable[..., tuple[int, bytes]]


class MemoryControl:
    """The part of the control facade that is about memory. A person sees every document.

    ``command(op, operation, **arguments)`` records who asked for what; it gives the entry's sequence and a trace.
    """

    def __init__(self, kernel: Kernel, command: Command) -> None:
        self._kernel = kernel
        self._command = command
        self._documents = kernel.state.documents

    async def add(
        self, op: Mapping[str, object], text: str, title: str, scope: str, owner: str = ""
    ) -> dict[str, Any]:
        """Remember a text. ``owner`` is an address, empty for the person. Raises Invalid, Busy, Unavailable."""
        recorder, bounds = self._kernel.recorder, self._kernel.env.bounds
        whose = validate_address(owner) if owner else OPERATOR
        new = NewDocument(whose, scope, clean(title), clean(text), recorder.ledger.now_us(), b"", -1)
        draft_document(new, self._documents, bounds, 0)  # refused before the command is recorded
        seq, trace = self._command(op, "memory_add", text=new.text, title=new.title, scope=scope, owner=whose)
        new = NewDocument(whose, scope, new.title, new.text, new.time_us, trace, seq)
        unit = recorder.unit()
        place = unit.next_seq
        ident, records = draft_document(new, self._documents, bounds, place)
        unit.add(*records)
        with ledger_errors():
            await recorder.commit(unit, durable=True).durable()
        return {"id": ident, "seq": place, "owner": whose, "scope": scope, "bytes": len(new.text.encode())}

    async def search(self, query: str, k: int, mode: Mode) -> dict[str, Any]:
        """The best ``k`` documents. Raises Invalid, Unavailable, TimedOut."""
        return await self._kernel.memory.search(clean(query), k, None, mode)

    async def show(self, ident: str) -> dict[str, Any]:
        """One document whole. Raises NotFound, Unavailable, TimedOut."""
        return await self._kernel.memory.read(ident, None)

    async def forget(self, op: Mapping[str, object], ident: str) -> dict[str, Any]:
        """Take a document out of memory; the index follows. Raises NotFound, Unavailable."""
        fact = self._documents.readable(ident, None)
        seq, trace = self._command(op, "memory_forget", id=fact.id)
        records = draft_forgetting(fact.id, f"operator:{op['uid']}", trace, seq)
        with ledger_errors():
            await self._kernel.recorder.commit(records, durable=True).durable()
        return {"id": fact.id, "owner": fact.owner, "scope": fact.scope, "seq": fact.seq}

    async def stats(self) -> dict[str, Any]:
        """documents, bytes, owners, index. Never fails: an absent archive is said in ``index``."""
        return await self._kernel.memory.stats()

    async def reindex(self, op: Mapping[str, object]) -> dict[str, Any]:
        """Have the index built anew, in the background. Raises Unavailable, TimedOut."""
        self._command(op, "memory_reindex")
        return await self._kernel.memory.reindex()
