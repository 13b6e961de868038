"""Who waits for a message's end, and who watches it on its way. Lost with the node; the outcome is in the ledger."""

from __future__ import annotations

import asyncio
from typing import Any

WATCH_EVENTS = 4_096
WATCH_CHARS = 2**21

Event = dict[str, Any]


class WatchQueue(asyncio.Queue[Event]):
    """Events of one message, within a count and the characters they hold; the oldest give way, never the newest."""

    def __init__(self) -> None:
        super().__init__()
        self._chars = 0

    def push(self, event: Event) -> None:
        """Add an event."""
        more = _chars(event)
        while not self.empty() and (self.qsize() >= WATCH_EVENTS or self._chars + more > WATCH_CHARS):
            self.get_nowait()
        self.put_nowait(event)

    def _put(self, item: Event) -> None:
        super()._put(item)
        self._chars += _chars(item)

    def _get(self) -> Event:
        item: Event = super()._get()
        self._chars -= _chars(item)
        return item


class Watchers:
    """Ends of messages, as futures; events on the way, as bounded queues (a slow watcher loses the oldest events).

    Whoever wants to know of an end says so before it can come: none is remembered. The ledger has them all.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[Event]]] = {}
        self._queues: dict[str, list[WatchQueue]] = {}

    def wait(self, message: str) -> asyncio.Future[Event]:
        """A future of the message's end: ``{"status", "reply", "turn"}``."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(message, []).append(future)
        future.add_done_callback(lambda done: self._forget(message, done))
        return future

    def _forget(self, message: str, future: asyncio.Future[Event]) -> None:
        waiting = self._waiting.get(message)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[message]

    def watch(self, message: str) -> WatchQueue:
        """A queue of the message's events; end with :meth:`unwatch`."""
        queue = WatchQueue()
        self._queues.setdefault(message, []).append(queue)
        return queue

    def unwatch(self, message: str, queue: WatchQueue) -> None:
        queues = self._queues.get(message, [])
        if queue in queues:
            queues.remove(queue)
        if not queues:
            self._queues.pop(message, None)

    def emit(self, message: str, event: Event) -> None:
        """Tell the watchers of a message."""
        for queue in self._queues.get(message, ()):
            queue.push(event)

    @property
    def count(self) -> int:
        """How many queues there are."""
        return sum(len(queues) for queues in self._queues.values())

    def watched(self, message: str) -> bool:
        return message in self._queues

    def ended(self, message: str, end: Event) -> None:
        """The message's one end: answered, dead, dropped."""
        for future in self._waiting.pop(message, []):
            if not future.done():
                future.set_result(end)
        self.emit(message, {"event": "end", **end})


def _chars(event: Event) -> int:
    return sum(len(value) for value in event.values() if isinstance(value, str))
