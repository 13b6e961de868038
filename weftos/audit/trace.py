"""What an agent's turn went through, stage by stage, with the questions and calls of it: made of the ledger alone.

The stages are what the behaviour tells of its turn; what each was, how long it took and what came of it is its word.
The questions, calls, tokens and times beside them are the node's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chain.entry.reader import EntryRecord
from weftos.audit.auditor import Auditor
from weftos.audit.turn import turn_story
from weftos.errors import WeftosError
from weftos.json_object import Json


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which turn: by its id, else the newest that has ended of those of a ``process`` (its PID, name or address) or of
    a session.
    """

    turn: str = ""
    process: str = ""
    session: str | None = None


def agent_trace(auditor: Auditor, wanted: Wanted) -> Json:
    """The trace of one turn. Raises WeftosError when there is none."""
    ident = wanted.turn or _newest(auditor, wanted)
    ended = _end_of(auditor, ident)
    story = turn_story(auditor, ident)
    asked = [step for step in story["steps"] if step["step"] == "model"]
    called = [step for step in story["steps"] if step["step"] == "tool"]
    used = [step for step in asked if step["status"] == "ok"]
    begun_us = story["attempts"][0]["time_us"]
    return {
        "trace_id": ended.entry.trace.hex() if ended is not None else "",
        "turn": ident,
        "session_key": f"{story['address']} {story['session']}",
        "started_at_us": begun_us,
        "completed_at_us": story["ended_us"],
        "attempts": len(story["attempts"]),
        "stages": _stages(ended, begun_us),
        "tool_calls": [
            {
                "tool": step.get("tool"),
                "status": step["status"],
                "took_us": step["ended_us"] - step["time_us"],
            }
            for step in called
        ],
        "model_calls": [
            {
                "provider": step.get("provider"),
                "model": step.get("model"),
                "status": step["status"],
                "error_kind": step.get("error_kind", ""),
                "tokens": [step.get("input_tokens", 0), step.get("output_tokens", 0)],
                "cost_millionths": _known(step.get("cost_millionths")),
                "took_us": step["ended_us"] - step["time_us"],
            }
            for step in asked
        ],
        "provider_used": used[-1].get("provider") if used else None,
        "model_used": used[-1].get("model") if used else None,
        "total_tokens": sum(step.get("input_tokens", 0) + step.get("output_tokens", 0) for step in asked),
        "fallback_attempts": sum(step["status"] == "error" for step in asked),
        "outcome": story["status"],
        "erased": story["erased"],
    }


def _known(cost_millionths: int | None) -> int | None:
    """None where nobody knows it, which an entry says by -1."""
    return None if cost_millionths is None or cost_millionths < 0 else cost_millionths


def _newest(auditor: Auditor, wanted: Wanted) -> str:
    """The id of the turn that ended last, of those that are wanted."""
    newest, turns = "", set[str]()
    for record in auditor.records():
        if record.entry.kind == "turn.started" and not record.erased and _is_of(record, wanted):
            turns.add(record.entry.subject)
        elif record.entry.kind == "turn.ended" and record.entry.subject in turns:
            newest = record.entry.subject
    if not newest:
        whose = f" of {wanted.process}" if wanted.process else ""
        raise WeftosError(f"no turn{whose} has ended here: weftos chain log --kind turn.ended", "not_found")
    return newest


def _is_of(record: EntryRecord, wanted: Wanted) -> bool:
    address, process = str(record.body.get("address")), wanted.process
    named = process in ("", address, address.rpartition("/")[2], str(record.entry.pid))
    return named and wanted.session in (None, record.body.get("session"))


def _end_of(auditor: Auditor, ident: str) -> EntryRecord | None:
    ends = [r for r in auditor.records() if r.entry.kind == "turn.ended" and r.entry.subject == ident]
    return ends[-1] if ends else None


def _stages(ended: EntryRecord | None, begun_us: int) -> list[Json]:
    """Rows of what the behaviour told; none in an entry that is erased, or older than stages."""
    told: Any = [] if ended is None or ended.erased else json.loads(ended.body.get("stages", "[]"))
    rows: list[Json] = []
    at_us = begun_us
    for stage, outcome, why, took_us in told:
        rows.append(
            {"stage": stage, "started_at_us": at_us, "took_us": took_us, "outcome": outcome, "why": why}
        )
        at_us += took_us
    return rows
