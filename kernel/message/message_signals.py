"""What happens to messages, and to the turns that handle them."""

from __future__ import annotations

from dataclasses import dataclass

from chain.ledger.ledger import Ticket
from kernel.signals import Signal
from kernel.slices.mailboxes import Mail


@dataclass(frozen=True, slots=True)
class MessageArrived(Signal):
    """A message for ``address`` was written."""

    address: str


@dataclass(frozen=True, slots=True)
class Overflowed(Signal):
    """A message was accepted for which there is no room, ``why``: its receiver wants it among the dead letters."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class MessageDied(Signal):
    """A message became a dead letter, and ``why``. ``ticket``: of the record that says so."""

    mail: Mail
    why: str
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class LettersCame(Signal):
    """Messages became dead letters in the unit that accepted them."""


@dataclass(frozen=True, slots=True)
class LinkBroken(Signal):
    """What ``address`` is linked with has ended, for a ``reason`` that is its own now: the incarnation ``pid``, or the
    present one for 0.
    """

    address: str
    pid: int
    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class TurnOver(Signal):
    """A turn has ended, or is not run any more: what it asked is not wanted."""

    turn: str


@dataclass(frozen=True, slots=True)
class TurnCut(Signal):
    """A turn was cancelled, with calls at ``ordinals``: what still carries them out is not wanted."""

    turn: str
    ordinals: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class QuestionDropped(Signal):
    """A message to another node, whose answer somebody here has waited for, was cancelled."""

    question: Mail
    why: str


@dataclass(frozen=True, slots=True)
class AskAnswered(Signal):
    """The answer to an ask was recorded as the outcome of that call."""

    turn: str
    ordinal: str
