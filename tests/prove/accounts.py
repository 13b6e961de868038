"""What the journal says happened, read from its files: messages, turns, calls, and what was open at a moment."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chain.entry.reader import EntryRecord
from chain.state.history import History

Call = tuple[str, str]  # turn, ordinal


@dataclass(frozen=True, slots=True)
class Ending:
    """How a message ended: ``status`` of its turn, or ``dead``."""

    status: str
    text: str
    attempts: int


@dataclass(slots=True)
class Work:
    """The tool calls of one message: how many, from the first proposal to the last outcome."""

    begin_us: int
    end_us: int
    calls: int = 0


@dataclass(slots=True)
class Accounts:
    """One ledger, as far as the proofs ask. Times are microseconds since the epoch."""

    accepted: dict[str, str] = field(default_factory=dict)  # message -> text
    accepted_at: dict[str, int] = field(default_factory=dict)
    endings: dict[str, Ending] = field(default_factory=dict)
    endings_twice: list[str] = field(default_factory=list)
    resumed_at: list[int] = field(default_factory=list)
    doubts: list[tuple[int, Call]] = field(default_factory=list)
    effects: dict[str, set[Call]] = field(
        default_factory=lambda: defaultdict(set)
    )  # effect id -> intended calls
    intended_at: dict[str, int] = field(default_factory=dict)  # effect id -> time of its last intent
    work: dict[str, Work] = field(default_factory=dict)  # message -> its tool calls
    _spans: list[tuple[int, int, Call]] = field(default_factory=list)
    _open: dict[Call, int] = field(default_factory=dict)
    _effect_of: dict[Call, str] = field(default_factory=dict)
    _turns: dict[str, tuple[str, int]] = field(default_factory=dict)

    def in_flight(self, begin_us: int, end_us: int) -> set[Call]:
        """External calls that were under way at some time between ``begin_us`` and ``end_us``."""
        ended = {call for start, end, call in self._spans if start <= end_us and end >= begin_us}
        return ended | {call for call, start in self._open.items() if start <= end_us}

    def add(self, record: EntryRecord) -> None:
        handler = _HANDLERS.get(record.entry.kind)
        if handler is not None:
            handler(self, record.body, record.entry.time_us)

    def _message(self, body: dict[str, Any], time_us: int) -> None:
        self.accepted[body["id"]] = body["text"]
        self.accepted_at[body["id"]] = time_us

    def _dead(self, body: dict[str, Any], time_us: int) -> None:
        self._end(body["id"], Ending("dead", body["why"], 0))

    def _end(self, message: str, ending: Ending) -> None:
        if message in self.endings:
            self.endings_twice.append(message)
        self.endings[message] = ending

    def _started(self, body: dict[str, Any], time_us: int) -> None:
        self._turns[body["turn"]] = (body["message"], body["attempt"])
        if body["attempt"] > 1:
            self.resumed_at.append(time_us)

    def _ended(self, body: dict[str, Any], time_us: int) -> None:
        message, attempt = self._turns[body["turn"]]
        if body["status"] in ("ok", "error", "cancelled"):
            self._end(message, Ending(body["status"], body["reply"], attempt))

    def _proposed(self, body: dict[str, Any], time_us: int) -> None:
        self.work.setdefault(self._turns[body["turn"]][0], Work(time_us, time_us)).calls += 1
        if body["tool"] == "count_effect":
            self._effect_of[body["turn"], body["ordinal"]] = json.loads(body["arguments"])["effect"]

    def _intent(self, body: dict[str, Any], time_us: int) -> None:
        call = (body["turn"], body["ordinal"])
        if body["effects"] == "external":
            self._open[call] = time_us
        if (effect := self._effect_of.get(call)) is not None:
            self.effects[effect].add(call)
            self.intended_at[effect] = time_us

    def _outcome(self, body: dict[str, Any], time_us: int) -> None:
        call = (body["turn"], body["ordinal"])
        self.work[self._turns[body["turn"]][0]].end_us = time_us
        if body["status"] == "in_doubt":
            self.doubts.append((time_us, call))
        if call in self._open:
            self._spans.append((self._open.pop(call), time_us, call))


_HANDLERS = {
    "message.accepted": Accounts._message,
    "message.dead": Accounts._dead,
    "turn.started": Accounts._started,
    "turn.ended": Accounts._ended,
    "tool.proposed": Accounts._proposed,
    "tool.intent": Accounts._intent,
    "tool.outcome": Accounts._outcome,
}


def read_accounts(data: Path) -> Accounts:
    """The accounts of the ledger in a data directory; of what was erased there are none."""
    accounts = Accounts()
    for record in History(data).entries():
        if not record.erased:
            accounts.add(record)
    return accounts
