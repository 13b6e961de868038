"""A process whose files may grow to 20,000 bytes only, until it lifts the limit: a real disk that refuses, then writes.

Prints one JSON object: what was acknowledged before, the error, why the ledger was read-only, the size afterwards.
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
from pathlib import Path

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Ledger
from tests.chain.twins.ledgers import draft, open_ledger

LIMIT_BYTES = 20_000


async def run(directory: Path) -> dict[str, object]:
    ledger = open_ledger(directory, retry_s=0.05)
    ledger.start(asyncio.get_running_loop())
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, resource.RLIM_INFINITY))
    acknowledged, error = -1, ""
    while not error:
        ticket = ledger.commit([draft(ledger.next_seq)], durable=True)
        try:
            await ticket.durable()
            acknowledged = ticket.entries[0].entry.seq
        except LedgerUnavailable as refused:
            error = str(refused)
    read_only = ledger.read_only
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while ledger.read_only:
        await asyncio.sleep(0.001)
    await ledger.commit([draft(ledger.next_seq)], durable=True).durable()
    size = ledger.size
    await ledger.close()
    return {"acknowledged": acknowledged, "error": error, "read_only": read_only, "size": size}


Ledger._may_record = lambda self, now_s: False  # type: ignore[method-assign]  # what meets the limit is a commit
print(json.dumps(asyncio.run(run(Path(sys.argv[1])))))
