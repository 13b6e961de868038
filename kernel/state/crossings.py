"""What is on its way between this node and others: a part of the node's durable state.

The **outbox** holds, for each peer, the messages that it has not answered for, oldest first. A **question** is a
message that somebody here waits for the answer of; it stays one until it is answered, given up, or nobody waits any
more, however long it has been acknowledged. The **inbox** holds the decisions on the peers' messages that
``mesh.delivery.delivery`` asks to keep: by origin and number the message's id, and why it was refused (empty:
accepted).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

import msgpack

from chain.ledger.ledger import StateChange
from kernel.state.record_forms import INBOX

if TYPE_CHECKING:
    from kernel.state.state import Mail

MAX_QUESTIONS = 10_000


class Crossings:
    """Changed only by the reducer of :class:`kernel.state.state.State`."""

    def __init__(self) -> None:
        self.outbox: dict[str, OrderedDict[str, Mail]] = {}
        self.questions: OrderedDict[str, Mail] = OrderedDict()
        self.inbox: dict[str, dict[int, tuple[str, str]]] = {}
        self.held_bytes: Counter[str] = Counter()
        self._peer_of: dict[str, str] = {}
        self._question_of: dict[str, str] = {}

    def __len__(self) -> int:
        """Messages that no peer has answered for yet."""
        return len(self._peer_of)

    def sent(self, mail: Mail) -> None:
        """A message to another node was recorded."""
        self.hold(mail)
        if mail.wants_reply:
            self.ask(mail)
            if len(self.questions) > MAX_QUESTIONS:
                self.answered(next(iter(self.questions)))

    def hold(self, mail: Mail) -> None:
        """Put a message into its outbox."""
        self.outbox.setdefault(mail.peer, OrderedDict())[mail.id] = mail
        self._peer_of[mail.id] = mail.peer
        self.held_bytes[mail.peer] += mail.size_bytes

    def ask(self, mail: Mail) -> None:
        """Somebody waits for the answer to a message."""
        self.questions[mail.id] = mail
        self._question_of[mail.reply_to or mail.id] = mail.id

    def find(self, ident: str) -> Mail | None:
        """The message of this id that is in an outbox."""
        peer = self._peer_of.get(ident)
        return None if peer is None else self.outbox[peer][ident]

    def take(self, ident: str) -> Mail | None:
        """It has left its outbox, one way or the other."""
        peer = self._peer_of.pop(ident, None)
        if peer is None:
            return None
        box = self.outbox[peer]
        mail = box.pop(ident)
        self.held_bytes[peer] -= mail.size_bytes
        if not box:
            del self.outbox[peer]
        return mail

    def answered(self, ident: str) -> None:
        """Nobody waits any more for the answer to the message of this id."""
        mail = self.questions.pop(ident, None)
        if mail is not None:
            self._question_of.pop(mail.reply_to or mail.id, None)

    def ended(self, reply_to: str) -> None:
        """The ask at ``turn:ordinal`` has an outcome, whatever becomes of its message."""
        ident = self._question_of.get(reply_to)
        if ident is not None:
            self.answered(ident)

    def decided(self, origin: str, number: int, decision: tuple[str, str] | None) -> None:
        """Apply a state record of the table ``inbox``."""
        if decision is None:
            self.inbox.get(origin, {}).pop(number, None)
        else:
            self.inbox.setdefault(origin, {})[number] = decision


def decision_record(origin: str, number: int, ident: str, why: str) -> StateChange:
    """The record that keeps a decision on a peer's message."""
    return StateChange(INBOX, f"{origin}\n{number}", msgpack.packb([ident, why]))


def forgetting_record(origin: str, number: int) -> StateChange:
    """The record that drops one which the peer has settled."""
    return StateChange(INBOX, f"{origin}\n{number}", None)
