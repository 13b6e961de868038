"""One turn as a story: what was asked, what was decided and by what rule, what was done, and what was answered.

A *step* is one syscall of the turn: a question to a model, a call of a tool, or a value that was given. Several entries
tell of it, joined by their ordinal (round and index). When the turn diverged and a person let the new call stand, what
stood there before is ``forgotten`` by that entry, and a step of its own. Erased bodies leave the entries, and here a
note of which. ``request``: how many messages a model was asked with, and why they cannot be shown to be those.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from chain.entry.reader import EntryRecord
from kernel.slices.turns import rank
from weftos.audit.auditor import Auditor, plain, row
from weftos.audit.path import path_to, sender_of
from weftos.audit.questions import Questions, Unreadable
from weftos.errors import WeftosError
from weftos.json_object import Json

_SAID = "error_kind", "retry_after_ms", "stop_reason", "cost_millionths"
"""Of an answer; entries of older versions lack them."""
_STEP_KINDS = {"model": "model", "tool": "tool", "sys": "value"}


def turn_story(auditor: Auditor, ident: str) -> Json:
    """The turn ``ident`` (``t12``), from the message to the answer. Raises WeftosError when there is none."""
    starts = [record for record in auditor.records() if _begins(record, ident)]
    if not starts:
        raise WeftosError(
            f"the ledger knows no turn {ident}: weftos chain log --kind turn.started", "not_found"
        )
    first = starts[0]
    story: Json = {
        "turn": ident,
        "status": "open",
        "address": first.body.get("address"),
        "session": first.body.get("session"),
        "sent_by": sender_of(path_to(auditor, first.entry.seq)),
        "message": _message(auditor, first),
        "attempts": [
            {"seq": at.entry.seq, "pid": at.entry.pid, "time_us": at.entry.time_us} for at in starts
        ],
        "steps": [],
        "answer": None,
        "ended_us": None,
        "erased": [],
    }
    steps: dict[str, Json] = {}
    gave: dict[int, EntryRecord] = {}  # what its tools did: else each is looked for in the files once more
    questions = Questions(lambda seq: gave.get(seq) or auditor.entry(seq))
    for record in auditor.records(first.entry.seq):
        if record.entry.trace == first.entry.trace:
            _tell(story, steps, ident, record)
            if record.entry.kind == "tool.outcome":
                gave[record.entry.seq] = record
            if record.entry.kind == "model.asked" and not record.erased and record.body["turn"] == ident:
                steps[record.body["ordinal"]] |= _request(questions, record)
    return story


def _request(questions: Questions, record: EntryRecord) -> Json:
    """What is new is told also when the rest, which an earlier entry says, is not to be had."""
    told: Json = {}
    with suppress(Unreadable):
        told["new_messages"] = questions.new(record)
    try:
        return told | {"request": {"messages": len(questions.read(record)), "fault": ""}}
    except Unreadable as error:
        return told | {"request": {"messages": None, "fault": str(error)}}


def _begins(record: EntryRecord, ident: str) -> bool:
    return record.entry.kind == "turn.started" and record.entry.subject == ident


def _message(auditor: Auditor, first: EntryRecord) -> Json | None:
    """The row of the message that the turn handles."""
    return row(auditor.entry(first.entry.cause)) if first.entry.cause >= 0 else None


def _tell(story: Json, steps: dict[str, Json], ident: str, record: EntryRecord) -> None:
    """Add what one entry of the turn's trace tells."""
    entry = record.entry
    noun, _, verb = entry.kind.partition(".")
    if record.erased:
        if entry.kind == "turn.ended" and entry.subject == ident:  # the leaf alone tells that it has ended
            story.update(status="ended", ended_us=entry.time_us)
            story["answer"] = {"seq": entry.seq, "status": None, "reply": None}
        if noun in (*_STEP_KINDS, "turn"):  # of this turn or of another of the trace: the leaf does not say
            story["erased"].append(entry.seq)
        return
    body = record.body
    if body.get("turn") != ident:
        return
    if entry.kind == "turn.ended":
        answer = {"seq": entry.seq, "status": body["status"], "reply": body["reply"]}
        story.update(status=body["status"], ended_us=entry.time_us, answer=answer)
    elif entry.kind == "turn.decided" and body["decision"] == "accept":
        for ordinal in [one for one in steps if rank(one) >= rank(body["ordinal"])]:
            steps.pop(ordinal)["forgotten"] = entry.seq
    elif noun in _STEP_KINDS:
        step = steps.get(body["ordinal"])
        if step is None:
            step = steps[body["ordinal"]] = _new_step(_STEP_KINDS[noun], record, body)
            story["steps"].append(step)
        _TELLERS[verb](step, entry.seq, body)
        step["ended_us"] = entry.time_us


def _new_step(what: str, record: EntryRecord, body: dict[str, Any]) -> Json:
    begun = {"step": what, "ordinal": body["ordinal"], "seqs": [], "time_us": record.entry.time_us}
    return begun | {"ended_us": record.entry.time_us, "status": "open"}


def _asked(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step.update(
        {name: body[name] for name in ("provider", "model", "prefix_of", "prefix_count", "truncated")}
    )
    step["new_messages"] = _json(body["new"])


def _answered(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step.update(
        status=body["status"],
        answer=_json(body["answer"]),
        input_tokens=body["input_tokens"],
        output_tokens=body["output_tokens"],
        **{name: body[name] for name in _SAID if name in body},
    )


def _valued(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step.update(status="ok", op=body["op"], value=plain(body["value"]))


def _filed(step: Json, seq: int, body: dict[str, Any]) -> None:
    """What is told of the files is which: their texts may be long, and a session is told each once."""
    step["seqs"].append(seq)
    names = [name for name, *_ in _json(body["files"])]
    step.update(status="ok", op="files", value=", ".join(map(str, names)) or "none")


def _proposed(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step.update(tool=body["tool"], arguments=body["arguments"], intents=[], outcomes=[], verdicts=[])


def _judged(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step.setdefault("verdicts", []).append(
        {"seq": seq, "decision": body["decision"], "reasons": body["reasons"]}
    )


def _intended(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    names = ("attempt", "effects", "boot", "arguments_hash")
    step.setdefault("intents", []).append({"seq": seq} | {name: body[name] for name in names})


def _came_out(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    names = ("status", "result", "result_hash", "truncated", "attempt")
    step.setdefault("outcomes", []).append({"seq": seq} | {name: body[name] for name in names})
    step["status"] = body["status"]


def _resolved(step: Json, seq: int, body: dict[str, Any]) -> None:
    step["seqs"].append(seq)
    step["resolved"] = {"seq": seq, "resolution": body["resolution"], "by": body["by"]}


_TELLERS = {
    "asked": _asked,
    "answered": _answered,
    "value": _valued,
    "files": _filed,
    "proposed": _proposed,
    "verdict": _judged,
    "intent": _intended,
    "outcome": _came_out,
    "resolved": _resolved,
}


def _json(text: str) -> Any:
    """A JSON field; one that was cut off stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
