"""Sessions: the handshake, admission, and every way that a peer or the wire can misbehave."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from mesh.bounds import MAX_MESSAGE_BYTES, ReassemblyBudget
from mesh.errors import MessageTooLarge, PeerRefused, SessionBroken, SessionMisuse, TokenRefused
from mesh.identity.identity import Identity
from mesh.identity.tokens import JoinToken, TokenBook
from mesh.links.frames import (
    END,
    HANDSHAKE,
    HEADER_BYTES,
    PART,
    PART_BYTES,
    RESET_FRAME,
    SEALED,
    WHOLE,
    pack_frame,
)
from mesh.links.noise import NoiseXX
from mesh.links.session import (  # fmt: skip
    PROLOGUE,
    STEPS,
    Closed,
    Identified,
    Opened,
    Received,
    Send,
    Session,
    begins_session,
)
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY, feed, flipped, identified, identity, met, opened
from tests.mesh.twins.rogue import Rogue


def broken(session: Session, *frames: bytes) -> SessionBroken:
    """The fault that the last of ``frames`` is; the session takes nothing afterwards."""
    feed(session, frames[:-1])
    with pytest.raises(SessionBroken) as caught:
        session.receive(frames[-1])
    assert session.state == "closed"
    with pytest.raises(SessionBroken):
        session.receive(frames[-1])
    return caught.value


def with_hello(hello: bytes, me: Identity = MALLORY) -> tuple[Session, bytes, Rogue]:
    """A responder (bob) whose initiator does everything right but ``hello``, and its third frame."""
    bob, rogue = Session(False, BOB), Rogue(me)
    (answer,) = bob.receive(rogue.first())
    assert isinstance(answer, Send)
    return bob, rogue.third(answer.frame, hello), rogue


def let_in(budget: ReassemblyBudget | None = None, me: Identity = MALLORY) -> tuple[Session, Rogue]:
    """A responder (bob) that has let in a peer which misbehaves from then on."""
    bob, rogue = Session(False, BOB, budget), Rogue(me)
    (answer,) = bob.receive(rogue.first())
    assert isinstance(answer, Send)
    feed(bob, [rogue.third(answer.frame), rogue.control({"op": "enter"})])
    (welcome,) = bob.accept()
    assert msgpack.unpackb(rogue.opened(welcome)[1:]) == {"op": "welcome"}
    return bob, rogue


# The way in


def test_both_sides_know_whom_they_met_before_they_decide() -> None:
    alice, bob = met()
    assert alice.peer is not None and (alice.peer.origin, alice.peer.name) == (BOB.origin, "bob")
    assert (alice.state, bob.state, bob.peer) == ("deciding", "handshake", None)
    (seen,) = feed(bob, alice.accept())
    assert isinstance(seen, Identified) and seen.peer.origin == ALICE.origin and seen.join is None
    assert alice.handshake_hash == bob.handshake_hash
    assert feed(alice, bob.accept()) == [Opened(alice.peer)]
    assert alice.state == bob.state == "open"


def test_messages_go_both_ways_whole_and_in_order() -> None:
    alice, bob = opened()
    sizes = (0, 1, PART_BYTES, PART_BYTES + 1, 200_000)
    messages = [bytes([number]) * size for number, size in enumerate(sizes)]
    for one, other in ((alice, bob), (bob, alice)):
        frames = [frame for message in messages for frame in one.seal(message)]
        assert feed(other, frames) == [Received(message) for message in messages]


def test_the_longest_message_arrives_and_a_longer_one_costs_nothing() -> None:
    alice, bob = opened()
    with pytest.raises(MessageTooLarge, match="limit 16777216"):
        alice.seal(bytes(MAX_MESSAGE_BYTES + 1))
    assert feed(bob, alice.seal(bytes(MAX_MESSAGE_BYTES))) == [Received(bytes(MAX_MESSAGE_BYTES))]


def test_a_short_message_overtakes_within_a_long_one() -> None:
    alice, bob = opened()
    long = bytes(3 * PART_BYTES)
    parts = alice.seal_parts(long)
    frames = [next(parts), *alice.seal(b"ping"), next(parts)]
    with pytest.raises(SessionMisuse, match="a message of many frames is being sent"):
        alice.seal(long)
    frames += [*parts, *alice.seal(long)]
    assert feed(bob, frames) == [Received(b"ping"), Received(long), Received(long)]


def test_no_frame_shows_what_was_said() -> None:
    alice, _ = opened()
    (frame,) = alice.seal(b"a very secret word")
    assert b"secret" not in frame
    third, enter = met()[0].accept()
    assert ALICE.origin.encode() not in third + enter and b"alice" not in third


def test_a_close_is_told() -> None:
    alice, bob = opened()
    frames = alice.close("going down " + "ä" * 300)
    (event,) = feed(bob, frames)
    assert (
        isinstance(event, Closed) and event.why.startswith("going down ä") and len(event.why.encode()) <= 200
    )
    assert alice.state == bob.state == "closed"
    assert alice.close("again") == []


# Admission


def test_a_refusal_is_told_to_who_has_shown_its_name() -> None:
    alice, bob, _ = identified()
    with pytest.raises(PeerRefused, match="the peer refused: 'not in the allow list'") as caught:
        feed(alice, bob.refuse("not in the allow list"))
    assert caught.value.why == "not in the allow list" and alice.state == bob.state == "closed"


def test_an_initiator_that_refuses_has_said_nothing_of_itself() -> None:
    alice, bob = met()
    assert alice.refuse("not whom I dialled") == []
    assert (alice.state, bob.peer) == ("closed", None)


def test_a_peers_words_are_shown_and_not_obeyed() -> None:
    alice, bob, _ = identified()
    with pytest.raises(PeerRefused) as caught:
        feed(alice, bob.refuse("\x1b]0;owned\x07\u202e"))
    assert str(caught.value).isprintable()


def test_nothing_is_heard_or_said_before_both_sides_said_yes() -> None:
    alice, bob, _ = identified()
    with pytest.raises(SessionMisuse, match="cannot send: the session is waiting"):
        alice.seal(b"early")
    with pytest.raises(SessionMisuse, match="cannot send: the session is deciding"):
        bob.seal(b"early")
    bob, third, rogue = with_hello(MALLORY.hello)
    frames = [third, rogue.control({"op": "enter"}), rogue.sealed(bytes([WHOLE]) + b"early")]
    assert broken(bob, *frames).rule == "frame.kind"


def test_a_message_in_place_of_enter_is_a_broken_session() -> None:
    bob, third, rogue = with_hello(MALLORY.hello)
    assert broken(bob, third, rogue.sealed(bytes([WHOLE]) + b"first")).rule == "control"


@pytest.mark.parametrize(
    ("plaintext", "rule"),
    [(bytes([WHOLE]) + b"hello?", "control"), (b"\x03" + msgpack.packb({"op": "enter"}), "verdict"),
     (b"\x03" + msgpack.packb({"op": "welcome", "more": 1}), "verdict")],
)  # fmt: skip
def test_a_verdict_of_another_form_opens_nothing(plaintext: bytes, rule: str) -> None:
    alice, noise = Session(True, ALICE), NoiseXX(False, MALLORY.noise, PROLOGUE)
    noise.read_message(alice.start()[HEADER_BYTES:])
    feed(alice, [pack_frame(HANDSHAKE, 1, noise.write_message(MALLORY.hello))])
    third, _ = alice.accept()
    noise.read_message(third[HEADER_BYTES:])
    assert broken(alice, pack_frame(SEALED, 0, noise.encrypt(plaintext))).rule == rule


def test_a_join_claim_arrives_with_its_proof_and_without_the_secret() -> None:
    token = JoinToken(BOB.origin, "0123456789abcdef", bytes(range(32)))
    _, bob, seen = identified(token=token)
    assert seen.join == token.claim(bob.handshake_hash, ALICE.origin)
    book = TokenBook(BOB.origin).with_new(token, 1, 600)
    assert (
        book.redeemed(seen.join, bob.handshake_hash, seen.peer.origin, 2).records[0].used_by == ALICE.origin
    )


def test_a_stolen_proof_fails_in_the_thiefs_own_session() -> None:
    """Mallory sits between and has somehow read alice's claim; his own session has another hash."""
    token = JoinToken(BOB.origin, "0123456789abcdef", bytes(range(32)))
    _, _, seen = identified(responder=MALLORY, token=token)
    assert seen.join is not None
    _, bob, stolen = identified(MALLORY)
    book = TokenBook(BOB.origin).with_new(token, 1, 600)
    with pytest.raises(TokenRefused, match="proof"):
        book.redeemed(seen.join, bob.handshake_hash, stolen.peer.origin, 2)


@pytest.mark.parametrize(
    "enter",
    [{"op": "welcome"}, {"op": "welcome", "issuer": "x", "id": "x", "proof": b""},
     {"op": "enter", "id": "x"}, {"op": "enter", "issuer": 1, "id": "x", "proof": b""},
     {"op": "enter", "issuer": "x", "id": "x", "proof": "text"}, {}, {"op": "enter", "a": 1, "b": 1, "c": 1}],
)  # fmt: skip
def test_an_enter_of_another_form_is_refused(enter: dict[str, object]) -> None:
    bob, third, rogue = with_hello(MALLORY.hello)
    assert broken(bob, third, rogue.control(enter)).rule == "enter"


@pytest.mark.parametrize(
    "word", [b"", b"\x03", b"\x03\xc1", b"\x03\x90", b"\x03" + b"\x81" * 900, b"\x07x", b"\x03\x80\x00"]
)
def test_a_control_word_that_is_none_is_refused(word: bytes) -> None:
    bob, rogue = let_in()
    assert broken(bob, rogue.sealed(word)).rule == "control"


# Hellos that are not the sender's


def test_anothers_hello_over_ones_own_key_is_refused_and_told() -> None:
    bob, third, rogue = with_hello(ALICE.hello)
    fault = broken(bob, third)
    assert fault.rule == "hello.binding" and fault.farewell is not None
    assert msgpack.unpackb(rogue.opened(fault.farewell)[1:]) == {"op": "refused", "why": "hello: binding"}


def test_a_hello_and_third_message_replayed_from_another_session_are_refused() -> None:
    alice, _ = met()
    third, enter = alice.accept()
    bob = Session(False, BOB)
    bob.receive(Session(True, ALICE).start())
    assert broken(bob, third).rule == "noise"
    bob = Session(False, BOB)
    assert broken(bob, third).rule == "frame.number"
    assert broken(Session(False, BOB), enter).rule == "frame.kind"


def test_a_whole_recorded_handshake_played_again_gets_no_further_than_its_first_frame() -> None:
    alice, bob = Session(True, ALICE), Session(False, BOB)
    first = alice.start()
    (answer,) = bob.receive(first)
    assert isinstance(answer, Send)
    alice.receive(answer.frame)
    record = [first, *alice.accept()]
    feed(bob, record[1:])
    assert broken(Session(False, BOB), *record[:2]).rule == "noise"


def test_an_initiator_refuses_a_responder_with_anothers_hello_in_silence() -> None:
    alice = Session(True, ALICE)
    noise = NoiseXX(False, MALLORY.noise, PROLOGUE)
    noise.read_message(alice.start()[HEADER_BYTES:])
    fault = broken(alice, pack_frame(HANDSHAKE, 1, noise.write_message(BOB.hello)))
    assert (fault.rule, fault.farewell) == ("hello.binding", None)


@pytest.mark.parametrize(
    ("hello", "rule"),
    [(b"", "handshake.size"), (b"x", "hello.form"), (bytes(17_000), "handshake.size"), (b"\x80", "hello.form"),
     (msgpack.packb({"v": 2}), "hello.version")],
)  # fmt: skip
def test_a_hello_of_another_form_is_refused_by_name(hello: bytes, rule: str) -> None:
    bob, third, _ = with_hello(hello)
    assert broken(bob, third).rule == rule


def test_a_node_does_not_talk_to_itself() -> None:
    first, second = Session(True, ALICE), Session(False, ALICE)
    (answer,) = second.receive(first.start())
    assert isinstance(answer, Send)
    assert broken(first, answer.frame).rule == "hello.self"
    bob, third, _ = with_hello(BOB.hello, BOB)
    assert broken(bob, third).rule == "hello.self"


def test_ones_own_messages_reflected_are_refused() -> None:
    alice = Session(True, ALICE)
    assert broken(alice, alice.start()).rule == "frame.number"
    first, second = opened()
    assert broken(second, *second.seal(b"mine")).rule in ("noise", "frame.number")
    assert broken(first, *first.seal(b"mine")).rule in ("noise", "frame.number")


# The handshake's frames


@pytest.mark.parametrize("size", [0, 1, 31, 33, 96, 65_535])
def test_a_first_message_of_another_length_is_refused(size: int) -> None:
    assert broken(Session(False, BOB), pack_frame(HANDSHAKE, 0, bytes(size))).rule == "handshake.size"


@pytest.mark.parametrize("size", [0, 1, 32, 96, 17_000, 65_535])
def test_a_second_or_third_message_of_a_wrong_length_is_refused(size: int) -> None:
    alice, bob = Session(True, ALICE), Session(False, BOB)
    bob.receive(alice.start())
    assert broken(alice, pack_frame(HANDSHAKE, 1, bytes(size))).rule in ("handshake.size", "noise")
    assert broken(bob, pack_frame(HANDSHAKE, 2, bytes(size))).rule in ("handshake.size", "noise")


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31)])
def test_an_ephemeral_key_of_low_order_is_refused(key: bytes) -> None:
    fault = broken(Session(False, BOB), pack_frame(HANDSHAKE, 0, key))
    assert (fault.rule, fault.farewell) == ("noise", None)


def test_a_handshake_frame_out_of_its_place_is_refused() -> None:
    alice, bob = Session(True, ALICE), Session(False, BOB)
    first = alice.start()
    bob.receive(first)
    assert broken(bob, first).rule == "frame.number"
    assert broken(alice, first).rule == "frame.number"
    one, two = opened()
    assert broken(two, first).rule == "frame.kind"
    assert broken(one, first).rule == "frame.kind"


def test_a_newer_version_is_named_at_the_first_frame() -> None:
    frame = b"\x02" + Session(True, ALICE).start()[1:]
    fault = broken(Session(False, BOB), frame)
    assert fault.rule == "frame.version" and "the peer speaks mesh protocol 2, this node 1" in str(fault)
    assert not begins_session(frame)


def test_a_changed_version_in_the_handshake_does_not_agree_with_the_prologue() -> None:
    old = NoiseXX(False, MALLORY.noise, b"weftos/mesh/0\n")
    alice = Session(True, ALICE)
    old.read_message(alice.start()[HEADER_BYTES:])
    assert broken(alice, pack_frame(HANDSHAKE, 1, old.write_message(MALLORY.hello))).rule == "noise"


def test_the_first_frame_is_known_by_its_form() -> None:
    first = Session(True, ALICE).start()
    assert begins_session(first)
    for other in (b"", first[:-1], first + b"x", RESET_FRAME, pack_frame(SEALED, 0, bytes(32)), bytes(42)):
        assert not begins_session(other)


# The frames of an open session

FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "doubled": lambda frames: [frames[0], frames[0]],
    "reordered": lambda frames: [frames[0], frames[2], frames[1]],
    "dropped": lambda frames: [frames[0], frames[2]],
    "truncated by one": lambda frames: [frames[0][:-1]],
    "truncated to its header": lambda frames: [frames[0][:HEADER_BYTES]],
    "truncated in its header": lambda frames: [frames[0][:5]],
    "lengthened": lambda frames: [frames[0] + b"x"],
    "oversized": lambda frames: [frames[0] + bytes(70_000)],
    "emptied": lambda frames: [b""],
    "of another number": lambda frames: [flipped(frames[0], 79)],
    "of number 2**64-1": lambda frames: [pack_frame(SEALED, 2**64 - 1, frames[0][HEADER_BYTES:])],
    "with a changed tag": lambda frames: [flipped(frames[0], 8 * len(frames[0]) - 1)],
    "joined": lambda frames: [frames[0] + frames[1]],
    "renumbered": lambda frames: [frames[0][:HEADER_BYTES] + frames[1][HEADER_BYTES:]],
    "reset": lambda frames: [RESET_FRAME],
    "noise": lambda frames: [pack_frame(SEALED, 1, bytes(100))],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_frame_is_a_broken_session_when_it_is(fault: str) -> None:
    alice, bob = opened()
    frames = [frame for number in range(3) for frame in alice.seal(b"message %d" % number)]
    with pytest.raises(SessionBroken):
        feed(bob, FAULTS[fault](frames))
    assert bob.state == "closed"


def test_a_reset_is_known_from_a_broken_frame_in_every_state() -> None:
    first, second = opened()
    for session in (first, second, met()[0], identified()[1], Session(False, BOB)):
        assert broken(session, RESET_FRAME).rule == "reset"


def test_frames_of_another_session_between_the_same_nodes_are_refused() -> None:
    old, _ = opened()
    (frame,) = old.seal(b"pay")
    _, bob = opened()
    assert broken(bob, frame).rule == "noise"


def test_a_session_that_broke_sends_nothing_more() -> None:
    alice, bob = opened()
    parts = alice.seal_parts(bytes(3 * PART_BYTES))
    next(parts)
    broken(alice, RESET_FRAME)
    with pytest.raises(SessionMisuse, match="cannot go on sending: the session is closed"):
        next(parts)
    with pytest.raises(SessionMisuse, match="cannot send"):
        alice.seal(b"x")
    assert bob.state == "open"


# Bombs


def test_a_message_without_end_is_cut_off_at_the_limit_and_its_memory_freed() -> None:
    budget = ReassemblyBudget()
    bob, rogue = let_in(budget)
    part = bytes([PART]) + bytes(PART_BYTES)
    most = 0
    with pytest.raises(SessionBroken, match=r"chunk\.total"):
        for _ in range(1000):
            assert bob.receive(rogue.sealed(part)) == []
            most = max(most, budget.held_bytes)
    assert most <= MAX_MESSAGE_BYTES and budget.held_bytes == 0


def test_many_unfinished_messages_of_many_peers_share_one_budget() -> None:
    budget = ReassemblyBudget(4 * PART_BYTES)
    pairs = [let_in(budget, identity(10 + number)) for number in range(6)]
    part = bytes([PART]) + bytes(PART_BYTES)
    rules = []
    for bob, rogue in pairs:
        try:
            bob.receive(rogue.sealed(part))
        except SessionBroken as fault:
            rules.append(fault.rule)
    assert rules == ["chunk.budget"] * 2 and budget.held_bytes == 4 * PART_BYTES
    for bob, _ in pairs:
        bob.abandon()
    assert budget.held_bytes == 0


@pytest.mark.parametrize(
    ("plaintext", "rule"),
    [(bytes([PART]), "chunk.size"), (bytes([PART]) + b"x" * 16, "chunk.size"), (bytes([END]) + b"x", "chunk.order"),
     (bytes([4]) + b"\xff\xff\xff\xff", "control"), (bytes([WHOLE + 200]), "control")],
)  # fmt: skip
def test_tiny_parts_ends_without_a_beginning_and_made_up_flags_are_refused(
    plaintext: bytes, rule: str
) -> None:
    bob, rogue = let_in()
    assert broken(bob, rogue.sealed(plaintext)).rule == rule


# The table


def frame_of(kind: int) -> bytes:
    return pack_frame(kind, 0, bytes(32))


@pytest.mark.parametrize("initiator", [True, False])
@pytest.mark.parametrize("state", ["new", "handshake", "deciding", "waiting", "open", "closed"])
@pytest.mark.parametrize("kind", [HANDSHAKE, SEALED])
def test_every_state_takes_the_kind_the_table_says_and_no_other(
    initiator: bool, state: str, kind: int
) -> None:
    session = Session(initiator, ALICE)
    session.state = state
    expected = STEPS.get((initiator, state))
    try:
        session.receive(frame_of(kind))
    except SessionBroken as fault:
        assert (fault.rule == "frame.kind") == (expected is None or expected[0] != kind)
    else:
        assert (initiator, state, kind) == (False, "new", HANDSHAKE)


def test_calls_out_of_their_order_are_refused() -> None:
    session = Session(False, BOB)
    with pytest.raises(SessionMisuse, match=r"start\(\) is the initiator's"):
        session.start()
    calls: tuple[Callable[[], object], ...] = (
        session.accept,
        lambda: session.refuse("no"),
        lambda: session.seal(b"x"),
    )
    for call in calls:
        with pytest.raises(SessionMisuse):
            call()
    _, bob, _ = identified()
    with pytest.raises(SessionMisuse, match="a token is the initiator's to show"):
        bob.accept(JoinToken(BOB.origin, "0" * 16, bytes(32)))
    alice, _ = opened()
    with pytest.raises(SessionMisuse):
        alice.start()


def test_an_identity_is_not_its_name() -> None:
    """Mallory calls himself bob: the name is a hint, the origin is what counts."""
    liar = Identity(MALLORY.keys, MALLORY.noise, "bob", MALLORY.boot)
    alice, _ = met(responder=liar)
    assert alice.peer is not None and (alice.peer.name, alice.peer.origin) == ("bob", MALLORY.origin)
