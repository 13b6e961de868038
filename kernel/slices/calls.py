"""What is recorded of each syscall: the calls of open turns, and the open intents.

An open intent is a tool call that the node was about to make, and of which no outcome is recorded yet. It is kept apart
from its turn: a turn may end while its call runs, and what became of the call must be found out, or said by a person,
all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.model.rows import as_bytes, as_list, as_rows, as_text, made, row
from kernel.slices.mailboxes import turn_id
from kernel.slices.slice import Handler, Slice, Told
from kernel.slices.turns import Call, Turn, Turns, rank
from kernel.values import cut_bytes


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

    Format 1 knew no intent without its turn, and of a call not what its effects were nor what it replaces.
    """

    NAME = "calls"
    FORMAT = 2
    MIGRATIONS = {1: lambda rows: _since_1(rows)}  # noqa: RUF012

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
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
            "tool.proposed": self._proposed,
            "tool.intent": self._intent,
            "tool.outcome": self._outcome,
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
        turn: Turn | None = self._turns.get(told.body["turn"])
        if turn is not None and told.body["decision"] == "accept":
            first = rank(told.body["ordinal"])
            turn.calls = {key: call for key, call in turn.calls.items() if rank(key) < first}
            self._count(turn.id)

    # -- of a call -----------------------------------------------------------------------------------------------

    def _call(self, body: dict[str, Any]) -> Call | None:
        turn: Turn | None = self._turns.get(body["turn"])
        return None if turn is None else turn.calls.get(body["ordinal"])

    def _add(self, body: dict[str, Any], call: Call) -> None:
        turn: Turn | None = self._turns.get(body["turn"])
        if turn is not None:
            before = turn.calls.get(call.ordinal)
            turn.calls[call.ordinal] = call
            self._keep(turn.id, call.bytes - (before.bytes if before else 0))
            self.intents.settle(call_id(turn.id, call.ordinal))

    def _asked(self, told: Told) -> None:
        body = told.body
        call = Call(body["ordinal"], body["call_hash"], "model", told.seq, arguments=body.get("asked", ""))
        call.name = resolved_name(body.get("provider", ""), body.get("model", ""), body.get("tools", []))
        self._add(body, call)

    def _answered(self, told: Told) -> None:
        body = told.body
        call = self._call(body)
        if call is not None:
            before = call.bytes
            call.outcome = {"status": body["status"], "answer": body["answer"]}
            call.outcome["tokens"] = [body["input_tokens"], body["output_tokens"]]
            self._keep(body["turn"], call.bytes - before)

    def _value(self, told: Told) -> None:
        body = told.body
        outcome = {"value": body["value"]}
        self._add(body, Call(body["ordinal"], body["call_hash"], body["op"], told.seq, outcome=outcome))

    def _proposed(self, told: Told) -> None:
        body = told.body
        call = Call(body["ordinal"], body["call_hash"], "tool", told.seq, body["tool"], body["arguments"])
        self._add(body, call)

    def _intent(self, told: Told) -> None:
        body = told.body
        call = self._call(body)
        if call is None or call.op != "tool" or call.outcome is not None:
            return
        turn = self._turns[body["turn"]]
        call.unsettled = call.unsettled or call.intent_seq >= 0
        call.intent_seq, call.attempt = told.seq, body["attempt"]
        call.doubt, call.replaces = False, body.get("replaces", "")
        call.effects = body.get("effects", "")
        self.intents.hold(OpenIntent(turn.id, turn.address, turn.mail.trace, call))

    def _intended(self, body: dict[str, Any]) -> Call | None:
        """The call of an entry that may come when its turn has ended."""
        intent = self.intents.get(call_id(body["turn"], body["ordinal"]))
        return self._call(body) if intent is None else intent.call

    def ended_by(self, body: dict[str, Any]) -> Call | None:
        """The call that a tool.outcome with ``body`` is about: the first outcome of a call stands, and only the newest
        attempt can give it.
        """
        call = self._intended(body)
        if call is None or call.op != "tool" or call.outcome is not None:
            return None
        return call if call.attempt == body["attempt"] else None

    def _outcome(self, told: Told) -> None:
        body = told.body
        call = self.ended_by(body)
        if call is None:
            return
        if body["status"] == "in_doubt":
            call.doubt = call.intent_seq >= 0
            self.intents.look(call_id(body["turn"], body["ordinal"]))
            return
        call.doubt = False
        turn, before = self._turns.get(body["turn"]), call.bytes
        most = turn.result_bytes if turn is not None else 0  # no more is ever handed over; 0: not recorded
        result, cut = cut_bytes(body["result"], most) if most else (body["result"], False)
        call.outcome = {"status": body["status"], "result": result, "truncated": cut or body["truncated"]}
        self._keep(body["turn"], call.bytes - before)
        self.intents.settle(call_id(body["turn"], body["ordinal"]))

    def _resolved(self, told: Told) -> None:
        body = told.body
        call = self._intended(body)
        if call is None:
            return
        call.doubt = False
        self.intents.look(call_id(body["turn"], body["ordinal"]))
        if body["resolution"] == "retry":  # that attempt is settled; the next one has an intent of its own
            call.intent_seq, call.unsettled, call.replaces = -1, False, ""
            self.intents.settle(call_id(body["turn"], body["ordinal"]))

    # -- as rows -------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        """The calls of each turn, then the intents that are not among them."""
        turns = [[turn.id, [row(call) for call in turn.calls.values()]] for turn in self._turns.values()]
        alone = [
            [one.turn, one.address, one.trace, row(one.call)]
            for one in self.intents
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
                if call.op == "tool" and call.outcome is None and call.intent_seq >= 0:
                    self.intents.hold(OpenIntent(turn.id, turn.address, turn.mail.trace, call))
            self._count(turn.id)
        for turn_, address, trace, each in as_rows(alone):
            self.intents.hold(OpenIntent(as_text(turn_), as_text(address), as_bytes(trace), made(Call, each)))


def _since_1(rows: Any) -> Any:
    turns, alone = as_list(rows)
    return [
        [[ident, [[*call, False, "", ""] for call in as_rows(calls)]] for ident, calls in as_rows(turns)],
        alone,
    ]


def resolved_name(provider: str, model: str, tools: list[str]) -> str:
    """Whom a question to a model went to, and which tools it offered, as one text."""
    return f"{provider}/{model} ({', '.join(tools)})" if tools else f"{provider}/{model}"
