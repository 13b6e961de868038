"""A node as far as the memory needs one: a real ledger, the real archive process, and if wanted the real gateway."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Draft, Ledger, StateChange
from chain.vectors.document import TABLE, Document, encode_document
from kernel.helper.helper import Helper, HelperCommand
from kernel.helper.helpers import HelperNotice
from kernel.memory.embeddings import Embeddings
from kernel.memory.requests import SearchQuestion
from kernel.shapes import told
from tests.patience import HANG_S

TIMEOUT_S = HANG_S
GATEWAY = str(Path(__file__).with_name("gateway_child.py"))


class MemoryNode:
    """Writes documents as a node does, and asks the archive."""

    def __init__(self, ledger: Ledger, archive: Helper) -> None:
        self.ledger = ledger
        self.archive = archive
        self._next = ledger.size

    async def write(
        self, text: str, *, owner: str = "/user/a", scope: str = "own", title: str = "", ident: str = ""
    ) -> str:
        """Write one document, durably; its id."""
        return (await self.write_all([(text, owner, scope)], title, ident))[0]

    async def write_all(
        self, documents: Sequence[tuple[str, str, str]], title: str = "", ident: str = ""
    ) -> list[str]:
        """Write documents (text, owner, scope), each a unit of its own; their ids."""
        ids = []
        for text, owner, scope in documents:
            seq = self._next
            document = Document(
                ident or f"d{seq}", owner, scope, title, text, seq, 1_700_000_000_000_000 + seq
            )
            ids.append(document.id)
            await self.put(document.id, encode_document(document), durable=False)
        if ids:
            await self.put("", None)
        return ids

    async def put(self, key: str, value: bytes | None, durable: bool = True) -> None:
        """One entry with one state record beside it (none when ``key`` is empty)."""
        body = {"id": key, "to": "/user/a", "why": "w"}
        records: list[Draft | StateChange] = [Draft("message.dead", body)]
        if key:
            records.append(StateChange(TABLE, key, value))
        ticket = self.ledger.commit(records, durable=durable)
        self._next += 1
        if durable:
            await ticket.durable()
            self.archive.notify("durable", {"size": self.ledger.size})

    async def search(self, query: str, **options: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self.archive.request("search", told(SearchQuestion(query, **options)))
        return answer

    async def found(self, query: str, **options: Any) -> list[str]:
        """The ids of the results."""
        return [result["id"] for result in (await self.search(query, **options))["results"]]

    async def stats(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self.archive.request("stats", {})
        return answer

    async def settled(self) -> dict[str, Any]:
        """The stats once nothing is pending."""
        while (stats := await self.stats())["pending"]:
            await asyncio.sleep(0.01)
        return stats

    async def fault(self) -> str:
        """The first fault that the embedder causes."""
        while not (stats := await self.stats())["fault"]:
            await asyncio.sleep(0.01)
        return str(stats["fault"])


def helper(data: Path, name: str, program: Sequence[str], on_notice: Any = None) -> Helper:
    argv = [sys.executable, "-P", *program]
    command = HelperCommand(name, argv, {"PATH": os.environ.get("PATH", "")}, data, data / f"{name}.log")
    return Helper(command, 7, on_notice or (lambda op, args: None), lambda status: None)


@asynccontextmanager
async def memory_node(
    data: Path, *options: str, gateway_json: str = "", timeout_s: float = HANG_S
) -> AsyncIterator[MemoryNode]:
    """A node over ``data``; ``options`` are the archive's; ``gateway_json`` starts a gateway for its embeddings."""
    clock = itertools.count(1_700_000_000_000_000)
    keys = load_keys(data / "keys") if (data / "keys").exists() else create_keys(data / "keys")
    ledger = Ledger.open(data, keys, now_us=lambda: next(clock))
    ledger.start(asyncio.get_running_loop())
    gateway = helper(data, "gateway", [GATEWAY, f'{{"config": {gateway_json}, "keys": {{}}}}'])
    program = ["-m", "weftos.archive", "--data", str(data), *options]
    archive = helper(
        data, "archive", program, lambda op, args: carry.noticed(HelperNotice("archive", op, args))
    )
    carry: Embeddings = Embeddings(gateway.request, archive.request, timeout_s)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if gateway_json:
                await gateway.start()
            await archive.start()
            yield MemoryNode(ledger, archive)
    finally:
        await archive.stop()
        await gateway.stop()
        await ledger.close()
