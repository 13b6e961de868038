"""Delivery: no message doubled and none lost over a link that cuts where it likes, and nodes that restart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.delivery.delivery import (
    MAX_NEWEST,
    MAX_NUMBER,
    MAX_OPEN,
    WINDOW,
    WINDOW_BYTES,
    Again,
    Answer,
    Delivered,
    Effect,
    Envelope,
    GivenUp,
    Inbox,
    New,
    Outbox,
    Parcel,
    Send,
    offset_above,
    read_answer,
    read_envelope,
)
from mesh.errors import DeliveryError

FOREVER = 2**62


BIG = b"x" * (WINDOW_BYTES // 4)


def parcel(number: int, deadline_us: int = FOREVER, body: bytes = b"body") -> Parcel:
    return Parcel(number, f"m{number}", deadline_us, body)


def sent(effects: list[Effect]) -> list[int]:
    return [effect.op["n"] for effect in effects if isinstance(effect, Send)]


def accept(inbox: Inbox, message: Envelope, why: str = "") -> Answer:
    taken = inbox.receive(message)
    assert isinstance(taken, New)
    inbox.decide(message.number, why)
    return inbox.stored(message.number)


def test_nothing_goes_out_before_the_peer_is_up_and_then_all_in_order() -> None:
    outbox = Outbox("peer")
    assert outbox.put(parcel(3)) == [] == outbox.put(parcel(7))
    assert sent(outbox.up()) == [3, 7]
    assert sent(outbox.put(parcel(9))) == [9]


def test_a_new_session_sends_again_what_is_unanswered_and_nothing_else() -> None:
    outbox = Outbox("peer")
    outbox.up()
    for number in (1, 2, 3):
        outbox.put(parcel(number))
    assert outbox.answer(Answer(2, "m2")) == [Delivered(parcel(2))]
    outbox.down()
    assert outbox.put(parcel(4)) == []
    assert sent(outbox.up()) == [1, 3, 4]


def test_a_number_that_does_not_rise_is_refused_at_the_sender() -> None:
    outbox = Outbox("peer", [parcel(5)])
    with pytest.raises(DeliveryError, match="number 5, not above 5"):
        outbox.put(parcel(5))


def test_the_window_holds_back_until_the_oldest_is_answered() -> None:
    outbox = Outbox("peer")
    outbox.up()
    effects = [effect for number in range(WINDOW + 10) for effect in outbox.put(parcel(number))]
    assert sent(effects) == list(range(WINDOW))
    assert sent(outbox.answer(Answer(5, "m5"))) == []
    assert sent(outbox.answer(Answer(0, "m0"))) == [WINDOW]
    assert sent([e for n in range(1, 5) for e in outbox.answer(Answer(n, f"m{n}"))]) == [
        WINDOW + n for n in range(1, 6)
    ]


def test_the_window_is_one_of_bytes_too_also_when_a_link_comes_again() -> None:
    outbox = Outbox("peer", [parcel(number, body=BIG) for number in range(10)])
    assert sent(outbox.up()) == [0, 1, 2, 3]
    assert sent(outbox.put(parcel(10))) == []
    outbox.down()
    assert sent(outbox.up()) == [0, 1, 2, 3]
    assert sent(outbox.answer(Answer(2, "m2"))) == [4]
    assert sent(outbox.withdraw(0, "nobody waits")) == [5]
    outbox.down()
    assert sent(outbox.up()) == [1, 3, 4, 5]
    answers = [outbox.answer(Answer(number, f"m{number}")) for number in (1, 3, 4, 5)]
    assert [sent(effects) for effects in answers] == [[6], [7], [8], [9]]
    assert sent(outbox.answer(Answer(6, "m6"))) == [10]


def test_a_message_that_is_larger_than_the_window_goes_out_alone() -> None:
    outbox = Outbox("peer", [parcel(1, body=bytes(WINDOW_BYTES + 1)), parcel(2)])
    assert sent(outbox.up()) == [1]
    assert sent(outbox.answer(Answer(1, "m1"))) == [2]


def test_past_its_deadline_a_message_that_went_out_is_maybe_delivered_and_one_that_did_not_is_not() -> None:
    outbox = Outbox("peer")
    outbox.up()
    outbox.put(parcel(1, 100))
    outbox.down()
    outbox.put(parcel(2, 100))
    outbox.put(parcel(3, 200))
    assert outbox.next_deadline_us == 100
    assert outbox.expire(99) == []
    assert outbox.expire(100) == [
        GivenUp(parcel(1, 100), "deadline passed", True),
        GivenUp(parcel(2, 100), "deadline passed", False),
    ]
    assert sent(outbox.up()) == [3]


def test_a_message_of_an_earlier_boot_counts_as_sent() -> None:
    outbox = Outbox("peer", [parcel(8), parcel(2)])
    assert [
        effect.maybe_delivered for effect in outbox.clear("peer removed") if isinstance(effect, GivenUp)
    ] == [
        True,
        True,
    ]
    assert len(outbox) == 0 and outbox.next_deadline_us is None


def test_a_refusal_is_a_dead_letter_that_was_surely_not_delivered() -> None:
    outbox = Outbox("peer")
    outbox.up()
    outbox.put(parcel(1))
    assert outbox.answer(Answer(1, "m1", "no such process")) == [GivenUp(parcel(1), "no such process", False)]


def test_an_answer_to_nothing_or_to_another_id_is_ignored() -> None:
    outbox = Outbox("peer")
    outbox.up()
    outbox.put(parcel(1))
    assert outbox.answer(Answer(2, "m2")) == [] == outbox.answer(Answer(1, "other"))
    assert outbox.parcels == (parcel(1),)


def test_a_resent_message_is_answered_as_before_and_never_accepted_twice() -> None:
    inbox = Inbox("peer")
    first, second = Envelope(1, "a", -1, b""), Envelope(4, "b", 0, b"")
    assert accept(inbox, first) == Answer(1, "a")
    assert accept(inbox, second, "mailbox full") == Answer(4, "b", "mailbox full")
    restarted = Inbox("peer", inbox.kept.values())
    for box in (inbox, restarted):
        assert box.receive(first) == Again(Answer(1, "a"))
        assert box.receive(second) == Again(Answer(4, "b", "mailbox full"))


def test_a_decision_that_is_not_on_the_disk_is_not_answered() -> None:
    inbox = Inbox("peer")
    message = Envelope(1, "a", -1, b"")
    assert inbox.receive(message) == New(message)
    assert inbox.receive(message) is None
    inbox.decide(1)
    assert inbox.receive(message) is None
    assert inbox.stored(1) == Answer(1, "a")
    assert inbox.receive(message) == Again(Answer(1, "a"))


def test_what_the_sender_knows_is_forgotten_but_the_highest_is_kept() -> None:
    inbox = Inbox("peer")
    for number in range(5):
        accept(inbox, Envelope(number, f"m{number}", -1, b""))
    assert isinstance(inbox.receive(Envelope(5, "m5", 4, b"")), New)
    decision = inbox.decide(5)
    assert decision.forget == (0, 1, 2, 3, 4)
    assert list(inbox.kept) == [5]


def test_a_sender_restored_from_a_copy_is_told_so_and_its_message_not_swallowed() -> None:
    inbox = Inbox("peer")
    accept(inbox, Envelope(10, "old", 9, b""))
    for message in (Envelope(7, "new", 6, b""), Envelope(10, "new", 9, b"")):
        again = inbox.receive(message)
        assert isinstance(again, Again) and "older than what it sent" in again.answer.why


def test_a_refusal_of_what_may_have_been_taken_and_forgotten_is_no_word_that_it_was_not() -> None:
    outbox, inbox = Outbox("peer", [parcel(7)]), Inbox("peer")
    outbox.up()
    message = Envelope(7, "m7", 6, b"body")
    accept(inbox, message)
    accept(inbox, Envelope(10, "m10", 9, b""))
    again = inbox.receive(message)
    assert isinstance(again, Again)
    assert outbox.answer(read_answer(again.answer.op())) == [GivenUp(parcel(7), again.answer.why, True)]
    other = inbox.receive(Envelope(10, "other", 9, b""))
    assert isinstance(other, Again) and other.answer.why and not other.answer.unknown


def test_a_refusal_for_its_number_says_the_newest_and_the_sender_goes_on_above_it() -> None:
    inbox = Inbox("peer")
    accept(inbox, Envelope(10, "old", 9, b""))
    again = inbox.receive(Envelope(7, "new", 6, b""))
    assert isinstance(again, Again)
    answer = read_answer(again.answer.op())
    assert (answer, answer.newest) == (again.answer, 10)
    number = 8 + offset_above(answer.newest, 8, 0)
    assert number == 11 and accept(inbox, Envelope(number, "newer", 10, b"")) == Answer(11, "newer")
    late = inbox.receive(Envelope(9, "late", 6, b""))
    assert isinstance(late, Again) and (late.answer.unknown, late.answer.newest) == (True, 11)


@pytest.mark.parametrize(
    ("newest", "next_seq", "offset", "above"),
    [(-1, 0, 0, 0), (-1, 8, 5, 5), (7, 8, 0, 0), (8, 8, 0, 1), (12, 8, 5, 5), (13, 8, 5, 6), (3, 8, 5, 5),
     (MAX_NEWEST, 8, 5, MAX_NEWEST - 7), (MAX_NEWEST + 1, 8, 5, 5), (MAX_NUMBER, 8, 0, 0)],
)  # fmt: skip
def test_what_is_added_to_numbers_only_rises_and_never_so_far_that_they_run_out(
    newest: int, next_seq: int, offset: int, above: int
) -> None:
    assert offset_above(newest, next_seq, offset) == above


def test_a_refusal_of_an_earlier_version_says_no_newest_number_and_one_of_this_is_read_by_it() -> None:
    """That one takes what it knows by name and passes over the rest."""
    op = Answer(9, "m9", "old", unknown=True).op()
    assert "newest" not in op and read_answer(op).newest == -1
    assert Answer(9, "m9", "old", True, 12).op() == {**op, "newest": 12}


def test_what_could_not_be_recorded_may_come_again() -> None:
    inbox = Inbox("peer")
    accept(inbox, Envelope(1, "a", -1, b""))
    assert isinstance(inbox.receive(Envelope(2, "b", 1, b"")), New)
    inbox.forfeit()
    assert isinstance(inbox.receive(Envelope(2, "b", 1, b"")), New)


def test_decisions_are_taken_in_order() -> None:
    inbox = Inbox("peer")
    inbox.receive(Envelope(1, "a", -1, b""))
    inbox.receive(Envelope(2, "b", -1, b""))
    with pytest.raises(DeliveryError, match="not the oldest undecided"):
        inbox.decide(2)


def test_a_peer_that_never_settles_is_stopped() -> None:
    inbox = Inbox("peer")
    for number in range(MAX_OPEN):
        accept(inbox, Envelope(number, f"m{number}", -1, b""))
    with pytest.raises(DeliveryError, match=f"leaves {MAX_OPEN} answers unsettled"):
        inbox.receive(Envelope(MAX_OPEN, "one-more", -1, b""))


DEEP: Any = msgpack.unpackb(b"\x91" * 1000 + b"\xc0")  # more than Python can print


@pytest.mark.parametrize(
    "change",
    [
        {"n": -1}, {"n": "1"}, {"n": True}, {"n": 2**63}, {"id": ""}, {"id": "m1:2"},
        {"id": "m1@n"}, {"id": "m 1"}, {"id": "x" * 65}, {"id": "é"}, {"id": b"m"},
        {"n": DEEP}, {"id": DEEP}, {"settled": DEEP}, {"settled": 9}, {"settled": -2}, {"settled": None},
        {"body": "text"}, {"body": bytes(2**21 + 1)},
    ],
)  # fmt: skip
def test_a_malformed_message_is_refused(change: dict[str, Any]) -> None:
    op = Envelope(9, "m9", 3, b"body").op()
    assert read_envelope(op) == Envelope(9, "m9", 3, b"body")
    with pytest.raises(DeliveryError):
        read_envelope(op | change)


@pytest.mark.parametrize("change", [{"op": "maybe"}, {"why": ""}, {"why": 3}, {"n": 1.0}, {"unknown": 1},
                                    {"newest": -2}, {"newest": 2**63}, {"newest": True}, {"newest": DEEP}])  # fmt: skip
def test_a_malformed_answer_is_refused(change: dict[str, Any]) -> None:
    op = Answer(9, "m9", "full").op()
    assert read_answer(op) == Answer(9, "m9", "full")
    assert read_answer(Answer(9, "m9").op()) == Answer(9, "m9")
    assert read_answer(Answer(9, "m9", "old", unknown=True).op()) == Answer(9, "m9", "old", unknown=True)
    with pytest.raises(DeliveryError):
        read_answer(op | change)


@dataclass
class World:
    """Two nodes and a link. What is durable survives a restart; what is on the link is lost with it."""

    outbox: Outbox = field(default_factory=lambda: Outbox("receiver"))
    inbox: Inbox = field(default_factory=lambda: Inbox("sender"))
    there: list[dict[str, Any]] = field(default_factory=list)
    back: list[dict[str, Any]] = field(default_factory=list)
    effects: list[int] = field(default_factory=list)
    unstored: list[int] = field(default_factory=list)
    done: dict[int, str] = field(default_factory=dict)
    put: int = 0
    up: bool = False

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(op):
                    self.there.append(op)
                case Delivered(parcel):
                    assert parcel.number not in self.done
                    self.done[parcel.number] = "delivered"
                case GivenUp(parcel, _, maybe):
                    assert parcel.number not in self.done
                    self.done[parcel.number] = "maybe" if maybe else "refused"

    def step(self, move: str) -> None:
        match move:
            case "put":
                self.put += 1
                self.apply(self.outbox.put(parcel(self.put, deadline_us=self.put)))
            case "cut":
                self.cut()
            case "link" if not self.up:
                self.up = True
                self.apply(self.outbox.up())
            case "receive" if self.there:
                self.receive(read_envelope(self.there.pop(0)))
            case "store" if self.unstored:
                self.back.append(self.inbox.stored(self.unstored.pop(0)).op())
            case "answer" if self.back:
                self.apply(self.outbox.answer(read_answer(self.back.pop(0))))
            case "expire":
                self.apply(self.outbox.expire(self.put - 3))
            case "restart sender":
                self.cut()
                self.outbox = Outbox("receiver", self.outbox.parcels)
            case "restart receiver":
                self.cut()
                self.unstored.clear()
                self.inbox = Inbox("sender", self.inbox.kept.values())

    def receive(self, message: Envelope) -> None:
        match self.inbox.receive(message):
            case New(new):
                refused = new.number % 5 == 0
                self.inbox.decide(new.number, "refused" if refused else "")
                self.unstored.append(new.number)
                if not refused:
                    self.effects.append(new.number)
            case Again(answer):
                assert "older" not in answer.why
                self.back.append(answer.op())

    def cut(self) -> None:
        self.up = False
        self.outbox.down()
        self.there.clear()
        self.back.clear()


MOVES = [
    *("put", "put", "receive", "receive", "store", "answer", "cut", "link"),
    *("expire", "restart sender", "restart receiver"),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(MOVES), max_size=80))
def test_over_any_cuts_and_restarts_effects_come_once_in_order_and_are_told_truly(moves: list[str]) -> None:
    world = World()
    for move in moves:
        world.step(move)
    world.step("link")
    while world.there or world.back or world.unstored:
        for move in ("receive", "store", "answer"):
            world.step(move)
    assert world.effects == sorted(set(world.effects))
    assert set(world.done) == set(range(1, world.put + 1))
    for number, how in world.done.items():
        if how == "delivered":
            assert number in world.effects
        if how == "refused":
            assert number not in world.effects


def test_the_world_of_the_property_can_fail() -> None:
    """The same walk over an inbox that forgets shows a doubled effect: the property above is no empty one."""
    world = World()
    for move in ("put", "link", "receive", "cut"):
        world.step(move)
    world.inbox = replace(World()).inbox
    for move in ("link", "receive"):
        world.step(move)
    assert world.effects == [1, 1]


@dataclass
class Copies:
    """A sender whose data is put back from copies at any time, and a receiver that stays. A message is known by its id,
    which no other has; ``told`` says what the sender that stands now was told of it.
    """

    inbox: Inbox = field(default_factory=lambda: Inbox("sender"))
    outbox: Outbox = field(default_factory=lambda: Outbox("receiver"))
    seq: int = 0
    offset: int = 0
    copy: tuple[int, int, tuple[Parcel, ...], dict[str, str]] = (0, 0, (), {})
    told: dict[str, str] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    made: int = 0

    def put(self) -> str:
        self.seq, self.made = self.seq + 1, self.made + 1
        self.outbox.put(Parcel(self.seq + self.offset, f"m{self.made}", FOREVER, b""))
        return f"m{self.made}"

    def step(self, move: str) -> None:
        match move:
            case "put":
                self.put()
            case "copy":
                self.copy = self.seq, self.offset, self.outbox.parcels, dict(self.told)
            case "put back":
                self.seq, self.offset, parcels, told = self.copy
                self.outbox, self.told = Outbox("receiver", parcels), dict(told)
            case "carry" | "carry, and lose the answers":
                self.carry(answered=move == "carry")

    def carry(self, answered: bool = True) -> None:
        """One session, as far as the first answers."""
        answers = [self.answer(read_envelope(send.op)) for send in self.outbox.up() if isinstance(send, Send)]
        self.outbox.down()
        for answer in answers if answered else ():
            self.seq += 1  # what came of it is an entry too
            self.offset = offset_above(answer.newest, self.seq, self.offset)
            for effect in self.outbox.answer(answer):
                if isinstance(effect, Delivered):
                    self.told[effect.parcel.id] = "delivered"
                elif isinstance(effect, GivenUp):
                    self.told[effect.parcel.id] = "maybe" if effect.maybe_delivered else "refused"

    def answer(self, message: Envelope) -> Answer:
        match self.inbox.receive(message):
            case Again(answer):
                return read_answer(answer.op())
            case New(new):
                refused = int(new.id[1:]) % 5 == 0
                self.inbox.decide(new.number, "refused" if refused else "")
                if not refused:
                    self.effects.append(new.id)
        return read_answer(self.inbox.stored(message.number).op())


COPY_MOVES = ["put", "put", "carry", "carry", "carry, and lose the answers", "copy", "put back"]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(COPY_MOVES), max_size=60))
def test_whatever_copy_is_put_back_nothing_comes_twice_all_is_told_truly_and_the_next_message_gets_through(
    moves: list[str],
) -> None:
    world = Copies()
    for move in moves:
        world.step(move)
    world.put()
    world.carry()
    last = world.put()
    world.carry()
    assert not len(world.outbox)
    assert len(world.effects) == len(set(world.effects))
    for ident, how in world.told.items():
        if how != "maybe":
            assert (ident in world.effects) == (how == "delivered")
    assert world.told[last] == ("refused" if int(last[1:]) % 5 == 0 else "delivered")


def test_a_withdrawn_message_makes_room_and_is_sent_no_more() -> None:
    outbox = Outbox("peer")
    outbox.up()
    for number in range(WINDOW + 1):
        outbox.put(parcel(number))
    dead, *more = outbox.withdraw(0, "nobody waits")
    assert dead == GivenUp(parcel(0), "nobody waits", True)
    assert sent(more) == [WINDOW]
    assert outbox.withdraw(0, "again") == []
    outbox.down()
    assert 0 not in sent(outbox.up())
