"""The clients outside: threads that send messages without pause, and find out what became of each."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.patience import HANG_S
from tests.prove.chaos.history import History, Unknown
from tests.prove.house import House, ProofError
from weftos import Client, WeftosError

CLIENTS = 10
MOST_OPEN = 40
"""Messages of one client that it does not yet know the end of."""
LONGEST_ROUTE = 4
MAX_WAIT_MS = 40
LOOK_S = 5.0
PAUSE_S = 0.2
TOOLS = ("append", "append_probed")


@dataclass(frozen=True, slots=True)
class Order:
    """A message: its key, who gets it, its text."""

    op: str
    to: str
    text: str
    more: dict[str, Any] = field(default_factory=dict)


def order(op: str, route: Sequence[str], chance: random.Random, **more: Any) -> Order:
    """A message that goes along ``route``, each hop by a send or an ask."""
    work = {
        "id": op,
        "hop": 0,
        "route": route,
        "ways": chance.choices(("ask", "send"), k=len(route)),
        "wait_ms": chance.randint(0, MAX_WAIT_MS),
        "tool": chance.choice(TOOLS),
    }
    return Order(op, route[0], json.dumps(work), {"route": route, **more})


class Sender:
    """One client. Routes go from lower to higher numbers: so no two agents ask each other."""

    def __init__(self, house: House, history: History, agents: Sequence[str], name: str, seed: str) -> None:
        self._house = house
        self._history = history
        self._agents = agents
        self._name = name
        self._chance = random.Random(f"{seed} {name}")
        self._sent = 0
        self.open: deque[Order] = deque()
        self._unsent: deque[Order] = deque()

    def run(self, stopping: threading.Event) -> None:
        """Send, and look at what was sent, until told to stop."""
        while not stopping.is_set():
            with suppress(WeftosError, Unknown), self._house.client() as node:
                while not stopping.is_set():
                    self._step(node)
            stopping.wait(PAUSE_S)

    def _step(self, node: Client) -> None:
        if self._unsent:
            self._send(node, self._unsent.popleft())
        elif len(self.open) < MOST_OPEN and self._chance.random() < 0.7:
            self._sent += 1
            picked = self._chance.sample(range(len(self._agents)), self._chance.randint(1, LONGEST_ROUTE))
            route = [self._agents[number] for number in sorted(picked)]
            self._send(node, order(f"{self._name}-{self._sent}", route, self._chance))
        elif self.open:
            self._look(node, self.open.popleft(), LOOK_S)

    def _send(self, node: Client, sent: Order) -> None:
        try:
            answer = self._history.attempt(
                "send",
                sent.op,
                lambda: node.send(sent.to, sent.text, key=sent.op),
                lambda answer: {"message": answer["message"]},
                **sent.more,
            )
        except Unknown:
            self._unsent.append(sent)
            raise
        if answer is not None:
            self.open.append(sent)

    def _look(self, node: Client, sent: Order, wait_s: float) -> None:
        """Ask how it ended; a message that has not yet ended is looked at again later."""
        try:
            self._history.attempt(
                "answer",
                sent.op,
                lambda: node.send(sent.to, sent.text, key=sent.op, wait_s=wait_s),
                lambda answer: {"status": answer["status"]},
            )
        except Unknown:
            self.open.append(sent)
            raise

    def settle(self, deadline: float) -> None:
        """Find out about everything. Raises ProofError when the node does not say it in time."""
        while self._unsent or self.open:
            if time.monotonic() > deadline:
                left = [each.op for each in (*self._unsent, *self.open)]
                raise ProofError(f"{self._name}: nobody knows what became of {left[:10]}, {len(left)} in all")
            with suppress(WeftosError, Unknown), self._house.client() as node:
                while self._unsent:
                    self._send(node, self._unsent.popleft())
                while self.open and time.monotonic() < deadline:
                    self._look(node, self.open.popleft(), LOOK_S)

    def finally_ask(self, routes: Sequence[Sequence[str]]) -> None:
        """One message along each route, each to be answered."""
        with self._house.client() as node:
            for number, route in enumerate(routes):
                self._send(node, order(f"{self._name}-last{number}", route, self._chance, final=True))


@contextmanager
def clients(house: House, history: History, agents: Sequence[str], seed: str) -> Iterator[list[Sender]]:
    """Clients that send until the end of the block."""
    senders = [Sender(house, history, agents, f"c{number}", seed) for number in range(CLIENTS)]
    stopping = threading.Event()
    threads = [threading.Thread(target=sender.run, args=(stopping,)) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        yield senders
    finally:
        stopping.set()
        for thread in threads:
            thread.join(HANG_S)
