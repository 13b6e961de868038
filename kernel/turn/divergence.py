"""Divergence: a turn that was resumed asks something else than the record says it asked at that place.

Nobody can say from here which of the two is right: a tool or a behaviour was changed, or a prompt. So the turn is
*parked* with both calls shown, its mailbox waits behind it, and a person decides: ``again`` hands the turn out once
more (what had changed was put right), ``accept`` lets the new call stand and forgets what was recorded from there on,
``dead`` makes the message a dead letter. No turn ends of a divergence by itself: what it did so far would be done
again when its message is replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from chain.ledger.ledger import Draft, Ticket
from kernel.cell.protocol import ModelQuestion, said_options
from kernel.errors import NotFound, Refused
from kernel.model.states import ProcessEvent, ProcessState
from kernel.process.live import LiveTable
from kernel.slices.turns import Call, Turn, rank
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.state import State
from kernel.values import canonical, clean, cut_bytes, sha256_hex

DECISIONS = ("again", "accept", "dead")
SHOWN_BYTES = 4096


class MakeDeadLetter(Protocol):
    def __call__(self, ident: str, why: str, extra: tuple[Draft, ...], reason: str) -> Ticket | None: ...


def shown(op: str, name: str, arguments: str) -> dict[str, Any]:
    """A call as a person is shown it, of bounded size."""
    text, cut = cut_bytes(clean(arguments), SHOWN_BYTES)
    return {"op": op, "name": cut_bytes(clean(name), SHOWN_BYTES)[0], "arguments": text, "truncated": cut}


def shown_question(asked: ModelQuestion, count: int, messages: Mapping[int, str]) -> str:
    """A question to a model, told in few words: how many messages, the first and the last of them where they were said
    (``messages``: JSON of each that was, by its place), and the rest.
    """
    told: dict[str, Any] = {
        "provider": asked.provider,
        "model": asked.model,
        "tools": asked.tools,
        "messages": count,
        **said_options(asked.options),
    }
    for name, at in (("first", 0), ("last", count - 1)):
        if at in messages:
            told[name] = cut_bytes(messages[at], SHOWN_BYTES // 4)[0]
    return cut_bytes(canonical(told), SHOWN_BYTES)[0]


def recorded(call: Call) -> dict[str, Any]:
    """What the record says was asked, where, and what came of it."""
    outcome = "in doubt" if call.doubt else "none yet"
    if call.outcome is not None:
        outcome = str(call.outcome.get("status", "ok"))
    return {**shown(call.op, call.name, call.arguments), "seq": call.seq, "outcome": outcome}


def draft_divergence(turn: Turn, call: Call, asked: dict[str, Any], pid: int) -> Draft:
    """The entry that parks the turn. ``asked`` as of :func:`shown`."""
    body = {
        "turn": turn.id,
        "ordinal": call.ordinal,
        "recorded": canonical(recorded(call)),
        "asked": canonical(asked),
    }
    return Draft("turn.diverged", body, pid, turn.id, turn.mail.trace, call.seq)


class Divergences:
    """Turns that are parked, and a person's word on them.

    ``settle(turn)`` gives the records that close what is open of a turn that ends, ``deliver_next(address)`` goes on
    with a mailbox. ``under_way(turn, ordinal)``: whether an attempt at that call is.
    """

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        dead_letter: MakeDeadLetter,
        settle: Callable[[Turn], list[Draft]],
        deliver_next: Callable[[str], None],
        under_way: Callable[[str, str], bool],
    ) -> None:
        self._recorder = recorder
        self._state: State = recorder.state
        self._live = live
        self._dead_letter = dead_letter
        self._settle = settle
        self._deliver_next = deliver_next
        self._under_way = under_way
        self._after = AfterDurable(recorder.ledger)

    def rows(self, after: int = -1, limit: int | None = None) -> list[dict[str, Any]]:
        """Parked turns, with both calls, by the number in their ids: the first ``limit`` behind ``after``."""
        found = (turn for turn in self._state.parked() if turn.mail.seq > after)
        parked = sorted(found, key=lambda turn: turn.mail.seq)
        return [
            {
                "id": turn.id,
                "address": turn.address,
                "message": turn.mail.id,
                **json.loads(turn.diverged),
            }
            for turn in parked[:limit]
        ]

    def differed(self, pid: int, ident: str, ordinal: str, first: str, then: str) -> None:
        """Gone through once more after its behaviour had ended it, the turn ``ident`` did something else."""
        turn = self._state.turns.get(ident)
        if turn is None:
            return
        body = {"turn": ident, "ordinal": ordinal, "first": clean(first), "then": clean(then)}
        self._recorder.must([Draft("turn.differed", body, pid, ident, turn.mail.trace, turn.started_seq)])

    def check(self, ident: str, decision: str) -> Turn:
        """The turn that :meth:`decide` would decide. Raises NotFound, Refused."""
        turn = self._state.turns.get(ident)
        if turn is None or not turn.diverged:
            raise NotFound(f"no turn {ident} is parked; weftos divergences list shows them")
        if decision not in DECISIONS:
            raise Refused(f"decision {decision!r} is none of {', '.join(DECISIONS)}")
        if decision == "accept":
            self._check_known(turn, json.loads(turn.diverged)["ordinal"])
        return turn

    async def decide(self, ident: str, decision: str, by: str) -> str:
        """Record a person's word on the parked turn ``ident`` and act on it. Returns the address of its process.

        Raises NotFound, and Refused for ``accept`` while the outcome of a call that it would forget is not known;
        LedgerUnavailable when it could not be recorded, or is not on the disk yet: then it acts when it is.
        """
        turn = self.check(ident, decision)
        ordinal = json.loads(turn.diverged)["ordinal"]
        body = {"turn": turn.id, "ordinal": ordinal, "decision": decision, "by": by}
        decided = Draft("turn.decided", body, 0, turn.id, turn.mail.trace, turn.started_seq)
        if decision == "dead":
            ticket = self._give_up(turn, ordinal, decided)
        else:
            ticket = self._recorder.commit([decided])
        self._after.do(lambda: self._go_on(turn.address), ticket)
        if ticket is not None:
            await ticket.durable()
        return turn.address

    def _give_up(self, turn: Turn, ordinal: str, decided: Draft) -> Ticket | None:
        why = f"diverged at call {ordinal}, and a person gave it up"
        said = {"reply": why, "reply_hash": sha256_hex(why), "call": turn.mail.asked_here, "stages": "[]"}
        body = {"turn": turn.id, "status": "diverged", **said}
        ended = Draft("turn.ended", body, 0, turn.id, turn.mail.trace, turn.started_seq)
        return self._dead_letter(turn.mail.id, why, (decided, *self._settle(turn), ended), "diverged")

    def _go_on(self, address: str) -> None:
        process = self._live.at(address)
        if process is not None and process.state is ProcessState.SUSPENDED and not process.turn:
            process.on(ProcessEvent.RESUME)
        self._deliver_next(address)

    def _check_known(self, turn: Turn, ordinal: str) -> None:
        """What is forgotten must have ended, or not have begun: nobody would hear of a call that is under way or in
        doubt.
        """
        for call in turn.calls.values():
            if rank(call.ordinal) < rank(ordinal) or call.op != "tool" or call.outcome is not None:
                continue
            if call.intent_seq >= 0 or self._under_way(turn.id, call.ordinal):
                raise Refused(
                    f"call {call.ordinal} ({call.name}) of {turn.id} has no outcome yet; wait for it, or decide it "
                    f"first (weftos doubts list), or give the turn up (--dead)"
                )
