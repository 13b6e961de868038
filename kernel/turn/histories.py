"""What turns leave to the next ones of their sessions, and which sessions have to go for it.

What goes is decided here, once, by the limits of the running node, and recorded: a turn that is open over a restart is
handed the same history whatever the limits are then, and what was forgotten does not come back.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from chain.entry.draft import StateChange
from kernel.bounds import Bounds
from kernel.slices.sessions import Key
from kernel.slices.turns import Turn
from kernel.state.record_forms import SESSION, remembered
from kernel.state.recorder import Recorder

AT_ONCE = 100


class Histories:
    """``evicted``: how many sessions had to go since the node started."""

    def __init__(self, recorder: Recorder, bounds: Bounds) -> None:
        self._recorder = recorder
        self._sessions = recorder.state.sessions
        self._bounds = bounds
        self.evicted = 0

    def addition(self, turn: Turn, records: list[dict[str, Any]]) -> StateChange:
        """The record of what ``turn`` leaves."""
        return self.added((turn.address, turn.mail.session), records)

    def added(self, key: Key, records: list[dict[str, Any]]) -> StateChange:
        """The record of what a session has beside from now on, as if a turn had left it."""
        bounds = self._bounds
        limits = bounds.session_records, bounds.session_bytes
        size = len(remembered(records, 0))
        turns = self._sessions.turns_with(key, len(records), size, limits)
        return _change(key, remembered(records, turns))

    def evict(self) -> None:
        """Let go what is beyond the limits and not in use; while the ledger takes nothing, later."""
        sessions, bounds = self._sessions, self._bounds
        if len(sessions) <= bounds.sessions and sessions.bytes <= bounds.sessions_bytes:
            return
        self._recorder.until_writable("sessions", self._evict)

    def _evict(self) -> None:
        beyond = self._sessions.beyond(self._bounds.sessions, self._bounds.sessions_bytes)
        going = list(islice(beyond, AT_ONCE))
        if not going:
            return
        self._recorder.commit([_change(key, None) for key in going])
        self.evicted += len(going)
        asyncio.get_running_loop().call_soon(self.evict)


def _change(key: Key, value: bytes | None) -> StateChange:
    return StateChange(SESSION, "\n".join(key), value)
