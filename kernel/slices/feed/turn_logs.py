"""What was seen of each turn, kept for a while: its events in their order, and its trace.

Theory of operation. Every event is made of the journal: of an entry, or of a ``turn_event`` record, which says what no
entry does (a piece of a model's answer while it comes, and that what was shown of it is void). So a turn's events are
numbered once and for all; who comes late, comes again, or comes after the node was killed reads the same ones, and
none that was shown is lost. Nothing here is told to anybody: that is :mod:`kernel.message.turn_feed`.

Kept are the newest: so many bytes of one turn, so many of all, so many turns, and those that ended a day ago go. A turn
whose oldest events went knows how many.

What a sub-agent does is told to the turn that it works for, while that is open: who sent the message (``parent``) is
the newest call of whoever was in a turn when it was accepted, since a call's message stands in the unit of the call.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.model.makers import AGENT
from kernel.model.rows import as_list, as_map, as_number, as_rows, as_text
from kernel.operations.turns.events import EventName
from kernel.slice import Handler, Keeper, Slice, Told
from kernel.slices.feed.agent_trace import STEP_BYTES, AgentTrace, TraceBuilder
from kernel.slices.feed.reply_metadata import metadata_of
from kernel.slices.feed.turn_event import RECORDED, SHOWN_CHARS, TEXT_CHARS, TurnEvent, cut, event
from kernel.slices.mailboxes import Mail, turn_id
from kernel.slices.turns import Turns, rank

MOST_TURNS = 2_000
MOST_BYTES = 4 * 2**20
TURN_BYTES = 2**20
KEPT_US = 24 * 3600 * 1_000_000
MOST_PARENTS = 10_000
_TURN_BESIDE_BYTES = 1_000
_SUB_AGENT: Mapping[str, EventName] = {"ok": "sub_agent_completed", "cancelled": "sub_agent_cancelled"}


@dataclass(slots=True)
class TurnLog:
    """What is kept of one turn. ``first``: the number of the oldest event that is kept. ``showing``: by step, how many
    characters of an answer were shown that is not recorded yet. ``action``: the newest call.
    """

    trace: TraceBuilder
    first: int = 0
    ended_us: int = 0
    action: str = ""
    showing: dict[str, int] = field(default_factory=dict)
    events: deque[TurnEvent] = field(default_factory=deque)
    events_bytes: int = 0

    @property
    def turn(self) -> str:
        return self.trace.turn

    @property
    def ended(self) -> bool:
        return self.ended_us > 0

    @property
    def next(self) -> int:
        """The number that the next event will have."""
        return self.first + len(self.events)

    @property
    def bytes(self) -> int:
        """What it takes, about."""
        return _TURN_BESIDE_BYTES + self.events_bytes + STEP_BYTES * len(self.trace.steps)

    def add(self, one: TurnEvent) -> int:
        """Add an event; the oldest go where it would be too much. How many bytes more there are with it, about."""
        self.events.append(one)
        more = one.size_bytes
        while self.events_bytes + more > TURN_BYTES and len(self.events) > 1:
            more -= self.events.popleft().size_bytes
            self.first += 1
        self.events_bytes += more
        return more


class TurnLogs(Slice):
    """By turn, the one that began longest ago first. ``bytes``: what all of them take, about."""

    NAME = "turn_logs"
    MIGRATIONS = {0: lambda rows: [[], [], []]}  # noqa: RUF012

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._logs: dict[str, TurnLog] = {}
        self._ended_ones: OrderedDict[str, None] = OrderedDict()
        self._parents: OrderedDict[str, str] = OrderedDict()
        self.bytes = 0

    def get(self, turn: str) -> TurnLog | None:
        return self._logs.get(turn)

    def trace_of(self, turn: str) -> AgentTrace | None:
        """The trace of a turn as far as it is known; None of one that is not kept."""
        log = self._logs.get(turn)
        return None if log is None else log.trace.trace()

    def open_ones(self) -> Iterator[TurnLog]:
        """Those of turns that have not ended."""
        return (log for log in self._logs.values() if not log.ended)

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, turn: object) -> bool:
        return turn in self._logs

    def hears(self) -> Mapping[str, Handler]:
        return {
            "node.booted": self._booted,
            "message.accepted": self._accepted,
            "message.dead": self._dead,
            "process.spawned": self._spawned,
            "turn.started": self._started,
            "turn.ended": self._ended,
            "turn.diverged": self._diverged,
            "turn.decided": self._decided,
            "model.asked": self._asked,
            "sys.compaction": self._compacted,
            "model.answered": self._answered,
            "tool.proposed": self._proposed,
            "tool.verdict": self._judged,
            "tool.intent": self._intended,
            "tool.outcome": self._came_out,
            "tool.resolved": self._resolved,
        }

    def keeps(self) -> Mapping[str, Keeper]:
        return {"turn_event": self._recorded}

    def _compacted(self, told: Told) -> None:
        log, body = self._open(told.body["turn"]), told.body
        if log is not None and body["state"] == "done":
            flushed = {"written": body["written"], **({"why": body["why"]} if body["why"] else {})}
            self._add(log, event("memory_flush", told.time_us, told.seq, body["ordinal"], **flushed))

    # -- of whom and for whom ------------------------------------------------------------------------------------

    def _booted(self, told: Told) -> None:
        for log in self._logs.values():
            if not log.ended:
                log.trace.node_ended()

    def _accepted(self, told: Told) -> None:
        sender = told.body["sender"]
        turn = self._turns.at(sender) if sender.startswith("/") else None
        log = None if turn is None else self._logs.get(turn.id)
        if log is not None and log.action:
            self._parents[turn_id(told.body["id"])] = f"{log.turn}:{log.action}"
            if len(self._parents) > MOST_PARENTS:
                self._parents.popitem(last=False)

    def _spawned(self, told: Told) -> None:
        if told.body.get("made_by") != AGENT:
            return
        turn = self._turns.at(told.body["parent"])
        log = None if turn is None else self._logs.get(turn.id)
        if log is not None:
            self._add(
                log,
                event("sub_agent_spawned", told.time_us, told.seq, log.action, process=told.body["address"]),
            )

    def _tell_parent(self, log: TurnLog, told: Told, name: EventName, **data: Any) -> None:
        """Tell the turn that a sub-agent works for, while it is open. What was said is not told: it may be erased."""
        turn, _, step = log.trace.parent.partition(":")
        above = self._logs.get(turn)
        if above is None or above.ended or not log.trace.address.startswith(f"{above.trace.address}/"):
            return
        self._add(
            above,
            event(name, told.time_us, told.seq, step, process=log.trace.address, turn=log.turn, **data),
        )

    # -- of a turn -----------------------------------------------------------------------------------------------

    def _started(self, told: Told) -> None:
        ident = told.body["turn"]
        log = self._logs.get(ident)
        turn = self._turns.get(ident)
        if turn is None or (log is not None and log.ended):
            return
        if log is None and told.body["attempt"] > 1:  # it was let go, or began in an earlier version
            return
        if log is None:
            self._forget_old(told.time_us)
            mail: Mail = turn.mail
            trace = mail.trace.hex() if any(mail.trace) else ""
            parent = self._parents.pop(ident, "")
            log = self._logs[ident] = TurnLog(TraceBuilder(ident, trace, parent=parent))
            self.bytes += log.bytes
        self._hear(log, "turn.started", told)
        self._tell_parent(log, told, "sub_agent_progress", what="turn", attempt=told.body["attempt"])
        self._let_go()

    def _ended(self, told: Told) -> None:
        body = told.body
        self._close(body["turn"], told, body["status"], body.get("reply", ""))

    def _dead(self, told: Told) -> None:
        """Also of a message that never had a turn, which has no log then."""
        ident = turn_id(told.body["id"])
        self._parents.pop(ident, None)
        self._close(ident, told, "dead", told.body["why"])

    def _close(self, ident: str, told: Told, status: str, reply: str) -> None:
        log = self._open(ident)
        if log is None:
            return
        self._hear(log, "turn.ended", told._replace(body={**told.body, "status": status}))
        if status not in ("ok", "cancelled"):
            self._add(log, event("error", told.time_us, told.seq, what="turn", status=status, **cut(reply)))
        answer = cut(reply, TEXT_CHARS, "reply")
        metadata = metadata_of(log.trace.trace())
        self._add(
            log,
            event("response_complete", told.time_us, told.seq, status=status, **answer, metadata=metadata),
        )
        log.ended_us = told.time_us
        log.showing.clear()
        self._ended_ones[ident] = None
        self._tell_parent(log, told, _SUB_AGENT.get(status, "sub_agent_failed"), status=status)

    def _diverged(self, told: Told) -> None:
        log = self._open(told.body["turn"])
        if log is not None:
            self._hear(log, "turn.diverged", told)
            self._add(
                log,
                event("error", told.time_us, told.seq, told.body["ordinal"], what="diverged"),
            )

    def _decided(self, told: Told) -> None:
        """What was recorded from a call on is forgotten: so is what was seen of it."""
        log = self._open(told.body["turn"])
        if log is None:
            return
        self._hear(log, "turn.decided", told)
        if told.body["decision"] == "accept":
            first = rank(told.body["ordinal"])
            seen = dict.fromkeys(one.step for one in log.events if one.step and rank(one.step) >= first)
            for step in seen:
                log.showing.pop(step, None)
                self._add(log, event("reset", told.time_us, told.seq, step, why="forgotten"))

    # -- of a step -----------------------------------------------------------------------------------------------

    def _asked(self, told: Told) -> None:
        log = self._open(told.body["turn"])
        if log is not None:
            self._hear(log, "model.asked", told)

    def _answered(self, told: Told) -> None:
        body = told.body
        log = self._open(body["turn"])
        if log is None:
            return
        self._hear(log, "model.answered", told)
        turn = self._turns.get(body["turn"])
        call = None if turn is None else turn.calls.get(body["ordinal"])
        if call is not None and call.aside:
            return
        step, was_shown = body["ordinal"], log.showing.pop(body["ordinal"], 0)
        if body["status"] == "ok":
            text = _text_of(body["answer"])
            if was_shown and was_shown != len(text):
                self._add(log, event("reset", told.time_us, told.seq, step, why="incomplete"))
            if text and was_shown != len(text):
                self._add(log, event("llm_token", told.time_us, told.seq, step, **cut(text, TEXT_CHARS)))
            return
        if was_shown:
            self._add(log, event("reset", told.time_us, told.seq, step, why="failed"))
        names = {name: body[name] for name in ("error_kind", "provider", "model") if body.get(name)}
        why = cut(_text_of(body["answer"]))
        self._add(log, event("error", told.time_us, told.seq, step, what="model", **names, **why))

    def _proposed(self, told: Told) -> None:
        body = told.body
        log = self._open(body["turn"])
        if log is None:
            return
        self._hear(log, "tool.proposed", told)
        log.action = body["ordinal"]
        data = {"tool": body["tool"], "attempt": 1, **cut(body["arguments"], name="arguments")}
        self._add(log, event("action_started", told.time_us, told.seq, log.action, **data))

    def _judged(self, told: Told) -> None:
        body = told.body
        log = self._open(body["turn"])
        if log is not None:
            reasons = [each[:SHOWN_CHARS] for each in body.get("reasons", [])[:10]]
            data = {"tool": body.get("tool", ""), "decision": body["decision"], "reasons": reasons}
            step = body.get("ordinal", log.action)
            self._add(log, event("shield_verdict", told.time_us, told.seq, step, **data))

    def _intended(self, told: Told) -> None:
        """Another attempt: what was seen of the one before is void."""
        body = told.body
        log = self._open(body["turn"])
        if log is None:
            return
        self._hear(log, "tool.intent", told)
        log.action = body["ordinal"]
        if body["attempt"] > 1:
            data = {"tool": body.get("tool", ""), "attempt": body["attempt"]}
            self._add(log, event("reset", told.time_us, told.seq, log.action, why="attempt"))
            self._add(log, event("action_started", told.time_us, told.seq, log.action, **data))

    def _came_out(self, told: Told) -> None:
        body = told.body
        log = self._open(body["turn"])
        if log is None:
            return
        self._hear(log, "tool.outcome", told)
        data = {"tool": body.get("tool", ""), "status": body["status"], **cut(body["result"], name="result")}
        if body["truncated"]:
            data["truncated"] = True
        self._add(log, event("action_completed", told.time_us, told.seq, body["ordinal"], **data))
        tool = body.get("tool", "")
        self._tell_parent(log, told, "sub_agent_progress", what="action", tool=tool, status=body["status"])

    def _resolved(self, told: Told) -> None:
        log = self._open(told.body["turn"])
        if log is not None:
            self._hear(log, "tool.resolved", told)

    def _recorded(self, turn: str, said: tuple[str, int, str, str] | None) -> None:
        """What no entry says of a turn: a piece of an answer, or that what was shown of it is void. None: all that is
        kept of the turn is erased.
        """
        log = self._logs.get(turn)
        if log is None:
            return
        if said is None:
            self._forget(turn)
            return
        name, time_us, step, text = said
        if log.ended:
            return
        if name == "reset":
            if log.showing.pop(step, 0):
                self._add(log, event("reset", time_us, RECORDED, step, why=text))
            return
        log.showing[step] = log.showing.get(step, 0) + len(text)
        self._add(log, event("llm_token", time_us, RECORDED, step, **cut(text, TEXT_CHARS)))

    # -- what is kept --------------------------------------------------------------------------------------------

    def _open(self, turn: str) -> TurnLog | None:
        log = self._logs.get(turn)
        return None if log is None or log.ended else log

    def _hear(self, log: TurnLog, kind: str, told: Told) -> None:
        steps = len(log.trace.steps)
        log.trace.hear(kind, told.body, told.time_us)
        self.bytes += STEP_BYTES * (len(log.trace.steps) - steps)

    def _add(self, log: TurnLog, one: TurnEvent) -> None:
        self.bytes += log.add(one)
        if self.bytes > MOST_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        """What has ended longest ago goes, then what began longest ago, never the newest."""
        while len(self._logs) > 1 and (self.bytes > MOST_BYTES or len(self._logs) > MOST_TURNS):
            self._forget(next(iter(self._ended_ones or self._logs)))

    def _forget_old(self, now_us: int) -> None:
        while self._ended_ones:
            oldest = next(iter(self._ended_ones))
            if self._logs[oldest].ended_us > now_us - KEPT_US:
                return
            self._forget(oldest)

    def _forget(self, turn: str) -> None:
        self.bytes -= self._logs.pop(turn).bytes
        self._ended_ones.pop(turn, None)

    # -- as rows -------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        logs = [
            [
                log.trace.row(),
                log.first,
                log.ended_us,
                log.action,
                [[step, count] for step, count in log.showing.items()],
                [list(one) for one in log.events],
            ]
            for log in self._logs.values()
        ]
        return [logs, list(self._ended_ones), [[turn, parent] for turn, parent in self._parents.items()]]

    def restore(self, rows: Any) -> None:
        logs, ended, parents = as_list(rows)
        for trace, first, ended_us, action, showing, events in as_rows(logs):
            log = TurnLog(TraceBuilder.made(trace), as_number(first), as_number(ended_us), as_text(action))
            log.showing = {as_text(step): as_number(count) for step, count in as_rows(showing)}
            for name, time_us, seq, step, data in as_rows(events):
                number = RECORDED if seq == RECORDED else as_number(seq)
                one = TurnEvent(as_text(name), as_number(time_us), number, as_text(step), as_map(data))
                log.events.append(one)
                log.events_bytes += one.size_bytes
            self._logs[log.turn] = log
            self.bytes += log.bytes
        self._ended_ones = OrderedDict((self._logs[as_text(turn)].turn, None) for turn in as_list(ended))
        self._parents = OrderedDict((as_text(turn), as_text(parent)) for turn, parent in as_rows(parents))


def _text_of(answer: str) -> str:
    """The text of an answer as it is recorded; of one that was cut off, nothing."""
    try:
        found = json.loads(answer)
    except ValueError:
        return ""
    text = found.get("text", "") if isinstance(found, dict) else ""
    return text if isinstance(text, str) else ""
