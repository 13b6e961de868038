"""What a session promises, against random wires: the messages that were sent, in order, or a broken session."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.bounds import ReassemblyBudget
from mesh.errors import SessionBroken
from mesh.links.frames import PART_BYTES
from mesh.links.session import Received, Send, Session
from tests.mesh.twins.core_nodes import ALICE, BOB, feed, flipped, opened

SIZES = st.one_of(
    st.integers(0, 200),
    st.sampled_from(
        [PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 2 * PART_BYTES + 1, 150_000]
    ),
)
MESSAGES = st.lists(SIZES, min_size=1, max_size=6)


def content(number: int, size: int) -> bytes:
    return bytes([65 + number]) * size


@st.composite
def corrupted(draw: st.DrawFn, frames: list[bytes]) -> list[bytes]:
    """``frames`` as one fault on the wire leaves them; now and then none."""
    at = draw(st.integers(0, len(frames) - 1))
    frame = frames[at]
    fault = draw(st.sampled_from(["none", "flip", "drop", "double", "swap", "cut", "grow", "insert", "move"]))
    before, after = frames[:at], frames[at + 1 :]
    if fault == "flip":
        return [*before, flipped(frame, draw(st.integers(0, 8 * len(frame) - 1))), *after]
    if fault == "drop":
        return [*before, *after]
    if fault == "double":
        return [*before, frame, frame, *after]
    if fault == "swap" and after:
        return [*before, after[0], frame, *after[1:]]
    if fault == "cut":
        return [*before, frame[: draw(st.integers(0, len(frame) - 1))], *after]
    if fault == "grow":
        return [*before, frame + draw(st.binary(min_size=1, max_size=20)), *after]
    if fault == "insert":
        return [*before, draw(st.binary(max_size=80)), frame, *after]
    if fault == "move":
        rest = before + after
        to = draw(st.integers(0, len(rest)))
        return [*rest[:to], frame, *rest[to:]]
    return frames


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_one_fault_on_the_wire_loses_the_session_and_never_the_order(data: st.DataObject) -> None:
    budget = ReassemblyBudget()
    alice, bob = opened(budget=budget)
    messages = [content(number, size) for number, size in enumerate(data.draw(MESSAGES))]
    frames = [frame for message in messages for frame in alice.seal(message)]
    wire = data.draw(corrupted(frames))
    received: list[bytes] = []
    try:
        for frame in wire:
            for event in bob.receive(frame):
                assert isinstance(event, Received)
                received.append(event.data)
    except SessionBroken:
        assert wire != frames and budget.held_bytes == 0
    else:
        # What is cut off at the very end looks like silence: heartbeats notice it, not the session.
        assert wire == frames[: len(wire)]
    assert received == messages[: len(received)]
    assert wire != frames or received == messages


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.data())
def test_short_messages_may_come_between_the_parts_of_a_long_one(
    sizes: list[int], data: st.DataObject
) -> None:
    alice, bob = opened()
    expected, frames = [], []
    for number, size in enumerate(sizes):
        for part in alice.seal_parts(content(number, size)):
            frames.append(part)
            if data.draw(st.booleans()):
                frames += alice.seal(b"ping")
        expected.append(content(number, size))
    received = [event.data for event in feed(bob, frames) if isinstance(event, Received)]
    assert [message for message in received if message != b"ping"] == expected
    assert received.count(b"ping") == len(frames) - sum(max(1, -(-size // PART_BYTES)) for size in sizes)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_one_fault_in_the_handshake_opens_nothing(data: st.DataObject) -> None:
    alice, bob = Session(True, ALICE), Session(False, BOB)
    frames_changed = False

    def wire(frames: list[bytes]) -> list[bytes]:
        nonlocal frames_changed
        if frames_changed or not data.draw(st.booleans()):
            return frames
        changed = data.draw(corrupted(frames))
        frames_changed = changed != frames
        return changed

    try:
        answer = [event.frame for event in feed(bob, wire([alice.start()])) if isinstance(event, Send)]
        if not feed(alice, wire(answer) if answer else []) or not feed(bob, wire(alice.accept())):
            assert frames_changed
            return
        opened_events = feed(alice, wire(bob.accept()))
    except SessionBroken:
        assert frames_changed
        return
    assert (alice.state == "open") == bool(opened_events)
    assert frames_changed or opened_events


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=4), st.booleans(), st.integers(0, 2))
def test_garbage_at_any_time_is_a_broken_session(garbage: list[bytes], to_alice: bool, when: int) -> None:
    alice, bob = Session(True, ALICE), Session(False, BOB)
    if when:
        bob.receive(alice.start())
    if when == 2:
        alice, bob = opened()
    for data in garbage:
        try:
            assert (alice if to_alice else bob).receive(data) == []
        except SessionBroken:
            return
