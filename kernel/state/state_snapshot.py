"""The node's durable state as bytes, and back: what a snapshot keeps in place of the journal before it.

What can be derived (indices, sums) is not kept. The bytes are msgpack: a map of :data:`PARTS`, in which a value of a
dataclass is the array of its fields in the order of their declaration. So a changed field changes the format, and
needs another number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import msgpack

from chain.errors import DamageError, ForeignDataError
from kernel.errors import Invalid
from kernel.model.makers import OPERATOR
from kernel.model.spec import ProcessSpec
from kernel.state.documents import Fact
from kernel.state.open_intents import OpenIntent
from kernel.state.sessions import Session
from kernel.state.state import Call, DeadLetter, Mail, Slot, State, Tally, Turn, turn_id

FORMAT = 3
_CALL_SINCE_2 = [False, "", ""]  # unsettled, replaces and effects
_PARTS_SINCE_2: dict[str, Any] = {"intents": [], "configured": [], "accepted": []}
_PARTS_SINCE_3: dict[str, Any] = {"traces": []}
_SLOT_SINCE_3 = [OPERATOR]  # made_by
_TURN_SINCE_2 = ["", 0, ""]  # config, result_bytes and diverged
PARTS = (
    "format", "slots", "mail", "turns", "dead", "sessions", "pids", "pids_reserved", "boots", "tally", "documents",
    "outbox", "questions", "inbox", "erasing", "intents",
    "configured", "accepted", "traces",
)  # fmt: skip

_PLACE = "snapshot/state.ws"
_NUMBER_LIMIT = 2**63

T = TypeVar("T")


def encode_state(state: State) -> bytes:
    """All of ``state``."""
    crossings = state.crossings
    waiting = {mail.id for box in crossings.outbox.values() for mail in box.values()}
    parts = {
        "format": FORMAT,
        "slots": [_row(slot) for slot in state.slots.values()],
        "mail": [_row(mail) for box in state.mail.values() for mail in box.values()],
        "turns": [[turn.mail.id, *_row(turn, without="mail")] for turn in state.turns.values()],
        "dead": [_row(letter) for letter in state.dead.values()],
        "sessions": [[*key, _turns(kept)] for key, kept in state.sessions.items()],
        "pids": [list(pair) for pair in state.pids.items()],
        "pids_reserved": state.pids_reserved,
        "boots": state.boots,
        "tally": _row(state.tally),
        "documents": [_row(fact) for fact in state.documents.facts()],
        "outbox": [_row(mail) for box in crossings.outbox.values() for mail in box.values()],
        "questions": [[mail.id, None if mail.id in waiting else _row(mail)]
                      for mail in crossings.questions.values()],
        "inbox": [[origin, number, *kept]
                  for origin, box in crossings.inbox.items() for number, kept in box.items()],
        "erasing": [list(item) for item in state.erasing.items()],
        "intents": [[one.turn, one.address, one.trace, _row(one.call)]
                    for one in sorted(state.intents, key=_seq_of) if not _in_its_turn(state, one)],
        "accepted": [[str(seq)] for seq in sorted(state.accepted)],
        "configured": [list(item) for item in state.configured.items()],
        "traces": [list(item) for item in state.traces.items()],
    }  # fmt: skip
    packed: bytes = msgpack.packb(parts)
    return packed


def _seq_of(intent: OpenIntent) -> int:
    return intent.call.intent_seq


def _in_its_turn(state: State, intent: OpenIntent) -> bool:
    """Whether it can be derived from the calls of an open turn."""
    turn = state.turns.get(intent.turn)
    return turn is not None and turn.calls.get(intent.call.ordinal) is intent.call


def _turns(kept: Session) -> list[list[Any]]:
    """Packed one by one: what a behaviour remembers may be nested as deep as msgpack goes."""
    return [[msgpack.packb(records), size] for records, size in kept.turns()]


def restore_state(state: State, data: bytes) -> None:
    """Bring a new ``state`` to where the encoded one was.

    Raises ForeignDataError for a later format, DamageError for anything that :func:`encode_state` does not write;
    then ``state`` is of no use.
    """
    try:
        parts = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise _damage(f"not msgpack: {type(error).__name__}") from error
    found = parts.get("format") if isinstance(parts, dict) else None
    if type(found) is int and found > FORMAT:
        raise ForeignDataError(f"the state in {_PLACE} has format {found}, this version knows {FORMAT}")
    if found == 1:
        parts = {**_PARTS_SINCE_2, **parts}
    if found in (1, 2):
        parts = {**_PARTS_SINCE_3, **parts}
    if found not in (1, 2, FORMAT) or set(parts) != set(PARTS):
        raise _damage("its parts are not those of a state")
    try:
        if found == 1:
            parts["documents"] = [[*row, ""] for row in _rows(parts, "documents")]
            parts["turns"] = [_turn_since_2(row) for row in _rows(parts, "turns")]
        if found in (1, 2):
            parts["slots"] = [[*row, *_SLOT_SINCE_3] for row in _rows(parts, "slots")]
            parts["documents"] = [[*row, ""] for row in _rows(parts, "documents")]
        _restore(state, parts)
    except (KeyError, ValueError, TypeError, RecursionError, msgpack.UnpackException, Invalid) as error:
        raise _damage(f"{type(error).__name__}: {error}") from error


def _restore(state: State, parts: dict[str, Any]) -> None:
    for row in _rows(parts, "slots"):
        state.place(_made(Slot, row))
    for row in _rows(parts, "mail"):
        state.hold(_made(Mail, row))
    for ident, *row in _rows(parts, "turns"):
        _restore_turn(state, _text(ident), row)
    for row in _rows(parts, "dead"):
        letter = _made(DeadLetter, row)
        state.hold_dead(letter)
    for address, name, turns in _rows(parts, "sessions"):
        key = _text(address), _text(name)
        for records, size in _list(turns):
            state.sessions.hold(key, _list(msgpack.unpackb(_bytes(records))), _number(size))
    for pid, address in _rows(parts, "pids"):
        state.pids[_number(pid)] = _text(address)
    state.pids_reserved = _number(parts["pids_reserved"])
    state.boots = _number(parts["boots"])
    state.tally = _made(Tally, parts["tally"])
    for row in _rows(parts, "documents"):
        state.documents.hold(_made(Fact, row))
    _restore_crossings(state, parts)
    for key, value in _rows(parts, "erasing"):
        state.erasing[_text(key)] = _bytes(value)
    for turn, address, trace, row in _rows(parts, "intents"):
        state.intents.hold(OpenIntent(_text(turn), _text(address), _bytes(trace), _made(Call, row)))
    for trace, processes, messages in _rows(parts, "traces"):
        state.traces.add(_bytes(trace), _number(processes), _number(messages))
    state.accepted = {_number(int(_text(seq))) for [seq] in _rows(parts, "accepted")}
    state.configured = {_text(name): _text(digest) for name, digest in _rows(parts, "configured")}


def _turn_since_2(row: list[Any]) -> list[Any]:
    """The row of a turn as format 1 had it, with what format 2 knows besides."""
    *before, calls, last_answer_seq = row
    return [
        *before,
        [[*_list(call), *_CALL_SINCE_2] for call in _list(calls)],
        last_answer_seq,
        *_TURN_SINCE_2,
    ]


def _restore_turn(state: State, message: str, row: list[Any]) -> None:
    mail = state.find_mail(message)
    if mail is None or turn_id(message) in state.turns:
        raise ValueError(f"the message {message!r:.80} of a turn is in no mailbox, or in two turns")
    turn = _made(Turn, row, mail=mail)
    state.open(turn)
    for call in turn.calls.values():
        if call.op == "tool" and call.outcome is None and call.intent_seq >= 0:
            state.intents.hold(OpenIntent(turn.id, turn.address, mail.trace, call))


def _restore_crossings(state: State, parts: dict[str, Any]) -> None:
    crossings = state.crossings
    for row in _rows(parts, "outbox"):
        crossings.hold(_made(Mail, row))
    for ident, row in _rows(parts, "questions"):
        mail = crossings.find(_text(ident)) if row is None else _made(Mail, row)
        if mail is None or mail.id != ident:
            raise ValueError(f"the question {ident!r:.80} is not the message it says")
        crossings.ask(mail)
    for origin, number, ident, why in _rows(parts, "inbox"):
        crossings.inbox.setdefault(_text(origin), {})[_number(number)] = (_text(ident), _text(why))


# -- one value of a dataclass as an array ----------------------------------------------------------------------------

KINDS = (Slot, Mail, Turn, Call, DeadLetter, Tally, Fact)
_HINTS: dict[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in KINDS}


def _row(value: Any, without: str = "") -> list[Any]:
    hints = _HINTS[type(value)]
    return [_plain(hint, getattr(value, name)) for name, hint in hints.items() if name != without]


def _plain(hint: Any, value: Any) -> Any:
    """``value`` of a field that was declared as ``hint``, of types that msgpack has."""
    if value is None:
        return None
    if hint is ProcessSpec:
        return value.to_json()
    if hint is Mail:
        return _row(value)
    if hint == dict[str, Call]:
        return [_row(call) for call in value.values()]
    if hint == tuple[str, ...]:
        return list(value)
    return sorted(value) if hint == frozenset[str] | None else value


def _made(kind: type[T], row: Any, **known: Any) -> T:
    """A value of the dataclass ``kind`` from ``row``, which lacks the fields in ``known``."""
    hints = [item for item in _HINTS[kind].items() if item[0] not in known]
    pairs = zip(hints, _list(row), strict=True)
    return kind(**known, **{name: _READERS[hint](value) for (name, hint), value in pairs})


def _calls(value: Any) -> dict[str, Call]:
    calls = [_made(Call, row) for row in _list(value)]
    return {call.ordinal: call for call in calls}


def _outcome(value: Any) -> dict[str, Any] | None:
    return None if value is None else _of(dict, value)


def _rows(parts: dict[str, Any], name: str) -> list[list[Any]]:
    return [_list(row) for row in _list(parts[name])]


def _list(value: Any) -> list[Any]:
    return _of(list, value)


def _text(value: Any) -> str:
    return _of(str, value)


def _bytes(value: Any) -> bytes:
    return _of(bytes, value)


def _flag(value: Any) -> bool:
    return _of(bool, value)


def _integer(value: Any) -> int:
    return _of(int, value)


def _number(value: Any) -> int:
    number = _integer(value)
    if not 0 <= number < _NUMBER_LIMIT:
        raise ValueError(f"{number} is out of range")
    return number


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is {type(value).__name__}, not {kind.__name__}")
    return value


_READERS: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    bool: _flag,
    bytes: _bytes,
    tuple[str, ...]: lambda value: tuple(map(_text, _list(value))),
    frozenset[str] | None: lambda value: None if value is None else frozenset(map(_text, _list(value))),
    dict[str, Any] | None: _outcome,
    dict[str, Call]: _calls,
    ProcessSpec: lambda value: ProcessSpec.from_json(_text(value)),
    Mail: lambda value: _made(Mail, value),
}


def _damage(what: str) -> DamageError:
    return DamageError(_PLACE, 0, -1, f"the node's state in it cannot be read: {what}")
