"""Counts effects outside the node: what a tool did is known here, whatever the node has forgotten.

An effect can be held: it is counted at once, and answered when the test says so.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections import Counter

from tests.patience import HANG_S


class Effects:
    """A server on loopback. Each line is ``{"count": effect}``, the answer ``{"counted": n}``; of ``{"seen": effect}``
    how often it was.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._held: set[str] = set()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    asked = json.loads(line)
                    number = outer.count(asked["seen"]) if "seen" in asked else outer._count(asked["count"])
                    try:
                        self.wfile.write(json.dumps({"counted": number}).encode() + b"\n")
                    except OSError:  # whoever did it was killed meanwhile
                        return

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _count(self, effect: str) -> int:
        with self._changed:
            self._counts[effect] += 1
            number = self._counts[effect]
            self._changed.notify_all()
            self._changed.wait_for(lambda: effect not in self._held)
            return number

    def hold(self, effect: str) -> None:
        """Answer this one only after :meth:`release`."""
        with self._changed:
            self._held.add(effect)

    def release(self, effect: str) -> None:
        with self._changed:
            self._held.discard(effect)
            self._changed.notify_all()

    def await_count(self, effect: str, number: int = 1, wait_s: float = HANG_S) -> None:
        """Wait until an effect was made ``number`` times."""
        with self._changed:
            there = self._changed.wait_for(lambda: self._counts[effect] >= number, wait_s)
        assert there, f"{effect} was counted {self._counts[effect]} times in {wait_s:g} s, not {number}"

    def count(self, effect: str) -> int:
        with self._changed:
            return self._counts[effect]

    def close(self) -> None:
        with self._changed:
            self._held.clear()
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
