"""Conversations as lines of JSON, one event each: made of the ledger, and read from a file that anybody may have made.

A line has ``event``: ``session`` (the first one: whose, what it is called), ``message``, ``assistant`` (what a model
said, with the calls that it asked for), ``tool_call``, ``tool_result``, ``thought`` (what a stage of the turn tells of
itself), ``reply``. What was erased is not there; how many entries these were, the first line says.

Of a file only messages and replies are taken: what tools did elsewhere, and what another agent thought, are no deeds of
who takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from chain.entry.reader import EntryRecord
from kernel.model.titles import title_of
from weftos.audit.auditor import Auditor
from weftos.errors import WeftosError
from weftos.json_object import Json

VERSION = 1
LINE_BYTES = 2**20
FILE_BYTES = 64 * 2**20
SNIPPET_CHARS = 160
_SHOWN_WORDS = 80


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message and what was answered."""

    message: str
    reply: str


@dataclass(slots=True)
class Transcript:
    """A conversation of one address. ``events``: in their order; ``erased``: entries that say nothing any more."""

    address: str
    session: str
    events: list[Json] = field(default_factory=list)
    erased: int = 0

    def lines(self) -> Iterator[Json]:
        """All of it, the head first."""
        said = [event for event in self.events if event["event"] == "message"]
        answers = sum(event["event"] == "reply" for event in self.events)
        title = title_of(said[0]["text"], answers) if said else ""
        yield {
            "event": "session",
            "version": VERSION,
            "process": self.address,
            "session": self.session,
            "title": title,
            "erased": self.erased,
        }
        yield from self.events


def transcripts(auditor: Auditor, process: str = "", session: str | None = None) -> list[Transcript]:
    """Those of a ``process`` (its PID, name or address; empty: of all) and in a ``session`` (None: in any), in the
    order in which they began.
    """
    found: dict[tuple[str, str], Transcript] = {}
    turns: dict[str, Transcript] = {}
    messages: dict[str, Json] = {}
    traces: dict[bytes, Transcript] = {}
    for record in auditor.records():
        entry = record.entry
        if record.erased:
            if entry.kind.partition(".")[0] in ("turn", "model", "tool", "message") and entry.trace in traces:
                traces[entry.trace].erased += 1
        elif entry.kind == "message.accepted":
            messages[record.body["id"]] = _message(record)
        elif entry.kind == "turn.started" and entry.subject not in turns:
            address, name = record.body["address"], record.body["session"]
            said = messages.pop(record.body["message"], None)
            if not _is_of(address, entry.pid, process) or session not in (None, name):
                continue
            one = found.setdefault((address, name), Transcript(address, name))
            turns[entry.subject] = traces[entry.trace] = one
            if said is not None:
                one.events.append(said | {"turn": entry.subject})
        elif (told_of := turns.get(str(record.body.get("turn")))) is not None:
            told_of.events += _told(record)
        elif entry.kind in ("message.dead", "message.cancelled"):
            messages.pop(record.body["id"], None)
    return list(found.values())


def _is_of(address: str, pid: int, process: str) -> bool:
    return process in ("", address, address.rpartition("/")[2], str(pid))


def _message(record: EntryRecord) -> Json:
    body = record.body
    names = ("id", "sender", "text")
    return {"event": "message", "time_us": record.entry.time_us} | {name: body[name] for name in names}


def _told(record: EntryRecord) -> Iterator[Json]:
    body = record.body
    head = {"time_us": record.entry.time_us, "turn": body["turn"]}
    match record.entry.kind:
        case "model.answered":
            answer = _read(body["answer"])
            said = {"step": body["ordinal"], "status": body["status"], "text": answer.get("text", "")}
            who = {"provider": body.get("provider", ""), "model": body.get("model", "")}
            yield {"event": "assistant", **head, **said, "tool_calls": answer.get("tool_calls", []), **who}
        case "tool.proposed":
            yield {"event": "tool_call", **head, "step": body["ordinal"], "tool": body["tool"]} | {
                "arguments": body["arguments"]
            }
        case "tool.outcome":
            yield {"event": "tool_result", **head, "step": body["ordinal"], "tool": body["tool"]} | {
                "status": body["status"],
                "text": body["result"],
            }
        case "turn.ended":
            for stage, outcome, why, took_us in json.loads(body.get("stages", "[]")):
                detail = {"outcome": outcome, "took_us": took_us}
                yield {
                    "event": "thought",
                    **head,
                    "stage": stage,
                    "summary": why or outcome,
                    "detail": detail,
                }
            yield {"event": "reply", **head, "status": body["status"], "text": body["reply"]}


def _read(text: str) -> Json:
    """A JSON object; one that was cut off is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# -- looked through ----------------------------------------------------------------------------------------------------


def found_in(all_of_them: Iterable[Transcript], words: Sequence[str]) -> Iterator[Json]:
    """Messages, answers and replies that hold every one of ``words``, whatever their case."""
    wanted = [word.casefold() for word in words]
    for one in all_of_them:
        for event in one.events:
            text = event["text"] if event["event"] in ("message", "reply") else ""
            low = text.casefold()
            if wanted and all(word in low for word in wanted):
                at = max(0, low.find(wanted[0]) - _SHOWN_WORDS // 2)
                row: Json = {name: event[name] for name in ("event", "time_us", "turn")}
                snippet = " ".join(text[at : at + SNIPPET_CHARS].split())
                yield row | {"process": one.address, "session": one.session, "text": snippet}


# -- read from a file --------------------------------------------------------------------------------------------------


def read_exchanges(file: BinaryIO) -> list[Exchange]:
    """The exchanges of a file, whole ones alone. Raises WeftosError that names the first line that is wrong."""
    exchanges: list[Exchange] = []
    waiting: dict[str, str] = {}
    size = number = 0
    while line := file.readline(LINE_BYTES + 1):
        number += 1
        size += len(line)
        if len(line) > LINE_BYTES:
            raise _wrong(number, f"it is longer than {LINE_BYTES} bytes")
        if size > FILE_BYTES:
            raise _wrong(number, f"the file is longer than {FILE_BYTES} bytes")
        if not line.strip():
            continue
        event = _event(number, line)
        if number == 1 and event["event"] == "session":
            if event.get("version") != VERSION:
                raise _wrong(
                    number, f"it is of version {event.get('version')!r:.20}, this one reads {VERSION}"
                )
            continue
        if event["event"] == "message":
            waiting[_text(number, event, "turn")] = _text(number, event, "text")
        elif event["event"] == "reply" and event.get("status") == "ok":
            said = waiting.pop(_text(number, event, "turn"), None)
            exchanges += [] if said is None else [Exchange(said, _text(number, event, "text"))]
    return exchanges


def _event(number: int, line: bytes) -> Json:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _wrong(number, f"it is no JSON ({type(error).__name__})") from error
    if not isinstance(event, Mapping) or not isinstance(event.get("event"), str):
        raise _wrong(number, "it is no object with an event")
    return dict(event)


def _text(number: int, event: Json, name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str):
        raise _wrong(number, f"{name} of a {event['event']!r:.20} must be text")
    return value


def _wrong(number: int, why: str) -> WeftosError:
    return WeftosError(f"line {number}: {why}; nothing was taken over", "invalid")
