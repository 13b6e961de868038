"""Open turns, and what is recorded of the calls of each.

A turn is open from its first delivery to ``turn.ended``, over any number of incarnations. What may happen to it, and in
which order, is :data:`kernel.model.machines.turn_states.TURN_TABLE`; what that does not have changes nothing. The
calls are written by :mod:`kernel.slices.calls`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from kernel.abi import EndInTurn, OnDoubt
from kernel.model.machines.call_states import CALL_TABLE, CallEvent, CallState
from kernel.model.machines.machine import event_of, names
from kernel.model.machines.turn_states import TURN_EVENTS, TURN_TABLE, TurnEvent, TurnState
from kernel.model.rows import as_rows, as_text, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.mailboxes import Mail, Mailboxes, turn_id
from kernel.values import canonical, size_of_text

ENDS = names(TURN_EVENTS, "process.exited")


@dataclass(slots=True)
class Call:
    """What is recorded of one syscall. ``outcome`` None: not known yet. ``intent_seq``: the intent of the newest
    attempt, -1 when there is none or another one is due. ``unsettled``: an earlier attempt than that may have been
    carried out. ``replaces``: which version of its file there was before it. ``effects`` and ``on_doubt``: what the
    tool declared when that intent was recorded, or such an earlier one when that is more cautious; empty: not recorded.
    ``pid``: the incarnation whose intent that is; 0: not recorded. ``outcome_seq``: the entry of a tool's outcome, -1
    while there is none or when it was not kept. ``effect_id``: what all attempts are known by outside; empty: not
    recorded. ``probe``: the tool can be asked by it what became of each attempt that may have been carried out;
    ``probed``: what it answered, of the newest.
    """

    ordinal: str
    call_hash: str
    op: str
    seq: int
    name: str = ""
    arguments: str = ""
    state: CallState = CallState.PROPOSED
    intent_seq: int = -1
    attempt: int = 0
    outcome: dict[str, Any] | None = None
    unsettled: bool = False
    replaces: str = ""
    effects: str = ""
    pid: int = 0
    on_doubt: str = ""
    outcome_seq: int = -1
    effect_id: str = ""
    probe: bool = False
    probed: str = ""

    @property
    def doubt(self) -> bool:
        """Whether a person or a policy must say what became of it."""
        return self.state is CallState.IN_DOUBT

    @property
    def aside(self) -> bool:
        """Whether it is a question of which nothing is shown: see :class:`kernel.abi.ModelRequest`. What was asked is
        recorded as bounded JSON, of which all texts are bounded more, so this of it is always there.
        """
        return self.op == "model" and '"aside":true' in self.arguments

    def agreed(self, on_doubt: OnDoubt) -> OnDoubt:
        """What that word and the recorded one both say of a doubt; ``ask`` when they differ."""
        return on_doubt if on_doubt == self.on_doubt else "ask"

    def after(self, event: CallEvent) -> CallState | None:
        """Its state after that event; None when it changes nothing."""
        return CALL_TABLE[self.state].get(event)

    @property
    def bytes(self) -> int:
        """Of what was asked and answered."""
        kept = self.outcome or {}
        return size_of_text(self.arguments) + size_of_text(str(kept.get("answer", kept.get("result", ""))))


@dataclass(slots=True)
class Turn:
    """The open handling of one message. ``crashes`` counts the incarnations that died of it, ``losses`` those whose
    cell died while they ran it, with nobody to blame.

    What the first delivery was told goes for every later one, whatever the configuration says by then: ``config`` (JSON
    of the node's part of the behaviour's configuration; empty: not recorded) and ``result_bytes`` (how much of a tool's
    result is handed over; 0: not recorded). ``diverged``: JSON of the two calls when the turn is parked, else empty.
    ``ends``: JSON of how those ended that died of it, one for each attempt at most; empty: of none is known.
    ``withheld``: tools that the first delivery was not told of, though the process may propose them.
    """

    id: str
    mail: Mail
    address: str
    started_seq: int
    attempt: int = 1
    crashes: int = 0
    calls: dict[str, Call] = field(default_factory=dict)
    last_answer_seq: int = -1
    config: str = ""
    result_bytes: int = 0
    diverged: str = ""
    losses: int = 0
    ends: str = ""
    withheld: tuple[str, ...] = ()

    def told_ends(self) -> tuple[EndInTurn, ...]:
        """The ends in it, oldest first."""
        return tuple(EndInTurn(*each) for each in json.loads(self.ends)) if self.ends else ()

    def died(self, body: dict[str, Any]) -> None:
        """An incarnation died of it. Told is that of one that had its message: not a start that failed, nor what has
        befallen a process beside its turn.
        """
        self.crashes += 1
        if body.get("turn") == self.id:
            ends = [list(astuple(each)) for each in self.told_ends()]
            questions = sum(call.op == "model" for call in self.calls.values())
            self.ends = canonical([*ends, [body["pid"], questions, body["reason"], body["detail"]]])

    @property
    def state(self) -> TurnState:
        return TurnState.PARKED if self.diverged else TurnState.OPEN


class Turns(Table[str, Turn]):
    """By id. Format 1 did not know what a turn was told, nor parked ones; format 2 held the calls in each turn; format
    3 did not count losses, format 4 did not keep how incarnations ended, and format 5 not what is withheld.
    """

    NAME = "turns"
    FORMAT = 6
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: [[*each, "", 0, ""] for each in as_rows(rows)],
        2: lambda rows: [[*each[:6], *each[7:]] for each in as_rows(rows)],
        3: lambda rows: [[*each, 0] for each in as_rows(rows)],
        4: lambda rows: [[*each, ""] for each in as_rows(rows)],
        5: lambda rows: [[*each, []] for each in as_rows(rows)],
    }

    def __init__(self, mail: Mailboxes) -> None:
        super().__init__()
        self._mail = mail

    def hears(self) -> Mapping[str, Handler]:
        return {
            "turn.started": self._started,
            "turn.ended": self._ended,
            "turn.diverged": self._diverged,
            "turn.decided": self._decided,
            "message.dead": self._dead,
            "model.answered": self._answered,
            "process.exited": self._exited,
        }

    def after(self, ident: str, event: TurnEvent) -> TurnState | None:
        """The state of a turn after that event; None when it changes nothing."""
        turn = self._kept.get(ident)
        return TURN_TABLE[TurnState.ABSENT if turn is None else turn.state].get(event)

    def _started(self, told: Told) -> None:
        body = told.body
        if self.after(body["turn"], TurnEvent.START) is None:
            return
        turn = self._kept.get(body["turn"])
        if turn is not None:
            turn.attempt, turn.started_seq = body["attempt"], told.seq
            if "ends" not in body:  # by a version that told of none, and has put its questions without
                turn.ends = ""
            return
        mail = self._mail.get(body["address"], {}).get(body["message"])
        if mail is not None and turn_id(mail.id) == body["turn"]:
            turn = self._kept[body["turn"]] = Turn(body["turn"], mail, body["address"], told.seq)
            turn.config, turn.result_bytes = body.get("config", ""), body.get("result_bytes", 0)
            turn.withheld = tuple(body.get("withheld", ()))
            self._mail.begun(mail.id)

    def _ended(self, told: Told) -> None:
        self._leave(told.body["turn"], event_of(TURN_EVENTS, "turn.ended", told.body))

    def _dead(self, told: Told) -> None:
        self._leave(turn_id(told.body["id"]), TurnEvent.DEAD_LETTER)

    def _leave(self, ident: str, event: TurnEvent) -> None:
        if self.after(ident, event) is TurnState.ABSENT:
            del self._kept[ident]

    def _diverged(self, told: Told) -> None:
        body = told.body
        if self.after(body["turn"], TurnEvent.DIVERGE) is TurnState.PARKED:
            turn = self._kept[body["turn"]]
            where = canonical({"ordinal": body["ordinal"], "seq": told.seq, "time_us": told.time_us})
            turn.diverged = f'{where[:-1]},"recorded":{body["recorded"]},"asked":{body["asked"]}}}'

    def _decided(self, told: Told) -> None:
        ident, event = told.body["turn"], event_of(TURN_EVENTS, "turn.decided", told.body)
        if self.after(ident, event) is TurnState.OPEN:
            self._kept[ident].diverged = ""

    def _answered(self, told: Told) -> None:
        turn = self._kept.get(told.body["turn"])
        call = None if turn is None else turn.calls.get(told.body["ordinal"])
        if turn is not None and call is not None and call.after(CallEvent.ANSWER):
            turn.last_answer_seq = told.seq

    def _exited(self, told: Told) -> None:
        reason = told.body["reason"].partition(":")[0]
        if reason not in ENDS:
            return
        event = event_of(TURN_EVENTS, "process.exited", {"reason": reason})
        lost = event is TurnEvent.LOSE
        turn = self._kept.get(told.body.get("turn", "")) if lost else self.at(told.body["address"])
        if turn is None or self.after(turn.id, event) is None:
            return
        if lost:
            turn.losses += 1
        else:
            turn.died(told.body)

    def at(self, address: str) -> Turn | None:
        """The open turn of an address: that of its oldest message, when it has begun."""
        box = self._mail.get(address)
        if not box:
            return None
        return next((self._kept[turn_id(ident)] for ident in box if turn_id(ident) in self._kept), None)

    def in_session(self, key: tuple[str, str]) -> bool:
        """Whether a turn of this address in this session is open."""
        turn = self.at(key[0])
        return turn is not None and turn.mail.session == key[1]

    def parked(self) -> list[Turn]:
        """Turns that wait for a person because they diverged."""
        return [turn for turn in self._kept.values() if turn.diverged]

    def rows(self) -> Any:
        return [[turn.mail.id, *row(turn, ("mail", "calls"))] for turn in self._kept.values()]

    def restore(self, rows: Any) -> None:
        for message, *each in as_rows(rows):
            mail = self._mail.find(as_text(message))
            turn = made(Turn, each, mail=mail, calls={}) if mail is not None else None
            if turn is None or turn.id != turn_id(message) or turn.id in self._kept:
                raise ValueError(f"the message {message!r:.80} of a turn is in no mailbox, or in two turns")
            self._kept[turn.id] = turn
            self._mail.begun(turn.mail.id)


def rank(ordinal: str) -> tuple[int, int]:
    """Where a syscall stands among those of its turn."""
    round_, _, index = ordinal.partition(".")
    return (int(round_), int(index)) if round_.isdecimal() and index.isdecimal() else (-1, -1)
