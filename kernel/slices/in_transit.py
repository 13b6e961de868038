"""What is on its way between this node and others.

The **outbox** holds, for each peer, the messages that it has not answered for, oldest first. A **question** is a
message that somebody here waits for the answer of; it stays one until it is answered, given up, or nobody waits any
more, however long it has been acknowledged. The **inbox** holds the decisions on the peers' messages that
``mesh.delivery.delivery`` asks to keep: by origin and number the message's id, and why it was refused (empty:
accepted). The **number** of a message for a peer is its seq; once that peer has seen higher ones, of data that an older
copy was put back for, ``offset`` is added to those of all that is sent from then on.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from kernel.model.machines.call_states import CallState
from kernel.model.rows import as_list, as_number, as_rows, as_text, made, row
from kernel.slice import Handler, Keeper, Slice, Told
from kernel.slices.calls import Calls, call_id
from kernel.slices.mailboxes import Mail, Mailboxes, mail_of, of_one_kind, without_inbound, without_topic
from kernel.slices.turns import Turn, Turns

MAX_QUESTIONS = 10_000


class InTransit(Slice):
    """``held_bytes``: what the messages in each outbox hold; ``question_bytes``: questions that have left theirs.

    Format 1 knew no numbers beside the seq, format 2 one kind of messages, format 3
    no topics.
    """

    NAME = "crossings"  # as it is called on disk
    FORMAT = 5
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: [*as_list(rows), [], []],
        2: lambda rows: _each(of_one_kind, *as_list(rows)),
        3: lambda rows: _each(without_topic, *as_list(rows)),
        4: lambda rows: _each(without_inbound, *as_list(rows)),
    }

    def __init__(self, mail: Mailboxes, turns: Turns, calls: Calls) -> None:
        self.outbox: dict[str, OrderedDict[str, Mail]] = {}
        self.questions: OrderedDict[str, Mail] = OrderedDict()
        self.inbox: dict[str, dict[int, tuple[str, str]]] = {}
        self.offset: dict[str, int] = {}
        self.held_bytes: Counter[str] = Counter()
        self.question_bytes = 0
        self._peer_of: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._question_of: dict[str, str] = {}
        self._mail, self._turns, self._calls = mail, turns, calls

    def __len__(self) -> int:
        """Messages that no peer has answered for yet."""
        return len(self._peer_of)

    @property
    def bytes(self) -> int:
        """What outboxes and questions hold in all."""
        return self.held_bytes.total() + self.question_bytes

    def find(self, ident: str) -> Mail | None:
        """The message of this id that is in an outbox."""
        peer = self._peer_of.get(ident)
        return None if peer is None else self.outbox[peer][ident]

    def number(self, mail: Mail) -> int:
        """By which the peer knows a message in its outbox."""
        return self._numbers.get(mail.id, mail.seq)

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.sent": self._sent,
            "message.acknowledged": lambda told: self._take(told.body["id"]),
            "message.replied": lambda told: self._answered(told.body["id"]),
            "message.unanswered": lambda told: self._answered(told.body["id"]),
            "message.dead": self._dead,
            "turn.ended": self._turn_ended,
            "tool.outcome": self._outcome,
        }

    def keeps(self) -> Mapping[str, Keeper]:
        return {"inbox": self._decided, "numbering": self.offset.__setitem__}

    def _sent(self, told: Told) -> None:
        mail = mail_of(told)
        self._hold(mail)
        if mail.peer in self.offset:
            self._numbers[mail.id] = mail.seq + self.offset[mail.peer]
        if mail.wants_reply:
            self._ask(mail)
            if len(self.questions) > MAX_QUESTIONS:
                self._answered(next(iter(self.questions)))

    def _hold(self, mail: Mail) -> None:
        self.outbox.setdefault(mail.peer, OrderedDict())[mail.id] = mail
        self._peer_of[mail.id] = mail.peer
        self.held_bytes[mail.peer] += mail.size_bytes

    def _ask(self, mail: Mail) -> None:
        """Somebody waits for the answer to a message."""
        self.questions[mail.id] = mail
        self._question_of[mail.reply_to or mail.id] = mail.id

    def _take(self, ident: str) -> None:
        """It has left its outbox, one way or the other."""
        peer = self._peer_of.pop(ident, None)
        if peer is None:
            return
        self._numbers.pop(ident, None)
        box = self.outbox[peer]
        size_bytes = box.pop(ident).size_bytes
        self.held_bytes[peer] -= size_bytes
        if ident in self.questions:
            self.question_bytes += size_bytes
        if not box:
            del self.outbox[peer]

    def _dead(self, told: Told) -> None:
        ident = told.body["id"]
        if self._mail.find(ident) is None:
            if ident not in self._peer_of:
                return
            self._take(ident)
        self._answered(ident)

    def _answered(self, ident: str) -> None:
        """Nobody waits any more for the answer to the message of this id."""
        mail = self.questions.pop(ident, None)
        if mail is not None:
            self._question_of.pop(mail.reply_to or mail.id, None)
            if ident not in self._peer_of:
                self.question_bytes -= mail.size_bytes

    def _turn_ended(self, told: Told) -> None:
        turn: Turn | None = self._turns.get(told.body["turn"])
        for ordinal in () if turn is None else turn.calls:
            self._asker_ended(told.body["turn"], ordinal)

    def _outcome(self, told: Told) -> None:
        body = told.body
        if self.questions and self._calls.said(body) is CallState.ENDED:
            self._asker_ended(body["turn"], body["ordinal"])

    def _asker_ended(self, turn: str, ordinal: str) -> None:
        """The ask at ``ordinal`` has an outcome, whatever becomes of its message."""
        ident = self._question_of.get(call_id(turn, ordinal))
        if ident is not None:
            self._answered(ident)

    def asked_at(self, turn: str, ordinal: str) -> Mail | None:
        """The question to another node that the ask at ``ordinal`` waits for."""
        return self.questions.get(self._question_of.get(call_id(turn, ordinal), ""))

    def _decided(self, key: tuple[str, int], decision: tuple[str, str] | None) -> None:
        origin, number = key
        if decision is None:
            self.inbox.get(origin, {}).pop(number, None)
        else:
            self.inbox.setdefault(origin, {})[number] = decision

    def rows(self) -> Any:
        outbox = [mail for box in self.outbox.values() for mail in box.values()]
        waiting = {mail.id for mail in outbox}
        questions = [[mail.id, None if mail.id in waiting else row(mail)] for mail in self.questions.values()]
        inbox = [
            [origin, number, *kept] for origin, box in self.inbox.items() for number, kept in box.items()
        ]
        numbers = [list(each) for each in self._numbers.items()]
        offsets = [list(each) for each in self.offset.items()]
        return [[row(mail) for mail in outbox], questions, inbox, numbers, offsets]

    def restore(self, rows: Any) -> None:
        outbox, questions, inbox, numbers, offsets = as_list(rows)
        for each in as_rows(outbox):
            self._hold(made(Mail, each))
        for ident, each in as_rows(questions):
            mail = self.find(as_text(ident)) if each is None else made(Mail, each)
            if mail is None or mail.id != ident:
                raise ValueError(f"the question {ident!r:.80} is not the message it says")
            self._ask(mail)
            if ident not in self._peer_of:
                self.question_bytes += mail.size_bytes
        for origin, number, ident, why in as_rows(inbox):
            self.inbox.setdefault(as_text(origin), {})[as_number(number)] = (as_text(ident), as_text(why))
        for ident, number in as_rows(numbers):
            if self.find(as_text(ident)) is None:
                raise ValueError(f"{ident!r:.80} has a number and is in no outbox")
            self._numbers[ident] = as_number(number)
        for peer, offset in as_rows(offsets):
            self.offset[as_text(peer)] = as_number(offset)


def _each(change: Callable[[list[Any]], list[Any]], outbox: Any, questions: Any, *rest: Any) -> Any:
    """The rows with each message in them changed."""
    asked = [[ident, None if mail is None else change(mail)] for ident, mail in as_rows(questions)]
    return [[change(mail) for mail in as_rows(outbox)], asked, *rest]
