"""What an agent's turn went through, stage by stage, with the questions and calls of it: made of the ledger alone, by
the builder that the node has too (:mod:`kernel.slices.feed.agent_trace`).
"""

from __future__ import annotations

from dataclasses import dataclass

from chain.entry.reader import EntryRecord
from kernel.slices.feed.agent_trace import AgentTrace, TraceBuilder
from kernel.slices.feed.reply_metadata import metadata_of
from kernel.slices.feed.trajectories import rated_overall
from weftos.audit.auditor import Auditor
from weftos.errors import WeftosError


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which turn: by its id, else the newest that has ended of those of a ``process`` (its PID, name or address) or of
    a session.
    """

    turn: str = ""
    process: str = ""
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Rating:
    """What a person has said of a turn, their newest word: ``thumb`` up or down. ``overall``: the score with it, the
    mean of both, up being 1 and down 0; where no score was told, the thumb alone.
    """

    thumb: str
    why: str
    by: str
    seq: int
    overall: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """A trace, what a person says of it, and the entries of it that are erased: what they said is not in it."""

    trace: AgentTrace
    erased: tuple[int, ...]
    rating: Rating | None = None


def agent_trace(auditor: Auditor, wanted: Wanted) -> Found:
    """The trace of one turn. Raises WeftosError when there is none."""
    ident = wanted.turn or _newest(auditor, wanted)
    builder: TraceBuilder | None = None
    first: EntryRecord | None = None
    erased: list[int] = []
    rated: EntryRecord | None = None
    for record in auditor.records():
        entry = record.entry
        if first is None and entry.kind == "turn.started" and entry.subject == ident:
            first, builder = record, TraceBuilder(ident, entry.trace.hex(), parent=_parent(auditor, record))
        if builder is None or first is None:
            continue
        if entry.kind == "node.booted":
            builder.node_ended()
        elif entry.kind == "turn.rated":
            if entry.subject == ident:
                rated = record if not record.erased else rated
                erased += [entry.seq] if record.erased else []
        elif entry.trace == first.entry.trace and (record.erased or record.body.get("turn") == ident):
            if record.erased:
                if entry.kind.partition(".")[0] in _OF_TURN:  # of this turn or another of the trace
                    erased.append(entry.seq)
            else:
                builder.hear(entry.kind, record.body, entry.time_us)
    if builder is None:
        raise WeftosError(
            f"the ledger knows no turn {ident}: weftos chain log --kind turn.started", "not_found"
        )
    trace = builder.trace()
    return Found(trace, tuple(erased), None if rated is None else _rating(trace, rated))


def _rating(trace: AgentTrace, rated: EntryRecord) -> Rating:
    body, seq, took = rated.body, rated.entry.seq, metadata_of(trace)
    overall = rated_overall("" if took is None else took["score"], body["thumb"])
    return Rating(body["thumb"], body["why"], body["by"], seq, overall)


_OF_TURN = ("turn", "model", "tool")


def _parent(auditor: Auditor, started: EntryRecord) -> str:
    """The call that the message of a turn came of: in one unit with it stands the intent that is its cause."""
    if started.entry.cause < 0:
        return ""
    message = auditor.entry(started.entry.cause)
    cause = auditor.entry(message.entry.cause) if message.entry.cause >= 0 else None
    if cause is None or cause.erased or cause.entry.kind != "tool.intent":
        return ""
    return f"{cause.body['turn']}:{cause.body['ordinal']}"


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
