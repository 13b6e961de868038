"""The entries that made the state, looked up in the published ledger one by one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from chain.disk import Disk
from chain.ledger.ledger import Draft
from tests.chain.twins.ledgers import open_ledger
from weftos.node.accepting import Published

BODY_BYTES = 60_000
ENTRIES = 300


class CountingDisk(Disk):
    """Counts the bytes that are read of open files: of bodies, that is."""

    def __init__(self) -> None:
        self.bytes = 0

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        data = Disk.read_open(self, handle, offset, length)
        self.bytes += len(data)
        return data


def published(data: Path) -> None:
    async def write() -> None:
        ledger = open_ledger(data)
        ledger.start(asyncio.get_running_loop())
        for first in range(0, ENTRIES, 50):
            drafts = [
                Draft(
                    "message.refused",
                    {"to": "/user/a", "sender": "operator", "why": f"{seq} " + "x" * BODY_BYTES},
                )
                for seq in range(first, first + 50)
            ]
            await ledger.commit(drafts, durable=True).durable()
        await ledger.publish()
        await ledger.close()

    asyncio.run(write())


def test_a_look_up_reads_the_body_that_it_needs_and_few_others(tmp_path: Path) -> None:
    published(tmp_path)
    disk = CountingDisk()
    look = Published(tmp_path, disk)
    seqs = [3, 200, 255, 256, 290, 17, 299]
    for seq in seqs:
        found = look(seq)
        assert found is not None and found[1] is not None
        assert found[1]["why"].startswith(f"{seq} x")
    assert look(ENTRIES) is None
    assert disk.bytes < ENTRIES * BODY_BYTES * 2 // 3
