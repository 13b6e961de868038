"""What keeps a ledger's directory from growing for ever: segments, the snapshot in their place, erased bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chain.disk import Disk
from chain.errors import LedgerUnavailable
from chain.in_thread import in_thread
from chain.journal.journal import Journal
from chain.journal.ticket import Ticket
from chain.journal.writer import RollSegment, Writer
from chain.keys.keys import Keys
from chain.ledger.loop_calls import LoopCalls
from chain.state.kept_snapshot import KeptSnapshot
from chain.state.recovery import remove_segments
from chain.tiles.erasure import erase_bodies
from chain.tiles.publisher import Publisher


def _settle(rolled: asyncio.Future[int], group: int, why: str) -> None:
    if rolled.done():
        return
    if why:
        rolled.set_exception(LedgerUnavailable(why))
    else:
        rolled.set_result(group)


@dataclass(frozen=True, slots=True)
class UpkeepParts:
    """What upkeep works with. ``signers()``: the keys in force, and those that a change under way will bring.
    ``publish()``: see :meth:`chain.ledger.ledger.Ledger.publish`.
    """

    journal: Journal
    snapshot: KeptSnapshot
    publisher: Publisher
    writer: Writer[Ticket]
    calls: LoopCalls
    signers: Callable[[], tuple[Keys, ...]]
    publish: Callable[[], Awaitable[None]]


class Upkeep:
    """For the event loop's thread alone."""

    def __init__(self, data: Path, disk: Disk, parts: UpkeepParts) -> None:
        self._data = data
        self._disk = disk
        self._parts = parts

    @property
    def segment(self) -> tuple[int, bytes]:
        """The first group of the journal's present segment, and the checksum of the frame before it."""
        return self._parts.journal.began

    @property
    def sealed_bytes(self) -> int:
        """Bytes in the journal's segments before the present one."""
        return sum(self._disk.size(self._data / "journal" / name) for name in self._parts.journal.sealed())

    @property
    def snapshot_digest(self) -> bytes:
        """The digest of the snapshot that the node stands behind; empty when there is none."""
        return self._parts.snapshot.digest

    async def place_snapshot(self, group: int, digest: bytes) -> None:
        """Sign the snapshot of everything before ``group`` that was written beside the present one and has that digest,
        and put it in its place. Raises LedgerUnavailable when it cannot be written, or covers more than is published.
        """
        async with self._parts.snapshot.lock:
            published = self._parts.publisher.size
            await self._parts.snapshot.place(group, digest, self._parts.signers(), published)

    async def sign_snapshot(self) -> None:
        """Sign the snapshot that was found at the start: a person has accepted it. Raises LedgerUnavailable."""
        async with self._parts.snapshot.lock:
            await self._parts.snapshot.sign(self._parts.signers())

    async def roll(self) -> int:
        """Begin a new segment of the journal; its first group. Raises LedgerUnavailable."""
        if not self._parts.calls.started:
            raise LedgerUnavailable("the ledger has not been started")
        rolled: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(group: int, why: str) -> None:
            self._parts.calls.post(lambda _: _settle(rolled, group, why), None)

        self._parts.writer.roll(RollSegment(done))
        return await rolled

    async def publish(self) -> None:
        """Have everything that is durable now published: what is dropped must be. Raises LedgerUnavailable."""
        await self._parts.publish()

    async def drop_before(self, group: int) -> int:
        """Remove the journal's segments that begin before ``group``; how many.

        Raises LedgerUnavailable unless the snapshot covers them and all their entries are published.
        """
        try:
            return await in_thread(self._drop_before, group)
        except OSError as error:
            raise LedgerUnavailable(f"segments of the journal cannot be removed: {error}") from error

    def _drop_before(self, group: int) -> int:
        snapshot, published = self._parts.snapshot.read(), self._parts.publisher.size
        if snapshot is None or snapshot.group < group or published < snapshot.seq:
            raise LedgerUnavailable(
                f"segments before group {group} are still needed: the snapshot covers those before "
                f"{snapshot.group if snapshot else 0}, {published} entries are published"
            )
        return remove_segments(self._data / "journal", group, self._disk)

    async def erase_bodies(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Take the bodies of ``ranges`` (first and last entry of each) out of the published ledger; how many there
        were. They must be published, and no longer in the journal. Raises TileError, OSError.
        """
        work = partial(erase_bodies, self._data / "ledger", self._disk, ranges)
        return await in_thread(self._parts.publisher.alone, work)
