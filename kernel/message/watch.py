"""Who waits for a message's end, and who watches it on its way. Lost with the node; the outcome is in the ledger."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

REMEMBERED_ENDS = 10_000
REMEMBERED_BYTES = 64 * 2**20
WATCH_EVENTS = 4_096

Event = dict[str, Any]


class Watchers:
    """Ends of messages, as futures; events on the way, as bounded queues (a slow watcher loses the oldest events).

    The newest ends are remembered, within a count and a size; ``ends_bytes`` is what their replies come to. Whoever
    asks for an older one finds it in the ledger.
    """

    def __init__(self) -> None:
        self.ends_bytes = 0
        self._ends: OrderedDict[str, Event] = OrderedDict()
        self._waiting: dict[str, list[asyncio.Future[Event]]] = {}
        self._queues: dict[str, list[asyncio.Queue[Event]]] = {}

    def wait(self, message: str) -> asyncio.Future[Event]:
        """A future of the message's end: ``{"status", "reply", "turn"}``."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        if message in self._ends:
            future.set_result(self._ends[message])
        else:
            waiting = self._waiting.setdefault(message, [])
            waiting.append(future)
            future.add_done_callback(lambda done: self._forget(message, done))
        return future

    def _forget(self, message: str, future: asyncio.Future[Event]) -> None:
        waiting = self._waiting.get(message)
        if waiting is not None and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._waiting[message]

    def watch(self, message: str) -> asyncio.Queue[Event]:
        """A queue of the message's events; end with :meth:`unwatch`."""
        queue: asyncio.Queue[Event] = asyncio.Queue(WATCH_EVENTS)
        self._queues.setdefault(message, []).append(queue)
        if message in self._ends:
            queue.put_nowait({"event": "end", **self._ends[message]})
        return queue

    def unwatch(self, message: str, queue: asyncio.Queue[Event]) -> None:
        queues = self._queues.get(message, [])
        if queue in queues:
            queues.remove(queue)
        if not queues:
            self._queues.pop(message, None)

    def emit(self, message: str, event: Event) -> None:
        """Tell the watchers of a message."""
        for queue in self._queues.get(message, ()):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)

    def _forget_end(self, message: str) -> None:
        end = self._ends.pop(message, None)
        if end is not None:
            self.ends_bytes -= _size(end)

    @property
    def ends(self) -> int:
        """How many ends are remembered."""
        return len(self._ends)

    @property
    def count(self) -> int:
        """How many queues there are."""
        return sum(len(queues) for queues in self._queues.values())

    def watched(self, message: str) -> bool:
        return message in self._queues

    def ended(self, message: str, end: Event) -> None:
        """The message's one end: answered, dead, dropped."""
        self._forget_end(message)
        self._ends[message] = end
        self.ends_bytes += _size(end)
        while len(self._ends) > REMEMBERED_ENDS or (
            self.ends_bytes > REMEMBERED_BYTES and len(self._ends) > 1
        ):
            self._forget_end(next(iter(self._ends)))
        for future in self._waiting.pop(message, []):
            if not future.done():
                future.set_result(end)
        self.emit(message, {"event": "end", **end})


def _size(end: Event) -> int:
    return len(str(end.get("reply", "")).encode())
