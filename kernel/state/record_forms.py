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
from reprlib import repr as brief
from typing import Any, Literal, NamedTuple, get_args

import msgpack

from chain.entry.fields import DIGEST, TEXT, Fields, Rule, Type, obeys
from chain.entry.kinds import KINDS, fits
from chain.errors import EntryError
from chain.vectors.document import TABLE as DOCUMENT
from chain.vectors.document import DocumentError, decode_document
from kernel.abi import ErrorKind, StopReason
from kernel.budget.spending import LAST_DAY
from kernel.errors import Invalid
from kernel.model.inbound import read_inbound
from kernel.model.machines.call_states import CALL_EVENTS
from kernel.model.machines.machine import Events, names
from kernel.model.machines.turn_states import TURN_EVENTS
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import OnExhausted, Resource
from kernel.operations.turns.trajectories import Thumb
from kernel.slices.mail.subscriptions import OVERFLOWS
from kernel.slices.mailboxes import KINDS_OF_MESSAGES
from kernel.values import canonical, check_depth

DEEDS = "deeds"
ERASING = "erasing"
EXIT = "exit"
FILES = "files"
INBOX = "inbox"
NUMBERING = "numbering"
PIDS = "pids"
SESSION = "session"
TRAJECTORY = "trajectory"
TURN_EVENT = "turn_event"
TABLES = (DEEDS, DOCUMENT, ERASING, EXIT, FILES, INBOX, NUMBERING, PIDS, SESSION, TRAJECTORY, TURN_EVENT)

DEEPEST = 510
"""Levels of lists and maps that msgpack writes, less the one around a session that is handed to a cell."""
NUMBER_LIMIT = 2**63
TurnEventName = Literal["llm_token", "reset"]
"""What is seen of a turn that no entry says."""
_NUMBER_DIGITS = 19


class Change(NamedTuple):
    """A state record as the reducer takes it. ``key`` and ``value`` are of the table's own types; None deletes."""

    table: str
    key: Any
    value: Any


# -- entries ---------------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < NUMBER_LIMIT


def _numbers(value: list[int]) -> bool:
    return all(map(_number, value))


def _resources(value: list[str]) -> bool:
    return set(value) <= set(_RESOURCES) and len(set(value)) == len(value)


def _spec(value: str) -> bool:
    ProcessSpec.from_json(value)
    return True


def _inbound_said(value: str) -> bool:
    return not value or read_inbound(value) is not None


def _json_object(value: str) -> bool:
    found = json.loads(value)
    return type(found) is dict and bool(canonical(found))


def _json_texts(value: str) -> bool:
    found = json.loads(value)
    return type(found) is list and {*map(type, found)} <= {str}


def _told_files(value: str) -> bool:
    found = json.loads(value)
    return type(found) is list and all(
        type(each) is list and [*map(type, each)] == [str, str, str] for each in found
    )


def _known(events: Events[Any], kind: str) -> Rule:
    """That it names an event which the machine knows."""
    return names(events, kind).__contains__


class Reads(NamedTuple):
    """What the reducer reads of a kind: fields that each entry has, those that entries of an ``earlier`` version lack,
    and what must be true of some beside their types, which are those of the table of kinds.
    """

    fields: tuple[str, ...]
    earlier: tuple[str, ...]
    rules: Mapping[str, Rule]


def _reads(fields: str = "", *, lack: str = "", **rules: Rule) -> Reads:
    return Reads((*fields.split(),), (*lack.split(),), rules)


_MAIL = "id sender to text session reply_to wants_reply deadline_us rights waiting"
_RESOURCES = get_args(Resource)
_THENS = get_args(OnExhausted)

FORMS: Mapping[str, Reads] = {
    "node.booted": _reads(),
    "state.accepted": _reads("contradicted", contradicted=_numbers),
    "process.spawned": _reads("address parent spec", lack="made_by", spec=_spec),
    "process.changed": _reads("address spec", spec=_spec),
    "process.started": _reads("address pid", pid=_number),
    "process.exited": _reads("address pid reason detail", lack="turn", pid=_number),
    "process.felled": _reads("address times isolated", times=_number),
    "process.ending": _reads("address stops"),
    "process.slot": _reads("address state why"),
    "process.suspended": _reads("address by"),
    "process.resumed": _reads("address"),
    "message.accepted": _reads(
        _MAIL, lack="kind topic inbound rate", kind=KINDS_OF_MESSAGES.__contains__, inbound=_inbound_said
    ),
    "message.sent": _reads(f"{_MAIL} peer answers status answer_by_us"),
    "message.acknowledged": _reads("id"),
    "message.keyed": _reads("id to key request", lack="by status"),
    "session.preferred": _reads("address provider model", lack="rate"),
    "message.replied": _reads("id", lack="status"),
    "message.unanswered": _reads("id"),
    "message.dead": _reads("id why", lack="reason"),
    "message.replayed": _reads("id", lack="as"),
    "message.dropped": _reads("id", lack="by"),
    "topic.subscribed": _reads("address pattern overflow", overflow=OVERFLOWS.__contains__),
    "topic.unsubscribed": _reads("address pattern"),
    "message.cancelled": _reads("id"),
    "turn.started": _reads(
        "turn message address attempt",
        lack="session config result_bytes ends withheld",
        result_bytes=_number,
        ends=_number,
    ),
    "turn.ended": _reads("turn status", lack="reply stages", status=_known(TURN_EVENTS, "turn.ended")),
    "turn.rated": _reads("turn thumb", thumb=get_args(Thumb).__contains__),
    "turn.diverged": _reads("turn ordinal recorded asked", recorded=_json_object, asked=_json_object),
    "turn.decided": _reads("turn ordinal decision", decision=_known(TURN_EVENTS, "turn.decided")),
    "model.asked": _reads("turn ordinal call_hash", lack="provider model tools asked"),
    "model.answered": _reads(
        "turn ordinal status answer input_tokens output_tokens",
        lack="cached_tokens error_kind retry_after_ms stop_reason provider model cost_millionths",
        cached_tokens=_number,
        error_kind=get_args(ErrorKind).__contains__,
        retry_after_ms=_number,
        stop_reason=get_args(StopReason).__contains__,
        cost_millionths=lambda value: -1 <= value < NUMBER_LIMIT,
    ),
    "model.quoted": _reads("turn ordinal call_hash models against number", number=_number),
    "budget.reserved": _reads(
        "turn ordinal accounts tokens input last",
        lack="payers money input_price output_price cached_price scopes day",
        tokens=_number,
        input=_number,
        money=_number,
        input_price=_number,
        output_price=_number,
        cached_price=_number,
        day=lambda value: 0 <= value <= LAST_DAY,
    ),
    "budget.used": _reads(
        "address resource accounts amount", resource=_RESOURCES.__contains__, amount=_number
    ),
    "budget.held": _reads("address account amount", amount=_number),
    "budget.changed": _reads(
        "address then resources amounts", then=_THENS.__contains__, resources=_resources, amounts=_numbers
    ),
    "budget.granted": _reads("address resource amount", resource=_RESOURCES.__contains__, amount=_number),
    "budget.warned": _reads("address resource percent", resource=_RESOURCES.__contains__, percent=_number),
    "tool.verdict": _reads("turn decision", lack="ordinal tool reasons"),
    "sys.value": _reads("turn ordinal call_hash op value"),
    "sys.compaction": _reads("turn ordinal call_hash state written why", written=_number),
    "sys.files": _reads("turn ordinal call_hash files new", files=_told_files, new=_json_object),
    "turn.steered": _reads("turn ordinal call_hash messages texts", texts=_json_texts),
    "monitor.set": _reads(
        "turn ordinal call_hash ref target address pid peer rights why",
        lack="link watcher_pid",
        pid=_number,
        watcher_pid=_number,
    ),
    "monitor.removed": _reads("turn ordinal call_hash ref found", lack="link"),
    "monitor.traps": _reads("turn ordinal call_hash on before rights"),
    "monitor.down": _reads("ref"),
    "tool.proposed": _reads("turn ordinal call_hash tool arguments"),
    "tool.intent": _reads(
        "turn ordinal attempt", lack="tool effects replaces pid on_doubt effect_id probe", pid=_number
    ),
    "tool.outcome": _reads(
        "turn ordinal status result truncated attempt",
        lack="tool",
        status=_known(CALL_EVENTS, "tool.outcome"),
    ),
    "tool.probed": _reads("turn ordinal attempt answer why"),
    "tool.resolved": _reads("turn ordinal resolution", resolution=_known(CALL_EVENTS, "tool.resolved")),
    "memory.written": _reads("id owner scope bytes", lack="shown_hash pid", pid=_number),
    "memory.forgotten": _reads("id"),
}


class _Form:
    """One row of the table, made ready."""

    def __init__(self, kind: str, row: Reads) -> None:
        fields = KINDS[kind].fields
        types = {
            name: _read_back(fields[name].type).where(row.rules.get(name))
            for name in (*row.fields, *row.earlier)
        }
        self._there = Fields({name: types[name] for name in row.fields})
        self._earlier = [(name, types[name]) for name in row.earlier]
        self.rules = [*row.rules.items()]
        self._types = types

    def takes(self, body: Mapping[str, Any]) -> bool:
        """Whether the reducer can take ``body``. Raises KeyError, and what a rule raises."""
        if not self._there.hold(body):
            return False
        return not self._earlier or all(
            kind.holds(body[name]) for name, kind in self._earlier if name in body
        )

    def obeys(self, body: Mapping[str, Any]) -> bool:
        """As :meth:`takes`, of a body that has all fields of its kind, each of its type."""
        return obeys(body, self.rules)

    def fault(self, body: Mapping[str, Any]) -> str:
        """Why the reducer cannot take ``body``: the first field that is wrong."""
        for name, kind in self._types.items():
            if name in body and not kind.holds(body[name]):
                return f"{name} is {brief(body[name])}"
        return "its form is not the one that is applied"


def _read_back(declared: Type) -> Type:
    """What a field must be for the reducer: to it a digest is text like any other."""
    return TEXT if declared is DIGEST else declared


_FORMS = {kind: _Form(kind, row) for kind, row in FORMS.items()}


def check_draft(kind: str, body: Mapping[str, Any]) -> None:
    """Raises EntryError for an entry that is to be written and lacks a field of its kind, has one too many or one of
    another type, or that the reducer could not take.
    """
    if fits(kind, body):
        form = _FORMS.get(kind)
        if form is not None and form.rules:
            _check(kind, form, form.obeys, body)
    elif kind in KINDS:  # the ledger knows no other
        raise EntryError("; ".join(KINDS[kind].check(body)))


def check_entry(kind: str, body: Mapping[str, Any]) -> None:
    """Raises EntryError for an entry that the reducer could not take. One of an earlier version may lack fields, and
    what the reducer does not read may be anything.
    """
    form = _FORMS.get(kind)
    if form is not None:
        _check(kind, form, form.takes, body)


def _check(
    kind: str, form: _Form, good: Callable[[Mapping[str, Any]], bool], body: Mapping[str, Any]
) -> None:
    try:
        if good(body):
            return
        fault = form.fault(body)
    except KeyError as error:
        fault = f"the field {error} is missing"
    except Invalid as error:
        fault = str(error)
    except (ValueError, RecursionError) as error:
        fault = f"{type(error).__name__}: {error}"
    raise EntryError(f"{kind} cannot be applied: {fault}")


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


def _only_forgotten(table: str) -> Callable[[str, bytes | None], Change]:
    def reader(key: str, value: bytes | None) -> Change:
        address, session = key.split("\n", 1)
        if value is not None:
            raise ValueError(f"{table} of a session are in its entries; here they are only forgotten")
        return Change(table, (address, session), None)

    return reader


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


def _trajectory(key: str, value: bytes | None) -> Change:
    if value is not None:
        raise ValueError("what a turn came to is in its entries; here it is only forgotten")
    return Change(TRAJECTORY, key, None)


def turn_event(name: TurnEventName, time_us: int, step: str, text: str) -> bytes:
    """The value of a ``turn_event`` record: of ``llm_token`` the text, of ``reset`` why."""
    value: bytes = msgpack.packb([name, time_us, step, text])
    return value


def _turn_event(key: str, value: bytes | None) -> Change:
    if value is None:
        return Change(TURN_EVENT, key, None)
    name, time_us, step, text = msgpack.unpackb(value)
    if name not in get_args(TurnEventName) or not _number(time_us):
        raise ValueError("what is seen of a turn is llm_token or reset, at a time")
    if type(step) is not str or type(text) is not str:
        raise ValueError("a step and what is said of it are text")
    return Change(TURN_EVENT, key, (name, time_us, step, text))


def _number_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS and _number(int(text))):
        raise ValueError(f"{brief(text)} is no number below 2**63")
    return int(text)


_READERS: Mapping[str, Callable[[str, bytes | None], Change]] = {
    DEEDS: _only_forgotten(DEEDS),
    ERASING: _erasing,
    EXIT: _exit,
    FILES: _only_forgotten(FILES),
    INBOX: _inbox,
    NUMBERING: _numbering,
    PIDS: _pids,
    SESSION: _session,
    TRAJECTORY: _trajectory,
    TURN_EVENT: _turn_event,
}
