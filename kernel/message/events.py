"""The recent past of the ledger, for who looks on: a ring, and bounded queues for followers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from chain.entry.entry import Entry
from chain.ledger.ledger import Group

RING = 1_000
QUEUE = 4_096


class Events:
    """Fed with each durable group. A follower that is too slow loses the oldest; the gap in ``seq`` shows it."""

    def __init__(self) -> None:
        self._ring: deque[Entry] = deque(maxlen=RING)
        self._followers: list[tuple[deque[dict[str, Any]], asyncio.Event]] = []

    def group(self, group: Group) -> None:
        """Take in a durable group."""
        entries = [written.entry for written in group.entries]
        self._ring.extend(entries)
        if self._followers:
            events = [*map(_told, entries)]
            for queue, ready in self._followers:
                queue.extend(events)
                ready.set()

    async def stream(self, follow: bool) -> AsyncIterator[dict[str, Any]]:
        """What is in the ring; with ``follow`` then each new event."""
        queue: deque[dict[str, Any]] = deque(maxlen=QUEUE)
        ready = asyncio.Event()
        follower = (queue, ready)
        queue.extend(map(_told, self._ring))
        if follow:
            self._followers.append(follower)
        try:
            while True:
                while queue:
                    yield queue.popleft()
                if not follow:
                    return
                ready.clear()
                await ready.wait()
        finally:
            if follower in self._followers:
                self._followers.remove(follower)


def _told(entry: Entry) -> dict[str, Any]:
    """What who looks on is told of an entry. It is made for them alone: hardly ever somebody does."""
    return {
        "seq": entry.seq,
        "time_us": entry.time_us,
        "pid": entry.pid,
        "kind": entry.kind,
        "subject": entry.subject,
        "cause": entry.cause,
    }
