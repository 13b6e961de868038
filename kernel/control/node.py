"""What people may ask of the node itself: how it is, what it wrote, how it is configured, and to stop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import cast

from chain.in_thread import in_thread
from kernel.control.archive import ask_archive
from kernel.control.asked import Asked
from kernel.control.facts import NodeFacts, NodeServices
from kernel.control.totals import log_bytes, money, totals
from kernel.errors import Unavailable
from kernel.kernel import Kernel
from kernel.memory.requests import LogQuestion, LogRows
from kernel.operations.node import (
    Checked,
    Configuration,
    Event,
    Follow,
    HelperRow,
    LedgerState,
    Log,
    LogAnswer,
    MessageCounts,
    Node,
    Reloaded,
    Status,
    Stopping,
    TraceState,
)
from kernel.operations.operation import Handler, Nothing
from kernel.process.workspaces import Workspaces


class NodeControl:
    """``since_s``: when the node began, on the clock of the kernel."""

    def __init__(
        self,
        kernel: Kernel,
        facts: NodeFacts,
        services: NodeServices,
        workspaces: Workspaces,
        since_s: float,
    ) -> None:
        self._kernel = kernel
        self._facts = facts
        self._services = services
        self._workspaces = workspaces
        self._since_s = since_s

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Node.status.by(self.status),
            Node.log.by(self.log),
            Node.events.by(self.events),
            Node.config.by(self.config),
            Node.reload.by(self.reload),
            Node.check.by(self.check),
            Node.shutdown.by(self.shutdown),
        )

    async def status(self, asked: Asked, request: Nothing) -> Status:
        kernel, ledger, facts, lag = (
            self._kernel,
            self._kernel.recorder.ledger,
            self._facts,
            self._services.loop_lag,
        )
        helpers, warm, traces = kernel.helpers.rows(), kernel.cells.warm, self._services.traces()
        return {
            "name": facts.name,
            "origin": facts.origin,
            "boot": f"{kernel.env.boot:016x}",
            "version": facts.version,
            "engine": facts.engine,
            "uptime_s": round(kernel.env.clock.now_s() - self._since_s, 3),
            "read_only": ledger.read_only,
            "processes": len(kernel.live) + len(helpers) + 1,
            "cells": sum(1 for view in kernel.cells.list() if view.os_pid),
            "warm_cells": {"spare": warm.spare, "wanted": warm.wanted, "most": warm.most},
            "messages": self._messages(),
            "doubts": len(kernel.state.doubts()),
            "divergences": len(kernel.state.parked()),
            "money": money(kernel.state.accounts.book),
            "ledger": self._ledger(),
            "faults": [
                *(f"{part}: {why}" for part, why in ledger.faults.items()),
                *kernel.helpers.faults(),
                *self._workspaces.faults(),
                *kernel.processes.listing.parked(),
                *_letters_wait(kernel),
                *_traces_are_lost(traces),
            ],
            "kept": {**totals(kernel), "logs_bytes": await in_thread(self._log_bytes)},
            "clock_ahead_s": self._services.clock_ahead_s(),
            "traces": traces,
            "helpers": [
                cast(HelperRow, {key: row[key] for key in ("name", "pid", "os_pid", "state")})
                for row in helpers
            ],
            "loop_lag_p99_ms": lag.p99_ms(),
            "loop_lag_max_ms": lag.max_ms(),
            "loop_lag_longest_ms": lag.longest_ms(),
            "runtime": str(facts.runtime),
            "data": str(facts.data),
            "os_pid": os.getpid(),
        }

    def _messages(self) -> MessageCounts:
        tally = self._kernel.state.tally
        return {
            "accepted": tally.accepted,
            "acknowledged": tally.acknowledged,
            "dead": tally.dead,
            "dropped": tally.dropped,
            "archived": tally.archived,
            "in_flight": self._kernel.state.in_flight,
        }

    def _ledger(self) -> LedgerState:
        recorder, ledger = self._kernel.recorder, self._kernel.recorder.ledger
        return {
            "size": ledger.size,
            "full_size": ledger.full_size,
            "provisional": max(0, ledger.size - ledger.full_size),
            "waiting": recorder.waiting,
            "unrecorded": recorder.unrecorded,
        }

    def _log_bytes(self) -> int:
        try:
            return log_bytes(self._facts.data / "logs")
        except FileNotFoundError:
            return 0

    async def log(self, asked: Asked, request: Log) -> LogAnswer:
        await self._kernel.recorder.ledger.barrier()
        question = LogQuestion(request.limit, request.pid, request.kind)
        answer = await ask_archive(self._services.archive, "log", question, LogRows)
        return {"rows": answer.rows, "source": "archive"}

    def events(self, asked: Asked, request: Follow) -> AsyncIterator[Event]:
        return cast(AsyncIterator[Event], self._kernel.events.stream(request.follow))

    async def config(self, asked: Asked, request: Nothing) -> Configuration:
        return {"values": self._services.config_view()}

    async def reload(self, asked: Asked, request: Nothing) -> Reloaded:
        """Raises Invalid, Unavailable."""
        return await self._services.reload(asked.record)

    async def check(self, asked: Asked, request: Nothing) -> Checked:
        found = await self._services.check()
        return {"differences": [{"what": one.what, "of": one.of, "why": one.text} for one in found]}

    async def shutdown(self, asked: Asked, request: Nothing) -> Stopping:
        with contextlib.suppress(Unavailable):
            asked.record()
        self._services.shutdown("asked for by an operator")
        return {"stopping": True}


def _letters_wait(kernel: Kernel) -> list[str]:
    """That many dead letters wait for a person, when it is so."""
    count, alert = kernel.state.dead.unreplayed, kernel.env.bounds.dead_letters_alert
    if count < alert:
        return []
    return [f"{count} dead letters wait for a person: weftos deadletters list, then replay or drop them"]


def _traces_are_lost(traces: TraceState) -> list[str]:
    """Why they do not get where they should, while they do not."""
    if not traces["fault"]:
        return []
    return [f"traces: {traces['dropped']} were dropped, {traces['waiting']} wait: {traces['fault']}"]
