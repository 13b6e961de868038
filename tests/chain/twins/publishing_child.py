"""Ledgers that publish and are killed at an operation of the publisher: ``DIRECTORY N [N ...]``.

For each N a process of its own, on ``DIRECTORY/N``, publishes at :data:`SIZES`. During the last :data:`WATCHED` of them
the operations of the publisher that change anything are counted, and the one of number N is its death. Says a line for
each: N, and the sizes that it saw published.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from threading import current_thread

from chain.ledger.ledger import Ledger, Tuning
from tests.chain.twins.dying_disk import DyingDisk
from tests.chain.twins.ledgers import KEYS, Clock, draft

SIZES = (40, 200, 256, 300, 511, 600, 610)
NAMING = ("new_directory", "create", "rename", "remove", "remove_directory")
WATCHED = 2  # the one that fills a tile, and the one that removes what it has superseded


def counts(operation: str, path: Path) -> bool:
    """What the publisher does to names."""
    return operation in NAMING and current_thread().name == "ledger-publisher"


async def run(directory: Path, number: int, said: int) -> None:
    disk = DyingDisk(counts)
    ledger = Ledger.open(directory, KEYS, now_us=Clock(), disk=disk, tuning=Tuning(publish_s=60.0))
    ledger.start(asyncio.get_running_loop())
    for place, size in enumerate(SIZES):
        if place == len(SIZES) - WATCHED:
            disk.left = number
        ledger.commit([draft(at) for at in range(ledger.next_seq, size)])
        await ledger.publish()
        os.write(said, b" %d" % size)
    os.kill(os.getpid(), signal.SIGKILL)


def main(directory: Path, numbers: list[int]) -> None:
    for number in numbers:
        os.write(1, b"%d" % number)
        child = os.fork()
        if not child:
            (directory / str(number)).mkdir()
            asyncio.run(run(directory / str(number), number, 1))
        os.waitpid(child, 0)
        os.write(1, b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
