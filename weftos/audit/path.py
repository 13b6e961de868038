"""Why something happened: from an entry back along its causes to the message it came from, and to who sent that.

Each leaf names its cause, so the path holds even where bodies are erased. Where it ends within a turn (an entry that
names no cause), it goes on with the start of that turn, whose own cause is the message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chain.entry.reader import EntryRecord
from weftos.audit.auditor import Auditor, row
from weftos.json_object import Json


def path_to(auditor: Auditor, seq: int) -> list[Json]:
    """The entries that led to ``seq`` as rows, the first cause first, the entry itself last."""
    path = auditor.entries(auditor.causes(seq))
    while (start := _start_of_turn(auditor, path[0])) is not None:
        path = auditor.entries(auditor.causes(start)) + path
    return [row(record) for record in path]


def _start_of_turn(auditor: Auditor, first: EntryRecord) -> int | None:
    """Where the turn of an entry without a cause began, when that can be told."""
    turn = first.body.get("turn")
    if not isinstance(turn, str) or first.entry.kind == "turn.started":
        return None
    found = None
    for record in auditor.records():
        if record.entry.seq >= first.entry.seq:
            break
        if record.entry.kind == "turn.started" and record.entry.subject == turn:
            found = record.entry.seq
    return found


_BEGUN: Mapping[str, Callable[[Json], str]] = {
    "message.accepted": lambda body: f"sent by {body['sender']}",
    "operator.command": lambda body: "commanded by operator",
    "peer.command": lambda body: f"commanded by {body['name']}, {body['principal']}",
}


def sender_of(path: list[Json]) -> str:
    """Who set off what ``path`` leads to, in words; nothing when it was no message and no command."""
    said = [entry for entry in path if entry["kind"] in _BEGUN]
    if not said:
        return ""
    first, last = said[0], said[-1]
    if any(entry["body"] is None for entry in (first, last)):
        return f"who sent it was erased (entry {first['seq']})"
    words = _BEGUN[last["kind"]](last["body"])
    if last is not first and first["kind"] == "message.accepted":
        words += f", because of a message of {first['body']['sender']} (entry {first['seq']})"
    if first["kind"] == "operator.command":
        words += f", user {first['body']['uid']} of this machine (entry {first['seq']})"
    return words
