"""What a record must be for the reducer to take it: asked before it is written, and again when it is read back.

Theory of operation. A record is durable before it is applied, so one that the reducer cannot take would be in the
journal for good, and the node could never boot again. Hence one table and one set of readers, used by both sides:
:class:`kernel.state.recorder.Recorder` asks them before the ledger gets the record, :class:`kernel.state.state.State`
when it applies one. The types are those that the snapshot keeps (:mod:`kernel.state.state_snapshot`), so what passes
here can also be snapshotted and read from there. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from reprlib import repr as brief
from typing import Any, NamedTuple

import msgpack

from chain.entry.kinds import KINDS
from chain.errors import EntryError
from chain.vectors.document import TABLE as DOCUMENT
from chain.vectors.document import DocumentError, decode_document
from kernel.errors import Invalid
from kernel.model.call_states import CALL_EVENTS
from kernel.model.machine import Events, names
from kernel.model.spec import ProcessSpec
from kernel.model.turn_states import TURN_EVENTS
from kernel.values import canonical, check_depth

ERASING = "erasing"
EXIT = "exit"
INBOX = "inbox"
NUMBERING = "numbering"
PIDS = "pids"
SESSION = "session"
TABLES = (DOCUMENT, ERASING, EXIT, INBOX, NUMBERING, PIDS, SESSION)

DEEPEST = 510
"""Levels of lists and maps that msgpack writes, less the one around a session that is handed to a cell."""
NUMBER_LIMIT = 2**63
_NUMBER_DIGITS = 19


class Change(NamedTuple):
    """A state record as the reducer takes it. ``key`` and ``value`` are of the table's own types; None deletes."""

    table: str
    key: Any
    value: Any


# -- entries ---------------------------------------------------------------------------------------------------------


def _texts(value: Any) -> bool:
    return type(value) is list and {*map(type, value)} <= {str}


def _rights(value: Any) -> bool:
    return value is None or _texts(value)


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < NUMBER_LIMIT


def _given(value: Any) -> bool:
    return type(value) in (int, float)


def _numbers(value: Any) -> bool:
    return type(value) is list and all(map(_number, value))


def _spec(value: Any) -> bool:
    ProcessSpec.from_json(value)
    return True


def _json_object(value: Any) -> bool:
    found = json.loads(value) if type(value) is str else None
    return type(found) is dict and bool(canonical(found))


def _known(events: Events[Any], kind: str) -> Callable[[Any], bool]:
    """That it names an event which the machine knows."""
    known = names(events, kind)
    return lambda value: type(value) is str and value in known


class Later(NamedTuple):
    """A field that entries of an earlier version lack: what it must be, and what stands for it there."""

    kind: Any
    default: Any


_T = {"turn": str}
_CALL = {"turn": str, "ordinal": str}
_MAIL: dict[str, Any] = {
    "id": str, "sender": str, "to": str, "text": str, "session": str, "reply_to": str, "wants_reply": bool,
    "deadline_us": int, "rights": _rights, "waiting": _texts,
}  # fmt: skip
_ID = {"id": str}

FORMS: Mapping[str, Mapping[str, Any]] = {
    "node.booted": {},
    "state.accepted": {"contradicted": _numbers},
    "process.spawned": {"address": str, "parent": str, "spec": _spec, "made_by": Later(str, "operator")},
    "process.started": {"address": str, "pid": _number},
    "process.exited": {"address": str, "pid": _number, "reason": str, "detail": str, "turn": Later(str, "")},
    "process.slot": {"address": str, "state": str, "why": str},
    "message.accepted": _MAIL,
    "message.sent": {**_MAIL, "peer": str, "answers": str, "status": str, "answer_by_us": int},
    "message.acknowledged": _ID,
    "message.replied": _ID,
    "message.unanswered": _ID,
    "message.dead": {**_ID, "why": str},
    "message.replayed": _ID,
    "message.dropped": _ID,
    "turn.started": {**_T, "message": str, "address": str, "attempt": int, "config": Later(str, ""),
                     "result_bytes": Later(_number, 0)},
    "turn.ended": {**_T, "status": _known(TURN_EVENTS, "turn.ended")},
    "turn.diverged": {**_CALL, "recorded": _json_object, "asked": _json_object},
    "turn.decided": {**_CALL, "decision": _known(TURN_EVENTS, "turn.decided")},
    "model.asked": {**_CALL, "call_hash": str, "provider": Later(str, ""), "model": Later(str, ""),
                    "tools": Later(_texts, []), "asked": Later(str, "")},
    "model.answered": {**_CALL, "status": str, "answer": str, "input_tokens": int, "output_tokens": int},
    "sys.value": {**_CALL, "call_hash": str, "op": str, "value": _given},
    "tool.proposed": {**_CALL, "call_hash": str, "tool": str, "arguments": str},
    "tool.intent": {**_CALL, "attempt": int, "effects": Later(str, ""), "replaces": Later(str, ""),
                    "pid": Later(_number, 0), "on_doubt": Later(str, "")},
    "tool.outcome": {**_CALL, "status": _known(CALL_EVENTS, "tool.outcome"), "result": str, "truncated": bool,
                     "attempt": int},
    "tool.resolved": {**_CALL, "resolution": _known(CALL_EVENTS, "tool.resolved")},
    "memory.written": {"id": str, "owner": str, "scope": str, "bytes": int, "shown_hash": Later(str, ""),
                       "pid": Later(_number, 0)},
    "memory.forgotten": _ID,
}  # fmt: skip
"""What the reducer reads of each kind it knows: field to exact type, or to what must be true of it."""


class _Form:
    """One row of the table, made ready: the types of all its fields are compared at once."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        plain = {name: kind for name, kind in fields.items() if isinstance(kind, type)}
        names = list(plain) if len(plain) != 1 else [*plain, *plain]  # of one name itemgetter gives no tuple
        self._get: Callable[[Mapping[str, Any]], tuple[Any, ...]] = (
            itemgetter(*names) if plain else lambda body: ()
        )
        self._types = [plain[name] for name in names]
        self._later = [(name, kind) for name, kind in fields.items() if isinstance(kind, Later)]
        known = {*plain, *(name for name, _ in self._later)}
        self._others = [(name, check) for name, check in fields.items() if name not in known]

    def holds(self, body: Mapping[str, Any]) -> bool:
        if [*map(type, self._get(body))] != self._types:
            return False
        for name, check in self._others:  # all() of a generator takes twice as long: each commit passes here
            if not check(body[name]):
                return False
        return not self._later or self._later_hold(body)

    def _later_hold(self, body: Mapping[str, Any]) -> bool:
        return all(_is(later.kind, body.get(name, later.default)) for name, later in self._later)


def _is(kind: Any, value: Any) -> bool:
    return type(value) is kind if isinstance(kind, type) else bool(kind(value))


_FIELDS = {name: dict(kind.fields).keys() for name, kind in KINDS.items()}
_FORMS = {kind: _Form(fields) for kind, fields in FORMS.items()}


def check_fields(kind: str, body: Mapping[str, Any]) -> None:
    """Raises EntryError for an entry that is to be written and lacks a field of its kind, or has one too many. Those of
    earlier versions may lack some.
    """
    if body.keys() != _FIELDS.get(kind, body.keys()):
        raise EntryError("; ".join(KINDS[kind].check(body)))


def check_entry(kind: str, body: Mapping[str, Any]) -> None:
    """Raises EntryError when the reducer could not take such an entry."""
    form = _FORMS.get(kind)
    if form is None:
        return
    try:
        if form.holds(body):
            return
        fault = _fault(form.fields, body)
    except KeyError as error:
        fault = f"the field {error} is missing"
    except Invalid as error:
        fault = str(error)
    except (ValueError, RecursionError) as error:
        fault = f"{type(error).__name__}: {error}"
    raise EntryError(f"{kind} cannot be applied: {fault}")


def _fault(fields: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    for name, kind in fields.items():
        later = isinstance(kind, Later)
        value = body.get(name, kind.default) if later else body[name]
        if not _is(kind.kind if later else kind, value):
            return f"{name} is {brief(value)}"
    return "its form is not the one that is applied"


# -- state records ---------------------------------------------------------------------------------------------------


def read_change(table: str, key: str, value: bytes | None) -> Change | None:
    """A state record as the reducer takes it; None for a table that it does not keep. Raises EntryError."""
    reader = _READERS.get(table)
    if reader is None:
        return None
    try:
        return reader(key, value)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException, Invalid) as error:
        what = f"{type(error).__name__}: {error}"
        raise EntryError(f"state record {brief(key)} of {table} cannot be applied: {what}") from error


def check_change(table: str, key: str, value: bytes | None) -> Change | None:
    """As :func:`read_change`, for a record that is to be written: its table must be known, and a document be one."""
    if table not in TABLES:
        raise EntryError(f"no table {table!r:.60} of state records: there are {', '.join(TABLES)}")
    if table == DOCUMENT and value is not None:
        try:
            decode_document(key, value)
        except DocumentError as error:
            raise EntryError(f"state record {brief(key)} of {table}: {error}") from error
    return read_change(table, key, value)


def remembered(records: list[dict[str, Any]], turns: int) -> bytes:
    """The value of a ``session`` record: what one turn leaves to the next, which :func:`kernel.values.plain` made, and
    how many turns the session has with it: older ones are forgotten.
    """
    value: bytes = msgpack.packb([records, turns])
    return value


def _session(key: str, value: bytes | None) -> Change:
    address, session = key.split("\n", 1)
    if value is None:
        return Change(SESSION, (address, session), None)
    try:
        found = msgpack.unpackb(value)
    except ValueError:
        found = _healed(value)
    records, turns = found, None  # as earlier versions wrote it: their limits say how many turns stay
    if type(found) is list and len(found) == 2 and _number(found[1]):
        records, turns = found
    if type(records) is not list or not {*map(type, records)} <= {dict}:
        raise ValueError("what is remembered is no list of maps")
    if len(value) > DEEPEST:
        check_depth(records, "what is remembered", DEEPEST)
    return Change(SESSION, (address, session), (records, len(value), turns))


def _healed(value: bytes) -> Any:
    """What version 0.1 remembered of maps whose keys were not text: it had checked that JSON can say them, but kept
    them as they came, and then could not read them back. They are what JSON says.
    """
    return json.loads(canonical(msgpack.unpackb(value, strict_map_key=False)))


def _pids(key: str, value: bytes | None) -> Change:
    return Change(PIDS, _number_in(key), None)


def _erasing(key: str, value: bytes | None) -> Change:
    _number_in(key)
    if value is not None:
        for first, last in msgpack.unpackb(value):
            if not (_number(first) and _number(last)):
                raise ValueError("ranges are pairs of entries")
    return Change(ERASING, key, value)


def _exit(key: str, value: bytes | None) -> Change:
    if value is not None:
        raise ValueError("how a process ended is in its entry; here it is only forgotten")
    return Change(EXIT, key, None)


def _inbox(key: str, value: bytes | None) -> Change:
    origin, number = key.split("\n", 1)
    at = (origin, _number_in(number))
    if value is None:
        return Change(INBOX, at, None)
    ident, why = msgpack.unpackb(value)
    if type(ident) is not str or type(why) is not str:
        raise ValueError("a decision is an id and a reason")
    return Change(INBOX, at, (ident, why))


def _numbering(key: str, value: bytes | None) -> Change:
    offset = None if value is None else msgpack.unpackb(value)
    if not _number(offset):
        raise ValueError("what is added to numbers is a number, and is not forgotten")
    return Change(NUMBERING, key, offset)


def _number_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS and _number(int(text))):
        raise ValueError(f"{brief(text)} is no number below 2**63")
    return int(text)


_READERS: Mapping[str, Callable[[str, bytes | None], Change]] = {
    ERASING: _erasing,
    EXIT: _exit,
    INBOX: _inbox,
    NUMBERING: _numbering,
    PIDS: _pids,
    SESSION: _session,
}
