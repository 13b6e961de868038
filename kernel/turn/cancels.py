"""Cancelling: a person, another node or a process above ends the handling of a message, wherever that stands.

What has not begun is taken back (``message.cancelled``); what has, ends as ``cancelled``, whether a process runs it,
waits in it for a person, or is about to come back to it. What it has asked of others ends with it: here in the same
unit, so that the disk has all of it or nothing, as long as that is no more than :data:`MOST_AT_ONCE`; other nodes are
told. Then nothing further begins for any of them: questions to models are given up, and who carries out a tool call of
theirs is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from chain.ledger.ledger import Draft
from kernel.errors import NotFound, Refused
from kernel.message.message_signals import QuestionDropped, TurnCut
from kernel.message.watch import Watchers
from kernel.process.ends import End, Ends
from kernel.signals import Signal, Signals
from kernel.slices.calls import call_id
from kernel.slices.mailboxes import Mail, turn_id
from kernel.slices.turns import Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.turn.turns import Turns

MOST_AT_ONCE = 200  # messages that end in one unit, while which the node does nothing else


@dataclass(frozen=True, slots=True)
class Cut:
    """What has ended together: messages of this node, first that which was meant; ``turns`` of those that had begun,
    by the ids of the messages. ``questions``: to other nodes. ``rest``: messages that end next, and are given to nobody
    before, unless the node ends before.
    """

    messages: tuple[Mail, ...]
    turns: dict[str, Turn]
    questions: tuple[Mail, ...]
    rest: tuple[Mail, ...]

    @property
    def turn(self) -> str:
        """The turn of the message that was meant; empty when that had not begun."""
        turn = self.turns.get(self.messages[0].id)
        return "" if turn is None else turn.id

    @property
    def others(self) -> int:
        """How many messages end with it."""
        return len(self.messages) - 1 + len(self.questions) + len(self.rest)


@dataclass(frozen=True, slots=True)
class WasCut(Signal):
    """The end of all of ``cut`` is written."""

    cut: Cut
    why: str


def cancelled_by(who: str, why: str) -> str:
    """What is told of it."""
    return f"cancelled by {who}: {why}" if why else f"cancelled by {who}"


class Cancels:
    """Finds what is meant, and ends it.

    ``reply(unit, mail, status, reply, pid)`` adds the records that hand over the answer to ``mail``.
    """

    def __init__(
        self,
        recorder: Recorder,
        turns: Turns,
        watchers: Watchers,
        signals: Signals,
        ends: Ends,
        reply: Callable[[Unit, Mail, str, str, int], None],
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._turns = turns
        self._watchers = watchers
        self._signals = signals
        self._ends = ends
        self._reply = reply
        self._after = AfterDurable(recorder.ledger)

    def find(self, address: str, message: str = "") -> Mail:
        """The message of that id at ``address``; without one, that whose turn is open there, else the oldest.

        Raises NotFound, and Refused for a turn that has ended, of which only the disk does not know yet.
        """
        mail = self._named(address, message) if message else self._next(address)
        if mail is None:
            why = f"no message {message} waits at {address} or is handled there" if message else (
                f"{address} has no open turn, and no message waits for it"
            )  # fmt: skip
            raise NotFound(why)
        if turn_id(mail.id) in self._ends:
            raise Refused(
                f"{turn_id(mail.id)} of {address} has ended already; that is told when the disk takes it"
            )
        return mail

    def _named(self, address: str, message: str) -> Mail | None:
        mail = self._state.mail.find(message)
        return mail if mail is not None and mail.to == address else None

    def _next(self, address: str) -> Mail | None:
        turn = self._state.turn_of(address)
        return turn.mail if turn is not None else next(iter(self._state.mail.get(address, {}).values()), None)

    def cancel(self, mail: Mail, why: str) -> Cut:
        """End it, and all that it has asked. Raises what the ledger raises: then nothing has ended."""
        unit = self._recorder.unit()
        cut = self.add(unit, mail, why)
        self._recorder.commit(unit)
        return cut

    def add(self, unit: Unit, mail: Mail, why: str) -> Cut:
        """Add the records of that to a unit; the rest follows when it is written. Raises LedgerUnavailable when that
        would not be now, before any call that waits is taken back.
        """
        self._recorder.check_writable()
        cut = self._cut(mail)
        for each in cut.messages:
            self._add(unit, each, cut.turns.get(each.id), why)
        self._reply(unit, mail, "cancelled", why, self._pid_at(mail))  # of the others the askers have ended
        unit.say(WasCut(cut, why))
        return cut

    def withdrawn(self, sender: str, reply_to: str, why: str) -> None:
        """The process ``sender`` of another node wants no answer any more to what is to be answered to ``reply_to``."""
        mail = next((mail for mail in self._asked_by(sender) if mail.reply_to == reply_to), None)
        if mail is not None and turn_id(mail.id) not in self._ends:
            self._soon(mail, why)

    # -- what ends with it ---------------------------------------------------------------------------------------

    def _cut(self, mail: Mail) -> Cut:
        messages, turns, at = [mail], dict[str, Turn](), 0
        questions: list[Mail] = []
        while at < len(messages) and at < MOST_AT_ONCE:
            turn = self._state.turns.get(turn_id(messages[at].id))
            if turn is not None:
                turns[messages[at].id] = turn
                messages += self._asked_in(turn)
                questions += self._asked_elsewhere(turn)
            at += 1
        return Cut(tuple(messages[:at]), turns, tuple(questions), tuple(messages[at:]))

    def _asked_in(self, turn: Turn) -> Iterator[Mail]:
        """The messages of this node whose answers ``turn`` waits for; not those that have ended already."""
        waits = {call_id(turn.id, call.ordinal) for call in turn.calls.values() if call.outcome is None}
        for mail in self._asked_by(turn.address) if waits else ():
            if mail.reply_to in waits and turn_id(mail.id) not in self._ends:
                yield mail

    def _asked_by(self, sender: str) -> Iterator[Mail]:
        for address in self._state.mail.waits_for.get(sender, ()):
            yield from self._state.mail.get(address, {}).values()

    def _asked_elsewhere(self, turn: Turn) -> Iterator[Mail]:
        for ordinal in turn.calls:
            question = self._state.in_transit.asked_at(turn.id, ordinal)
            if question is not None:
                yield question

    # -- how it ends ---------------------------------------------------------------------------------------------

    def _add(self, unit: Unit, mail: Mail, turn: Turn | None, why: str) -> None:
        if turn is not None:
            left = self._turns.left_by(turn, why)
            self._turns.add_end(unit, turn, End(self._pid_at(mail), "cancelled", why, left))
            return
        body = {"id": mail.id, "to": mail.to, "why": why}
        unit.add(Draft("message.cancelled", body, 0, mail.id, mail.trace, mail.seq))

    def _pid_at(self, mail: Mail) -> int:
        """The incarnation that handles it, or would have."""
        slot = self._state.slots.get(mail.to)
        return 0 if slot is None else slot.pid

    def was_cut(self, said: WasCut) -> None:
        """It is written: what is to be done of it while the node runs."""
        cut, why, ticket = said.cut, said.why, self._recorder.ledger.newest
        for mail in cut.rest:
            self._soon(mail, why)
        for mail in cut.messages:
            if turn := cut.turns.get(mail.id):
                self._turns.was_cut(turn, why, ticket)
                self._signals.tell(TurnCut(turn.id, tuple(turn.calls), why))
            else:
                self._after.do(partial(self._tell, mail, why), ticket)
                self._turns.deliver_next(mail.to)
        for question in cut.questions:
            self._signals.tell(QuestionDropped(question, why))

    def _tell(self, mail: Mail, why: str) -> None:
        self._watchers.ended(mail.id, {"status": "cancelled", "reply": why, "turn": ""})

    def _soon(self, mail: Mail, why: str) -> None:
        """In another round of the loop, and not while the disk refuses; nothing else becomes of it before."""
        self._ends[turn_id(mail.id)] = End(0, "cancelled", why, [])
        again = partial(self._cancel_still, mail, why)
        asyncio.get_running_loop().call_soon(self._recorder.until_writable, ("cancel", mail.id), again)

    def _cancel_still(self, mail: Mail, why: str) -> None:
        """Unless it has become a dead letter meanwhile."""
        if self._state.mail.find(mail.id) is not None:
            self.cancel(mail, why)
        self._ends.pop(turn_id(mail.id), None)
        self._turns.deliver_next(mail.to)
