"""Messages between two nodes, at least once on the way and at most once in effect. No socket, clock or file.

Theory of operation. The sender gives each message for a peer a *number*, rising for ever (the sequence number
of the ledger entry that recorded it, with what :func:`offset_above` adds), and stores it until it is answered.
Messages go out in the order of their numbers, as many as the *window* has room for, in messages and in bytes: a link
that got all there is at once would be full, and cut for it, before the first answer. In every new session those in
the window that are unanswered go out again, oldest first. As a session loses and reorders nothing, a receiver that
sees number ``n`` has seen in this session every older one that still counts.
So the receiver takes whatever is above the highest number it has decided, and has decided all others already.

The receiver records each decision (accepted, or refused and why) in the same commit as its effect and answers
once that is durable. It keeps decisions until the sender says, in ``settled``, that it knows them; the highest
is kept always. A number that is not above the highest and has no kept decision was never unanswered at this
sender: its data is older than what it sent (restored from a copy), and the message is refused, not swallowed. It may
be the very one that was decided under that number and forgotten: the refusal says that this is *unknown*. It says the
*newest* number too, so that such a sender goes on above it: what it had numbered before stays refused, and the receiver
forgets nothing of what it has decided.

    Outbox(peer, restored)         at the sender, one a peer      Inbox(peer, restored)   at the receiver
      put(parcel)    -> effects                                     receive(message)    -> New | Again | None
      up()           -> effects      down()                         decide(number, why) -> Decision
      answer(answer) -> effects                                     stored(number)      -> Answer
      expire(now_us) -> effects                                     forfeit()
      withdraw(number, why) -> effects
      clear(why)     -> effects
    effects: Send(op)  Delivered(parcel)  GivenUp(parcel, why, maybe_delivered)
    numbers: offset_above(newest, next_seq, offset) -> offset
    wire:    read_envelope(op) -> Envelope    read_answer(op) -> Answer    Envelope.op()    Answer.op()
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mesh.bounds import MAX_MESSAGE_BYTES
from mesh.errors import DeliveryError

WINDOW = 256
"""Messages that may be on the way to one peer and unanswered; the others wait at the sender."""

WINDOW_BYTES = MAX_MESSAGE_BYTES // 2
"""With so many bytes on the way and unanswered no more is sent: a quarter of what a link queues."""

MAX_OPEN = 4 * WINDOW
"""Decisions kept for one peer; more than a window, since a sender that restarts forgets its places."""

MAX_ID_CHARS = 64
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch
MAX_WHY_CHARS = 512
MAX_NUMBER = 2**63 - 1
MAX_NEWEST = 2**62
"""A peer that says it has seen more is not believed: whoever went on from there would run out of numbers."""
MAX_BODY_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message that waits for its answer. ``body`` is the kernel's own; ``deadline_us`` is the sender's clock."""

    number: int
    id: str
    deadline_us: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A parcel as it arrives. All numbers up to ``settled`` are answered or given up at the sender."""

    number: int
    id: str
    settled: int
    body: bytes

    def op(self) -> dict[str, Any]:
        return {"op": "message", "n": self.number, "id": self.id, "settled": self.settled, "body": self.body}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a message at the receiver: accepted when ``why`` is empty, else refused. ``unknown``: refused now,
    and the receiver does not know whether it was accepted before. ``newest``: refused for its number, and the receiver
    has seen this one; -1 when it is not said, as by earlier versions.
    """

    number: int
    id: str
    why: str = ""
    unknown: bool = False
    newest: int = -1

    def op(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"op": "refused" if self.why else "ack", "n": self.number, "id": self.id}
        more = {"why": self.why, "unknown": self.unknown}
        if self.newest >= 0:
            answer["newest"] = self.newest
        return answer | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Send:
    """Give ``op`` to the mesh, for this outbox's peer."""

    op: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has the message, durably."""

    parcel: Parcel


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The message is given up. ``maybe_delivered``: it went out, and no answer says what became of it."""

    parcel: Parcel
    why: str
    maybe_delivered: bool


Effect = Send | Delivered | GivenUp


class Outbox:
    """The messages for one peer that are not answered. ``restored``: those of an earlier boot, any order.

    A restored message counts as sent, since nobody knows.
    """

    def __init__(self, peer: str, restored: Iterable[Parcel] = ()) -> None:
        self.peer = peer
        self._waiting: OrderedDict[int, Parcel] = OrderedDict()
        for parcel in sorted(restored, key=lambda parcel: parcel.number):
            self._waiting[parcel.number] = parcel
        self._maybe = set(self._waiting)
        self._on_the_way: OrderedDict[int, bool] = OrderedDict()
        self._on_the_way_bytes = 0
        self._newest = max(self._waiting, default=-1)
        self._up = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def parcels(self) -> tuple[Parcel, ...]:
        """Those without an answer, in their order."""
        return tuple(self._waiting.values())

    @property
    def next_deadline_us(self) -> int | None:
        """When :meth:`expire` has something to do at the earliest; None when nothing waits."""
        return min((parcel.deadline_us for parcel in self._waiting.values()), default=None)

    def put(self, parcel: Parcel) -> list[Effect]:
        """Take one more. Its number must be above all earlier ones, which is for the caller to keep."""
        if parcel.number <= self._newest:
            raise DeliveryError(
                f"message {parcel.id} for {self.peer} has number {parcel.number}, not above {self._newest}"
            )
        self._newest = parcel.number
        self._waiting[parcel.number] = parcel
        return self._fill()

    def up(self) -> list[Effect]:
        """A new session with the peer: the window goes out again, in order, and what it has room for."""
        self._up = True
        again = [self._waiting[number] for number, done in self._on_the_way.items() if not done]
        return [*(self._send(parcel) for parcel in again), *self._fill()]

    def down(self) -> None:
        """The session is over; what is unanswered waits for the next."""
        self._up = False

    def answer(self, answer: Answer) -> list[Effect]:
        """The receiver's decision. One that belongs to nothing that waits is ignored."""
        parcel = self._waiting.get(answer.number)
        if parcel is None or parcel.id != answer.id:
            return []
        self._remove(answer.number)
        done: Effect = GivenUp(parcel, answer.why, answer.unknown) if answer.why else Delivered(parcel)
        return [done, *self._fill()]

    def expire(self, now_us: int) -> list[Effect]:
        """Give up what is past its deadline."""
        late = [parcel for parcel in self._waiting.values() if parcel.deadline_us <= now_us]
        return [*(self._give_up(parcel, "deadline passed") for parcel in late), *self._fill()]

    def withdraw(self, number: int, why: str) -> list[Effect]:
        """Give up one message, as when nobody waits for it any more."""
        parcel = self._waiting.get(number)
        return [] if parcel is None else [self._give_up(parcel, why), *self._fill()]

    def clear(self, why: str) -> list[Effect]:
        """Give up everything, as when the peer is removed."""
        return [self._give_up(parcel, why) for parcel in self.parcels]

    def _give_up(self, parcel: Parcel, why: str) -> GivenUp:
        maybe = parcel.number in self._maybe
        self._remove(parcel.number)
        return GivenUp(parcel, why, maybe)

    def _remove(self, number: int) -> None:
        parcel = self._waiting.pop(number)
        self._maybe.discard(number)
        if number in self._on_the_way:
            self._on_the_way[number] = True
            self._on_the_way_bytes -= len(parcel.body)
        while self._on_the_way and self._on_the_way[next(iter(self._on_the_way))]:
            self._on_the_way.popitem(last=False)

    def _fill(self) -> list[Effect]:
        """Send what the window has room for.

        An answered number keeps its place in the window until all before it are answered, so that the number
        of decisions a receiver must keep is bounded. Its bytes it gives back at once.
        """
        sent: list[Effect] = []
        if not self._up or not self._has_room:
            return sent
        for parcel in _above(self._waiting, next(reversed(self._on_the_way), -1)):
            self._on_the_way[parcel.number] = False
            self._on_the_way_bytes += len(parcel.body)
            self._maybe.add(parcel.number)
            sent.append(self._send(parcel))
            if not self._has_room:
                break
        return sent

    @property
    def _has_room(self) -> bool:
        return len(self._on_the_way) < WINDOW and self._on_the_way_bytes < WINDOW_BYTES

    def _send(self, parcel: Parcel) -> Send:
        settled = next(iter(self._waiting)) - 1
        return Send(Envelope(parcel.number, parcel.id, settled, parcel.body).op())


def _above(waiting: OrderedDict[int, Parcel], last: int) -> Iterable[Parcel]:
    """The parcels with a number above ``last``, in order; found from the end, where the new ones are."""
    found = []
    for number in reversed(waiting):
        if number <= last:
            break
        found.append(waiting[number])
    return reversed(found)


@dataclass(frozen=True, slots=True)
class New:
    """Decide on ``message``, commit the :class:`Decision` with its effect, answer once that is durable."""

    message: Envelope


@dataclass(frozen=True, slots=True)
class Again:
    """Was decided before: send ``answer`` once more and do nothing else."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Decision:
    """To be stored in one commit with the message's effect: keep ``answer``, drop the ``forget`` numbers."""

    answer: Answer
    forget: tuple[int, ...]


class Inbox:
    """The decisions on one peer's messages. ``restored``: the answers that earlier decisions had kept.

    For each :class:`New`, in the order they came: :meth:`decide`, commit, and :meth:`stored` once that is
    durable; or :meth:`forfeit` when nothing can be committed.
    """

    def __init__(self, peer: str, restored: Iterable[Answer] = ()) -> None:
        self.peer = peer
        self._answers = {answer.number: answer for answer in restored}
        self._undecided: OrderedDict[int, Envelope] = OrderedDict()
        self._unstored: set[int] = set()
        self._highest = max(self._answers, default=-1)

    @property
    def kept(self) -> Mapping[int, Answer]:
        """The decisions kept at present, by number."""
        return self._answers

    def receive(self, message: Envelope) -> New | Again | None:
        """What to do with ``message``; None when its decision is under way and will be answered by itself.

        Raises :class:`DeliveryError` when more is open than any correct sender leaves open.
        """
        number = message.number
        known = self._answers.get(number) or self._undecided.get(number)
        if known is not None and known.id == message.id:
            return None if number in self._unstored or isinstance(known, Envelope) else Again(known)
        if number <= self._highest:
            why = (
                f"number {number} was used before, the newest is {self._highest}: "
                "the sender's data is older than what it sent"
            )
            return Again(Answer(number, message.id, why, unknown=known is None, newest=self._highest))
        if len(self._answers) >= MAX_OPEN:
            unsettled = sum(old > message.settled for old in self._answers)
            if unsettled >= MAX_OPEN:
                raise DeliveryError(
                    f"{self.peer} leaves {unsettled} answers unsettled, the limit is {MAX_OPEN}"
                )
        self._highest = number
        self._undecided[number] = message
        return New(message)

    def decide(self, number: int, why: str = "") -> Decision:
        """The message was accepted, or refused for ``why``. The result is to be stored before it is answered."""
        if next(iter(self._undecided), None) != number:
            raise DeliveryError(f"message {number} of {self.peer} is not the oldest undecided one")
        message = self._undecided.pop(number)
        answer = Answer(number, message.id, why[:MAX_WHY_CHARS])
        forget = tuple(old for old in self._answers if old <= message.settled and old not in self._unstored)
        for old in forget:
            del self._answers[old]
        self._answers[number] = answer
        self._unstored.add(number)
        return Decision(answer, forget)

    def stored(self, number: int) -> Answer:
        """The decision is durable: send this answer."""
        self._unstored.discard(number)
        return self._answers[number]

    def forfeit(self) -> None:
        """What is undecided cannot be recorded now: it is as if never received.

        The caller must end the session, so that the sender begins again with its oldest.
        """
        self._undecided.clear()
        self._highest = max(self._answers, default=-1)


def offset_above(newest: int, next_seq: int, offset: int) -> int:
    """What is to be added to sequence numbers from ``next_seq`` on, so that all are above ``newest``, which the
    receiver has seen; ``offset`` when what is added so far will do.
    """
    return max(offset, newest + 1 - next_seq) if newest <= MAX_NEWEST else offset


def read_envelope(op: Mapping[str, Any]) -> Envelope:
    """The message in a peer's op. Raises :class:`DeliveryError` for any other shape."""
    number, id_ = _number_and_id(op)
    settled, body = op.get("settled"), op.get("body")
    if type(settled) is not int or not -1 <= settled < number:
        raise DeliveryError(
            f"message {id_} settles {_brief(settled)}, must be a number below its own, {number}"
        )
    if type(body) is not bytes or len(body) > MAX_BODY_BYTES:
        raise DeliveryError(f"message {id_} has no body of at most {MAX_BODY_BYTES} bytes")
    return Envelope(number, id_, settled, body)


def read_answer(op: Mapping[str, Any]) -> Answer:
    """The answer in a peer's op (``ack`` or ``refused``). Raises :class:`DeliveryError` for any other shape."""
    number, id_ = _number_and_id(op)
    if op.get("op") == "ack":
        return Answer(number, id_)
    why, unknown, newest = op.get("why"), op.get("unknown", False), op.get("newest", -1)
    if op.get("op") != "refused" or type(why) is not str or not why or type(unknown) is not bool:
        raise DeliveryError(f"answer to message {id_} is neither ack nor refused with a reason")
    if type(newest) is not int or not -1 <= newest <= MAX_NUMBER:
        raise DeliveryError(f"answer to message {id_} says {_brief(newest)} is the newest number")
    return Answer(number, id_, why[:MAX_WHY_CHARS], unknown, newest)


def _brief(value: object) -> str:
    """Foreign, for an error: a number as it is, of anything else the type, since its text may have megabytes."""
    return str(value) if type(value) is int else type(value).__name__


def _number_and_id(op: Mapping[str, Any]) -> tuple[int, str]:
    number, id_ = op.get("n"), op.get("id")
    if type(number) is not int or not 0 <= number <= MAX_NUMBER:
        raise DeliveryError(f"message number is {_brief(number)}, must be from 0 to {MAX_NUMBER}")
    if type(id_) is not str or not _ID(id_):
        raise DeliveryError(
            f"message id is {_brief(id_)}, must be 1 to {MAX_ID_CHARS} ASCII letters, digits, _ . or -"
        )
    return number, id_
