"""Mailboxes: accepted messages that are neither answered nor dead. One stays until its turn has ended."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernel.abi import NOBODY, Identity, Inbound
from kernel.model.inbound import inbound_text, read_inbound
from kernel.model.machines.machine import event_of
from kernel.model.machines.turn_states import TURN_EVENTS, TurnEvent
from kernel.model.rows import as_rows, made, row
from kernel.slice import Handler, Table, Told
from kernel.slices.mail.deadlines import Deadlines
from kernel.slices.mail.topic_names import is_telemetry
from kernel.values import size_of_text

MESSAGE, DOWN, EXIT, PUBLICATION, BUDGET = "message", "down", "exit", "publication", "budget"
KINDS_OF_MESSAGES = (MESSAGE, DOWN, EXIT, PUBLICATION, BUDGET)
"""What somebody has sent to its receiver, the end of what a monitor watched, that of the other one of a link, what was
published to a topic, and that a budget is nearly used up."""

ASKED_LATER_US = 1_000_000
"""A question of a call of this node goes so much later than its time is over: who asks is told first that it is."""

BESIDE_TEXTS_BYTES = 1024
"""What the node holds of any message beside its texts: numbers, ids, its places in the tables. Measured."""


@dataclass(slots=True, unsafe_hash=True)
class Mail:
    """An accepted message. Treat as frozen; it is not, because making it is on the hot path.

    ``rights`` are the tools its sender could use, None for a person (all).
    One to another node has its origin as ``peer``; ``answers`` (and ``status``) when it is the answer to a message of
    that node. ``waiting``: processes of other nodes that wait for its answer, the asker last. ``kind``: what it
    is to its receiver. ``topic``: what it was published to. ``inbound``: how it came here, None for what was said
    without a word of that.
    """

    id: str
    seq: int
    sender: str
    to: str
    text: str
    session: str
    reply_to: str
    wants_reply: bool
    deadline_us: int
    trace: bytes
    rights: frozenset[str] | None
    time_us: int
    peer: str = ""
    answers: str = ""
    status: str = ""
    answer_by_us: int = 0
    waiting: tuple[str, ...] = ()
    kind: str = MESSAGE
    topic: str = ""
    inbound: Inbound | None = field(default=None, hash=False)

    @property
    def payer(self) -> str:
        """Whose budget pays for what is done about it; empty where the node tells it by itself."""
        return "" if self.kind == BUDGET else self.sender

    @property
    def identity(self) -> Identity:
        """What the node made of a user of a channel; NOBODY where it came by none."""
        return NOBODY if self.inbound is None else self.inbound.who

    @property
    def who(self) -> str:
        """By whose name caps of cost are looked up: of a user of a channel what the node made of him; empty where the
        node tells it by itself.
        """
        return self.identity.name or self.payer

    @property
    def asked_here(self) -> str:
        """The call of this node that waits for its answer; empty for none."""
        return "" if "@" in self.reply_to else self.reply_to

    @property
    def size_bytes(self) -> int:
        """Of all that it holds, which is what mail is bounded by."""
        return size_of(self)


class HasTexts(Protocol):
    """A message, accepted or about to be."""

    @property
    def text(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def reply_to(self) -> str: ...
    @property
    def answers(self) -> str: ...
    @property
    def waiting(self) -> tuple[str, ...]: ...
    @property
    def rights(self) -> frozenset[str] | None: ...
    @property
    def inbound(self) -> Inbound | None: ...


def size_of(mail: HasTexts) -> int:
    """What a message takes, in bytes."""
    texts = (
        mail.text,
        mail.sender,
        mail.session,
        mail.reply_to,
        mail.answers,
        *mail.waiting,
        *(mail.rights or ()),
        inbound_text(mail.inbound),
    )
    return BESIDE_TEXTS_BYTES + sum(map(size_of_text, texts))


def sent_by(mail: Mail) -> str:
    """Who has sent it himself; empty for what the node says, in whoever's name."""
    return mail.sender if mail.kind in (MESSAGE, PUBLICATION) else ""


def origin_of(sender: str) -> str:
    """The node that a message of ``sender`` came from; empty for this one."""
    return sender.rpartition("@")[2] if "@" in sender else ""


def mail_of(told: Told) -> Mail:
    """The message in message.accepted or message.sent."""
    body = told.body
    rights = body["rights"]
    return Mail(
        id=body["id"],
        seq=told.seq,
        sender=body["sender"],
        to=body["to"],
        text=body["text"],
        session=body["session"],
        reply_to=body["reply_to"],
        wants_reply=body["wants_reply"],
        deadline_us=body["deadline_us"],
        trace=told.trace,
        rights=None if rights is None else frozenset(rights),
        time_us=told.time_us,
        peer=body.get("peer", ""),
        answers=body.get("answers", ""),
        status=body.get("status", ""),
        answer_by_us=body.get("answer_by_us", 0),
        waiting=tuple(body["waiting"]),
        kind=body.get("kind", MESSAGE),
        topic=body.get("topic", ""),
        inbound=read_inbound(body.get("inbound", "")),
    )


def of_one_kind(mail: list[Any]) -> list[Any]:
    """The row of a message from before there were kinds."""
    return [*mail, MESSAGE]


def without_topic(mail: list[Any]) -> list[Any]:
    """The row of a message from before there were topics."""
    return [*mail, ""]


def without_inbound(mail: list[Any]) -> list[Any]:
    """The row of a message from before it said how it came."""
    return [*mail, None]


def turn_id(message_id: str) -> str:
    """The turn that handles a message: message ``m12`` is handled by turn ``t12``, however often it is delivered."""
    return "t" + message_id[1:]


def message_id(turn: str) -> str:
    """The message that a turn handles."""
    return "m" + turn[1:]


class Mailboxes(Table[str, OrderedDict[str, Mail]]):
    """By address, its messages by id, oldest first; an address without any has none.

    ``waits_for``: by who asked, of whom he has unanswered questions, and how many. ``box_bytes``: what the messages of
    each mailbox hold; ``origin_bytes``: by the node that they came from, what those in all mailboxes do.
    ``telemetry``: of each mailbox the publications to telemetry topics, oldest first. ``deadlines``: of those whose
    turn has not begun.

    Format 1 knew one kind of messages, format 2 no topics, format 3 not how they came.
    """

    NAME = "mail"
    FORMAT = 4
    MIGRATIONS = {  # noqa: RUF012
        1: lambda rows: [of_one_kind(each) for each in as_rows(rows)],
        2: lambda rows: [without_topic(each) for each in as_rows(rows)],
        3: lambda rows: [without_inbound(each) for each in as_rows(rows)],
    }

    def __init__(self) -> None:
        super().__init__()
        self.waits_for: dict[str, dict[str, int]] = {}
        self.box_bytes: Counter[str] = Counter()
        self.origin_bytes: Counter[str] = Counter()
        self.telemetry: dict[str, dict[str, None]] = {}
        self.deadlines = Deadlines()
        self._box_of: dict[str, str] = {}

    def hears(self) -> Mapping[str, Handler]:
        return {
            "message.accepted": lambda told: self._hold(mail_of(told)),
            "message.dead": lambda told: self._take(told.body["id"]),
            "message.cancelled": lambda told: self._take(told.body["id"]),
            "turn.steered": self._steered,
            "turn.ended": self._turn_ended,
        }

    def _hold(self, mail: Mail) -> None:
        self._kept.setdefault(mail.to, OrderedDict())[mail.id] = mail
        self._box_of[mail.id] = mail.to
        self._count(mail, mail.size_bytes)
        if is_telemetry(mail.topic):
            self.telemetry.setdefault(mail.to, {})[mail.id] = None
        if mail.deadline_us:
            self.deadlines.add(mail.id, mail.deadline_us + (ASKED_LATER_US if mail.asked_here else 0))
        if mail.reply_to:
            asked = self.waits_for.setdefault(mail.sender, {})
            asked[mail.to] = asked.get(mail.to, 0) + 1

    def _take(self, ident: str) -> None:
        address = self._box_of.pop(ident, None)
        if address is not None:
            mail = self._kept[address].pop(ident)
            self._count(mail, -mail.size_bytes)
            self.deadlines.remove(ident)
            if not self._kept[address]:
                del self._kept[address]
            if is_telemetry(mail.topic):
                self._gives_way_no_more(mail)
            if mail.reply_to:
                self._waits_no_more(mail)

    def _count(self, mail: Mail, size_bytes: int) -> None:
        for held, key in ((self.box_bytes, mail.to), (self.origin_bytes, origin_of(mail.sender))):
            now_bytes = held.get(key, 0) + size_bytes  # as a dict has it: a Counter's own ways are slow
            if now_bytes:
                held[key] = now_bytes
            else:
                del held[key]

    def _gives_way_no_more(self, mail: Mail) -> None:
        del self.telemetry[mail.to][mail.id]
        if not self.telemetry[mail.to]:
            del self.telemetry[mail.to]

    def _waits_no_more(self, question: Mail) -> None:
        asked = self.waits_for[question.sender]
        asked[question.to] -= 1
        if not asked[question.to]:
            del asked[question.to]
        if not asked:
            del self.waits_for[question.sender]

    def _steered(self, told: Told) -> None:
        """These have joined a turn, which answers them."""
        for ident in told.body["messages"]:
            self._take(ident)

    def _turn_ended(self, told: Told) -> None:
        if event_of(TURN_EVENTS, "turn.ended", told.body) is TurnEvent.END:
            self._take(message_id(told.body["turn"]))

    def begun(self, ident: str) -> None:
        """Its turn has: it expires no more."""
        self.deadlines.remove(ident)

    def find(self, ident: str) -> Mail | None:
        """The message of this id."""
        address = self._box_of.get(ident)
        return None if address is None else self._kept[address][ident]

    @property
    def messages(self) -> int:
        """How many there are in all."""
        return len(self._box_of)

    @property
    def bytes(self) -> int:
        """What they hold in all."""
        return self.origin_bytes.total()

    def rows(self) -> Any:
        return [row(mail) for box in self._kept.values() for mail in box.values()]

    def restore(self, rows: Any) -> None:
        for each in as_rows(rows):
            self._hold(made(Mail, each))
