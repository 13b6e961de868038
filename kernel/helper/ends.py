"""The lives of helpers and workers as the ledger has them: each start, each end, and who ordered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from chain.ledger.ledger import Draft
from kernel.model.commands import Command
from kernel.model.states import CRASH, KILLED, SHUTDOWN
from kernel.state.recorder import Recorder

KERNEL = "/kernel"


class WorkerEnds(Protocol):
    """Who has the workers."""

    def end(self, name: str, hard: bool, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Order:
    """That the incarnation ``pid`` is to end, by whom, and whether at once."""

    pid: int
    hard: bool
    command: Command

    @property
    def reason(self) -> str:
        return KILLED if self.hard else SHUTDOWN

    @property
    def detail(self) -> str:
        return self.command.told("killed" if self.hard else "terminated")


class HelperEnds:
    """Writes starts and ends. By name, the order that is open, and how the last incarnation ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._orders: dict[str, Order] = {}
        self._last: dict[str, str] = {}

    def order(self, name: str, order: Order) -> None:
        """The end that follows is by this order."""
        self._orders[name] = order

    def last(self, name: str) -> str:
        """How the last incarnation ended, empty when none has."""
        return self._last.get(name, "")

    def started(self, name: str, pid: int) -> None:
        body = {"address": f"{KERNEL}/{name}", "pid": pid, "cell": "helper"}
        self._recorder.must([Draft("process.started", body, pid, str(pid))])

    def ended(self, name: str, pid: int, why: str) -> str:
        """By order, or by itself; the reason."""
        reason, detail, cause = CRASH, why[:200], -1
        order = self._orders.pop(name, None)
        if order is not None and order.pid == pid:
            reason, detail, cause = order.reason, order.detail[:500], order.command.seq
        body = {"address": f"{KERNEL}/{name}", "pid": pid, "reason": reason, "detail": detail, "turn": ""}
        self._recorder.must([Draft("process.exited", body, pid, str(pid), b"", cause)])
        self._last[name] = f"PID {pid}: {reason}: {detail}"
        return reason
