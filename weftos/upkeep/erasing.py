"""Takes what was erased out of every file that still holds it, and goes on with it after a crash.

The node's state is free of it already, and names what is under way (``state.erasing``). Each step can be done again;
all are, until the last one records that nothing is left:

1. the journal: a new segment is begun, a snapshot of all before it made, the segments before it removed;
2. the published ledger, which has all entries by then: the bodies in ``ledger/tile/bodies`` are cut out;
3. the archive is built anew from what is left, its files having been removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgpack

from chain.ledger.ledger import StateChange
from kernel.state.record_forms import ERASING
from kernel.state.recorder import Recorder
from weftos.helpers.compaction import Compaction, Log

RETRY_S = 5.0
REBUILD = "rebuild"

Ranges = Sequence[tuple[int, int]]


class Erasable(Protocol):
    """What erasing needs of the ledger."""

    async def roll(self) -> int: ...

    async def erase_bodies(self, ranges: Ranges) -> int: ...


class Erasing:
    """One node's. ``archive(op, args)`` asks the archive."""

    def __init__(
        self,
        recorder: Recorder,
        ledger: Erasable,
        compaction: Compaction,
        archive: Callable[[str, dict[str, Any]], Awaitable[Any]],
        log: Log,
        retry_s: float = RETRY_S,
    ) -> None:
        self._recorder = recorder
        self._ledger = ledger
        self._compaction = compaction
        self._archive = archive
        self._log = log
        self._retry_s = retry_s
        self._task: asyncio.Task[None] | None = None
        self._cut: set[str] = set()
        self._step = ""
        self._fault = ""

    def start(self) -> None:
        """There may be something to do: at a start of the node, and after each erasure that was begun."""
        if self._recorder.state.erasing and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop; the next start of the node goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def progress(self) -> dict[str, str]:
        """``step`` that is under way, ``fault`` why it does not go on; both empty when nothing is."""
        return {"step": self._step, "fault": self._fault}

    async def _work(self) -> None:
        while self._recorder.state.erasing:
            try:
                await self._erase(dict(self._recorder.state.erasing))
                self._fault = ""
            except (
                Exception
            ) as error:  # whatever it is, it is tried again: somebody was told that it is erased
                self._fault = f"{self._step}: {error}"
                self._log("error", "erasing does not go on", step=self._step, why=str(error))
                await asyncio.sleep(self._retry_s)
        self._step = ""

    async def _erase(self, wanted: dict[str, bytes]) -> None:
        """Every step, for all that is under way now; what this run of the node has done is not done again."""
        ranges = [(first, last) for packed in wanted.values() for first, last in msgpack.unpackb(packed)]
        if not wanted.keys() <= self._cut:
            self._begin("journal", wanted)
            await self._compaction.run_to(await self._ledger.roll())
            self._begin("published ledger", wanted)
            bodies = await self._ledger.erase_bodies(ranges)
            self._log("info", "erased from the ledger", entries=sorted(map(int, wanted)), bodies=bodies)
            self._cut = set(wanted)
        self._begin("archive", wanted)
        await self._archive(REBUILD, {})
        self._begin("end", wanted)
        done = [StateChange(ERASING, key, None) for key in wanted]
        await self._recorder.commit(done, durable=True).durable()
        self._log("info", "erased", entries=sorted(map(int, wanted)))

    def _begin(self, step: str, wanted: dict[str, bytes]) -> None:
        self._step = step
        self._log("info", "erasing", step=step, entries=sorted(map(int, wanted)))
