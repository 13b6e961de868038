"""What is recorded of each syscall: the calls of open turns, and the open intents. What may happen to a call, and in
which order, is :data:`kernel.model.machines.call_states.CALL_TABLE`; what that does not have changes nothing.

An open intent is a tool call that the node was about to make, and of which no outcome is recorded yet. It is kept apart
from its turn: a turn may end while its call runs, and what became of the call must be found out, or said by a person,
all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.machines.call_states import CALL_EVENTS, CALL_TABLE, CallEvent, CallState
from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_bytes, as_flag, as_list, as_number, as_rows, as_text, made, row
from kernel.slice import Handler, Slice, Told
from kernel.slices.history.told_files import ToldFiles
from kernel.slices.mailboxes import turn_id
from kernel.slices.turns import Call, Turn, Turns, rank
from kernel.values import cut_bytes

_TOKENS = "input_tokens", "output_tokens", "cached_tokens"
_MORE = "error_kind", "retry_after_ms", "stop_reason", "provider", "model", "cost_millionths"
"""Of an answer; entries of older versions lack them."""
INTENDED = (CallState.UNDER_WAY, CallState.IN_DOUBT)


def call_id(turn: str, ordinal: str) -> str:
    """What a call is named by, for people too: its turn and its ordinal there."""
    return f"{turn}:{ordinal}"


@dataclass(frozen=True, slots=True)
class OpenIntent:
    """One of them. ``call`` is the turn's own record of it, as long as the turn is open."""

    turn: str
    address: str
    trace: bytes
    call: Call

    @property
    def id(self) -> str:
        return call_id(self.turn, self.call.ordinal)


class OpenIntents:
    """By :func:`call_id`. Changed only by :class:`Calls`."""

    def __init__(self) -> None:
        self._open: dict[str, OpenIntent] = {}
        self._doubts: dict[str, int] = {}
        self.doubts_bytes = 0  # of what those that are in doubt hold

    def __iter__(self) -> Iterator[OpenIntent]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def get(self, ident: str) -> OpenIntent | None:
        return self._open.get(ident)

    def hold(self, intent: OpenIntent) -> None:
        """An intent was recorded; it takes the place of that of an earlier attempt."""
        self._open[intent.id] = intent
        self.look(intent.id)

    def settle(self, ident: str) -> None:
        """Its outcome was recorded, or that it is settled without one."""
        self._open.pop(ident, None)
        self.look(ident)

    def look(self, ident: str) -> None:
        """Whether its call is in doubt may be something else than before."""
        self.doubts_bytes -= self._doubts.pop(ident, 0)
        intent = self._open.get(ident)
        if intent is not None and intent.call.doubt:
            self._doubts[ident] = intent.call.bytes
            self.doubts_bytes += intent.call.bytes

    @property
    def doubts_count(self) -> int:
        return len(self._doubts)

    def doubts(self) -> list[OpenIntent]:
        """Those that wait for a person, oldest first."""
        return sorted((self._open[ident] for ident in self._doubts), key=lambda one: one.call.intent_seq)


class Calls(Slice):
    """``kept``: by open turn, the bytes that its calls hold.

    Format 1 knew no intent without its turn, and of a call not what its effects were nor what it replaces; format
    2 held its state in four fields; format 3 did not know whose intent it was, format 4 not what its tool had said of
    a doubt, format 5 not which entry has its outcome, and format 6 no effect ids.
    """

    NAME = "calls"
    FORMAT = 7
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: _changed(rows, _since_1),
        2: lambda rows: _changed(rows, _since_2),
        3: lambda rows: _changed(rows, lambda call: [*call, 0]),
        4: lambda rows: _changed(rows, lambda call: [*call, ""]),
        5: lambda rows: _changed(rows, lambda call: [*call, -1]),
        6: lambda rows: _changed(rows, lambda call: [*call, "", False, ""]),
    }

    def __init__(self, turns: Turns, files: ToldFiles) -> None:
        self._turns = turns
        self._files = files
        self.intents = OpenIntents()
        self.kept: dict[str, int] = {}
        self.kept_bytes = 0

    def hears(self) -> Mapping[str, Handler]:
        return {
            "turn.started": lambda told: self._count(told.body["turn"]),
            "turn.ended": lambda told: self._forget(told.body["turn"]),
            "message.dead": lambda told: self._forget(turn_id(told.body["id"])),
            "turn.decided": self._decided,
            "model.asked": self._asked,
            "model.answered": self._answered,
            "sys.value": self._value,
            "model.quoted": lambda told: self._give(
                told, "quote", "", {name: told.body[name] for name in ("against", "number")}
            ),
            "sys.files": self._given_files,
            "turn.steered": lambda told: self._give(told, "steered", "", {"result": told.body["texts"]}),
            "sys.compaction": lambda told: self._give(
                told, "compaction", told.body["state"], {name: told.body[name] for name in ("written", "why")}
            ),
            "monitor.set": self._monitor,
            "monitor.removed": self._demonitor,
            "monitor.traps": lambda told: self._give(
                told, "trap_exits", "on" if told.body["on"] else "off", {"before": told.body["before"]}
            ),
            "tool.proposed": self._proposed,
            "tool.intent": self._intent,
            "tool.outcome": self._outcome,
            "tool.probed": self._probed,
            "tool.resolved": self._resolved,
        }

    # -- of a turn -----------------------------------------------------------------------------------------------

    def _count(self, ident: str) -> None:
        """What the calls of a turn hold is something else now than was counted."""
        turn = self._turns.get(ident)
        if turn is not None:
            self._keep(ident, sum(call.bytes for call in turn.calls.values()) - self.kept.get(ident, 0))

    def _keep(self, ident: str, more: int) -> None:
        """The calls of an open turn hold so much more."""
        if ident in self._turns:
            self.kept[ident] = self.kept.get(ident, 0) + more
            self.kept_bytes += more

    def _forget(self, ident: str) -> None:
        self.kept_bytes -= self.kept.pop(ident, 0)

    def _decided(self, told: Told) -> None:
        ident, event = told.body["turn"], event_of(TURN_EVENTS, "turn.decided", told.body)
        if event is TurnEvent.ACCEPT and self._turns.after(ident, event):
            turn = self._turns[ident]
            for call in forgotten(turn, told.body["ordinal"]):
                del turn.calls[call.ordinal]
            self._count(ident)

    # -- of a call -----------------------------------------------------------------------------------------------

    def _call(self, body: dict[str, Any]) -> Call | None:
        turn: Turn | None = self._turns.get(body["turn"])
        return None if turn is None else turn.calls.get(body["ordinal"])

    def _add(self, body: dict[str, Any], event: CallEvent, call: Call) -> None:
        turn: Turn | None = self._turns.get(body["turn"])
        before = None if turn is None else turn.calls.get(call.ordinal)
        state = CALL_TABLE[CallState.ABSENT].get(event) if before is None else before.after(event)
        if turn is not None and state is not None:
            call.state = state
            turn.calls[call.ordinal] = call
            self._keep(turn.id, call.bytes - (before.bytes if before else 0))
            self.intents.settle(call_id(turn.id, call.ordinal))

    def _asked(self, told: Told) -> None:
        body = told.body
        call = Call(body["ordinal"], body["call_hash"], "model", told.seq, arguments=body.get("asked", ""))
        call.name = resolved_name(body.get("provider", ""), body.get("model", ""), body.get("tools", []))
        self._add(body, CallEvent.ASK, call)

    def _answered(self, told: Told) -> None:
        body = told.body
        call = self._call(body)
        state = None if call is None else call.after(CallEvent.ANSWER)
        if call is not None and state is not None:
            before = call.bytes
            call.state = state
            call.outcome = {"status": body["status"], "answer": body["answer"]}
            call.outcome["tokens"] = [body[name] for name in _TOKENS if name in body]
            call.outcome |= {name: body[name] for name in _MORE if name in body}
            self._keep(body["turn"], call.bytes - before)

    def _value(self, told: Told) -> None:
        self._give(told, told.body["op"], "", {"value": told.body["value"]})

    def _given_files(self, told: Told) -> None:
        self._give(told, "prompt_files", "", {"result": self._files.texts_of(told.body)})

    def _monitor(self, told: Told) -> None:
        body = told.body
        outcome = {"ref": body["ref"], "why": body["why"]}
        self._give(told, "link" if body.get("link") else "monitor", body["target"], outcome)

    def _demonitor(self, told: Told) -> None:
        op = "unlink" if told.body.get("link") else "demonitor"
        self._give(told, op, told.body["ref"], {"found": told.body["found"]})

    def _give(self, told: Told, op: str, name: str, outcome: dict[str, Any]) -> None:
        """A call that was answered at once."""
        body = told.body
        call = Call(body["ordinal"], body["call_hash"], op, told.seq, name, outcome=outcome)
        self._add(body, CallEvent.GIVE, call)

    def _proposed(self, told: Told) -> None:
        body = told.body
        call = Call(body["ordinal"], body["call_hash"], "tool", told.seq, body["tool"], body["arguments"])
        self._add(body, CallEvent.PROPOSE, call)

    def _intent(self, told: Told) -> None:
        body = told.body
        call = self._call(body)
        state = None if call is None else call.after(CallEvent.INTEND)
        if call is None or state is None:
            return
        turn = self._turns[body["turn"]]
        call.state = state
        effects, on_doubt = body.get("effects", ""), body.get("on_doubt", "")
        probe = body.get("probe", False)
        if call.intent_seq >= 0:
            call.unsettled = True
            probe = probe and call.probe  # an attempt without one may have been carried out
            effects = call.effects if call.effects not in ("", "none") else effects
            on_doubt = call.agreed(on_doubt)
        call.intent_seq, call.attempt = told.seq, body["attempt"]
        call.replaces, call.effects, call.on_doubt = body.get("replaces", ""), effects, on_doubt
        call.pid = body.get("pid", 0)
        call.effect_id, call.probe, call.probed = body.get("effect_id", ""), probe, ""
        self.intents.hold(OpenIntent(turn.id, turn.address, turn.mail.trace, call))

    def _intended(self, body: dict[str, Any]) -> Call | None:
        """The call of an entry that may come when its turn has ended."""
        intent = self.intents.get(call_id(body["turn"], body["ordinal"]))
        return self._call(body) if intent is None else intent.call

    def said(self, body: dict[str, Any]) -> CallState | None:
        """What a tool.outcome with ``body`` makes of its call: the first outcome of a call stands, and only the newest
        attempt can give it.
        """
        call = self._intended(body)
        if call is None or call.attempt != body["attempt"]:
            return None
        return call.after(event_of(CALL_EVENTS, "tool.outcome", body))

    def _outcome(self, told: Told) -> None:
        body = told.body
        call, state = self._intended(body), self.said(body)
        if call is None or state is None:
            return
        call.state, before = state, call.bytes
        if state is CallState.ENDED:
            turn: Turn | None = self._turns.get(body["turn"])
            most = (
                turn.result_bytes if turn is not None else 0
            )  # no more is ever handed over; 0: not recorded
            result, cut = cut_bytes(body["result"], most) if most else (body["result"], False)
            call.outcome = {"status": body["status"], "result": result, "truncated": cut or body["truncated"]}
            call.outcome_seq = told.seq
            self._keep(body["turn"], call.bytes - before)
        self._look(body, call)

    def _probed(self, told: Told) -> None:
        body = told.body
        call = self._intended(body)
        if call is not None and call.state in INTENDED and call.attempt == body["attempt"]:
            call.probed = f"{body['answer']}: {body['why']}" if body["why"] else body["answer"]
            if body["answer"] == "not_asked":  # its worker may act still, at the next boot too
                call.probe = False

    def _resolved(self, told: Told) -> None:
        body = told.body
        call = self._intended(body)
        state = None if call is None else call.after(event_of(CALL_EVENTS, "tool.resolved", body))
        if call is None or state is None:
            return
        call.state = state
        if state is CallState.PROPOSED:  # that attempt is settled; the next one has an intent of its own
            call.intent_seq, call.unsettled, call.replaces, call.pid = -1, False, "", 0
        self._look(body, call)

    def _look(self, body: dict[str, Any], call: Call) -> None:
        """Whether its intent is open, or in doubt, may be something else than before."""
        ident = call_id(body["turn"], body["ordinal"])
        if call.state in INTENDED:
            self.intents.look(ident)
        else:
            self.intents.settle(ident)

    # -- as rows -------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        """The calls of each turn, then the intents that are not among them."""
        turns = [[turn.id, [row(call) for call in turn.calls.values()]] for turn in self._turns.values()]
        alone = [
            [one.turn, one.address, one.trace, row(one.call)]
            for one in sorted(self.intents, key=lambda one: one.call.intent_seq)
            if not self._in_turn(one)
        ]
        return [turns, alone]

    def _in_turn(self, intent: OpenIntent) -> bool:
        turn: Turn | None = self._turns.get(intent.turn)
        return turn is not None and turn.calls.get(intent.call.ordinal) is intent.call

    def restore(self, rows: Any) -> None:
        turns, alone = as_list(rows)
        for ident, calls in as_rows(turns):
            turn = self._turns[as_text(ident)]
            for each in as_rows(calls):
                call = made(Call, each)
                turn.calls[call.ordinal] = call
                if call.state in INTENDED:
                    self.intents.hold(OpenIntent(turn.id, turn.address, turn.mail.trace, call))
            self._count(turn.id)
        for turn_, address, trace, each in as_rows(alone):
            self.intents.hold(OpenIntent(as_text(turn_), as_text(address), as_bytes(trace), made(Call, each)))


def forgotten(turn: Turn, ordinal: str) -> list[Call]:
    """The calls of a turn that go when all from ``ordinal`` on are forgotten."""
    first = rank(ordinal)
    return [call for call in turn.calls.values() if rank(call.ordinal) >= first and _can_go(call)]


def _can_go(call: Call) -> bool:
    return call.after(CallEvent.FORGET) is CallState.ABSENT


def _changed(rows: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """``rows`` with each call changed."""
    turns, alone = as_list(rows)
    return [
        [[turn, [change(call) for call in as_rows(calls)]] for turn, calls in as_rows(turns)],
        [[turn, address, trace, change(as_list(call))] for turn, address, trace, call in as_rows(alone)],
    ]


def _since_1(call: list[Any]) -> list[Any]:
    return [*call, False, "", ""]  # unsettled, replaces and effects


def _since_2(call: list[Any]) -> list[Any]:
    *asked, intent_seq, attempt, outcome, doubt, unsettled, replaces, effects = call
    state = CallState.ASKED if asked[2] == "model" else CallState.PROPOSED
    if outcome is not None:
        state = CallState.ENDED
    elif as_flag(doubt):
        state = CallState.IN_DOUBT
    elif as_number(intent_seq + 1):
        state = CallState.UNDER_WAY
    return [*asked, str(state), intent_seq, attempt, outcome, unsettled, replaces, effects]


def resolved_name(provider: str, model: str, tools: list[str]) -> str:
    """Whom a question to a model went to, and which tools it offered, as one text."""
    return f"{provider}/{model} ({', '.join(tools)})" if tools else f"{provider}/{model}"
