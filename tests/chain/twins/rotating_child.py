"""A process that changes its keys and is killed by the disk at the n-th operation: ``DIRECTORY keys|ledger N``.

Says ``changed`` once the new keys are in force and in their place. ``N`` is counted from the beginning of the change,
and counts the operations of one side only: those on the files of keys, which are done one after the other, or those of
the ledger, which fall differently in each run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from chain.disk import Disk
from chain.keys.key_change import adopt_keys, load_candidates, prepare_keys
from chain.keys.rotation import rotation_body
from chain.ledger.ledger import Ledger
from tests.chain.twins.dying_disk import DyingDisk
from tests.chain.twins.ledgers import Clock, draft


def disk_of(directory: Path, side: str) -> DyingDisk:
    """Counts the operations of one side."""

    def counts(operation: str, path: Path) -> bool:
        of_keys = path == directory or path.relative_to(directory).parts[0].startswith("keys")
        return operation != "new_directory" and of_keys == (side == "keys")

    return DyingDisk(counts)


def boot(directory: Path, disk: Disk) -> Ledger:
    """What a node does with its keys at a start."""
    keys, *others = load_candidates(directory)
    ledger = Ledger.open(directory, keys, others=others, now_us=Clock(), disk=disk)
    adopt_keys(directory, ledger.keys, disk)
    return ledger


async def run(directory: Path, side: str, dies_at: int) -> None:
    disk = disk_of(directory, side)
    ledger = boot(directory, disk)
    ledger.start(asyncio.get_running_loop())
    await ledger.commit([draft(ledger.next_seq)], durable=True).durable()
    while ledger.full_size < ledger.size:
        await asyncio.sleep(0.01)
    disk.left = dies_at
    new = prepare_keys(directory, ledger.keys, disk)
    ticket = await ledger.rotate(new, rotation_body(ledger.keys, new, len(ledger.keys.pairs), "a test"))
    await ticket.durable()
    adopt_keys(directory, ledger.keys, disk)
    os.write(1, b"changed\n")
    await ledger.close()
    os.write(1, b"closed\n")


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
