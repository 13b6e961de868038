"""The client outside: a process that sends messages without pause and keeps a ledger of its own.

    python load.py DATA LEDGER PORT SEED AGENT:KIND...

One thread an agent. KIND ``labourer`` gets plans, ``agent`` gets sentences for the offline planner. Each line of the
ledger is on the disk before the thread goes on: ``{"id", "event": "acknowledged", "message", "expects"}`` once the node
has accepted a message, ``{"id", "event": "replied", "status", "reply"}`` once its reply has come. A message whose
connection broke is not sent again. Stops sending when its standard input closes; ends when every thread has its reply.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

from weftos import Client, WeftosError

PAUSE_S = 0.05
MAX_WAIT_MS = 30
ROUNDS = ["e", "ee", "w", "ew", "c"]


class Ledger:
    """Lines on the disk, from several threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def write(self, **line: Any) -> None:
        with self._lock:
            self._file.write(json.dumps(line).encode() + b"\n")
            os.fsync(self._file.fileno())


class Sender:
    """Keeps one agent busy: now and then a message that nobody waits for, then one whose reply is awaited."""

    def __init__(self, data: Path, ledger: Ledger, port: int, agent: str, kind: str, seed: str) -> None:
        self._data = data
        self._ledger = ledger
        self._port = port
        self._agent = agent
        self._kind = kind
        self._random = random.Random(f"{seed} {agent}")
        self._number = 0

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                with Client(self._data) as node:
                    while not stopping.is_set():
                        if self._random.random() < 0.3:
                            self._send(node)
                        self._watch(node)
            except WeftosError:
                stopping.wait(PAUSE_S)

    def _send(self, node: Client) -> None:
        ident, text, expects = self._work()
        answer = node.send(self._agent, text, session=self._session())
        self._ledger.write(id=ident, event="acknowledged", message=answer["message"], expects=expects)

    def _watch(self, node: Client) -> None:
        ident, text, expects = self._work()
        for event in node.watch(self._agent, text, session=self._session()):
            match event:
                case {"event": "accepted", "message": message}:
                    self._ledger.write(id=ident, event="acknowledged", message=message, expects=expects)
                case {"event": "reply", "status": status, "reply": reply}:
                    self._ledger.write(id=ident, event="replied", status=status, reply=reply)
                case {"event": "dead", "why": why}:
                    self._ledger.write(id=ident, event="dead", why=why)

    def _session(self) -> str:
        return f"s{self._number % 7}"

    def _work(self) -> tuple[str, str, dict[str, Any]]:
        """A new message: its id, its text, and what must be true once it is answered."""
        self._number += 1
        ident = f"{self._agent}-{self._number}"
        if self._kind == "agent":
            effects = [f"{ident}.{n}" for n in range(2)]
            uses = [f"use count_effect with {json.dumps({'port': self._port, 'effect': e})}" for e in effects]
            text = f"{uses[0]} then write {ident} to {ident}.txt then {uses[1]}"
            return ident, text, {"effects": effects, "files": [f"{ident}.txt"]}
        rounds = self._random.choices(ROUNDS, k=self._random.randint(2, 5))
        wait_ms = self._random.randint(0, MAX_WAIT_MS)
        text = json.dumps({"id": ident, "port": self._port, "rounds": rounds, "wait_ms": wait_ms})
        places = [
            (letter, f"{n}.{i}") for n, letters in enumerate(rounds) for i, letter in enumerate(letters)
        ]
        return (
            ident,
            text,
            {
                "effects": [f"{ident}.{place}" for letter, place in places if letter == "e"],
                "files": [f"{ident}.{place}.txt" for letter, place in places if letter == "w"],
            },
        )


def main(data: Path, ledger: Path, port: int, seed: str, agents: list[str]) -> None:
    stopping = threading.Event()
    book = Ledger(ledger)
    senders = [
        Sender(data, book, port, name, kind, seed) for name, _, kind in (a.partition(":") for a in agents)
    ]
    threads = [threading.Thread(target=sender.run, args=(stopping,)) for sender in senders]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
