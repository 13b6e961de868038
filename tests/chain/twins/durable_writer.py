"""A process that appends durably without end, from four callers at once, and says on stdout what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from chain.ledger.ledger import Ledger
from tests.chain.twins.ledgers import KEYS, draft


async def run(directory: Path) -> None:
    ledger = Ledger.open(directory, KEYS, now_us=lambda: time.time_ns() // 1000)
    ledger.start(asyncio.get_running_loop())
    os.write(1, b"open\n")

    async def caller() -> None:
        while True:
            ticket = ledger.commit([draft(ledger.next_seq), draft(ledger.next_seq + 1)], durable=True)
            await ticket.durable()
            os.write(1, b"%d\n" % ticket.entries[-1].entry.seq)

    await asyncio.gather(*(caller() for _ in range(4)))


asyncio.run(run(Path(sys.argv[1])))
