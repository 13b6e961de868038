"""Frames and chunks: sizes, bounds, and how much memory a peer can pin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.bounds import MAX_MESSAGE_BYTES, ReassemblyBudget
from mesh.errors import MessageTooLarge, SessionBroken
from mesh.links.frames import (  # fmt: skip
    END,
    HANDSHAKE,
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    PART,
    PART_BYTES,
    RESET,
    RESET_FRAME,
    SEALED,
    WHOLE,
    Reassembly,
    cut,
    pack_frame,
    unpack_frame,
)

FULL = bytes(PART_BYTES)


def joined(message: bytes) -> bytes:
    budget = ReassemblyBudget()
    reassembly = Reassembly(budget)
    found = []
    for plaintext in cut(message):
        if plaintext[0] == WHOLE:
            found.append(plaintext[1:])
        elif (whole := reassembly.add(plaintext[0], plaintext[1:])) is not None:
            found.append(whole)
    assert budget.held_bytes == 0
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("size", "frames"),
    [(0, 1), (PART_BYTES - 1, 1), (PART_BYTES, 1), (PART_BYTES + 1, 2), (2 * PART_BYTES, 2), (2 * PART_BYTES + 1, 3),
     (MAX_MESSAGE_BYTES, 257)],
)  # fmt: skip
def test_a_message_is_cut_and_joined_at_every_border(size: int, frames: int) -> None:
    message = (bytes(range(251)) * (size // 251 + 1))[:size]
    parts = list(cut(message))
    assert len(parts) == frames and max(map(len, parts)) <= PART_BYTES + 1
    assert joined(message) == message


def test_a_message_over_the_limit_is_refused_before_anything_is_cut() -> None:
    with pytest.raises(MessageTooLarge, match="message of 16777217 bytes, limit 16777216"):
        cut(bytes(MAX_MESSAGE_BYTES + 1))


def test_the_header_is_ten_bytes_of_version_kind_and_number() -> None:
    assert pack_frame(SEALED, 258, b"x") == b"\x01\x02\x00\x00\x00\x00\x00\x00\x01\x02x"
    assert unpack_frame(pack_frame(HANDSHAKE, 2, b"body")) == (HANDSHAKE, 2, b"body")
    assert unpack_frame(RESET_FRAME) == (RESET, 0, b"")


@pytest.mark.parametrize(
    ("frame", "rule"),
    [(b"", "frame.size"), (b"\x01\x02" + bytes(7), "frame.size"), (bytes(MAX_FRAME_BYTES + 1), "frame.size"),
     (b"\x02\x02" + bytes(8), "frame.version"), (b"\x00\x02" + bytes(8), "frame.version"),
     (b"\x01\x00" + bytes(8), "frame.kind"), (b"\x01\x04" + bytes(8), "frame.kind")],
)  # fmt: skip
def test_a_frame_of_another_form_is_refused_by_name(frame: bytes, rule: str) -> None:
    with pytest.raises(SessionBroken) as caught:
        unpack_frame(frame)
    assert caught.value.rule == rule


def test_a_newer_version_is_told_apart() -> None:
    with pytest.raises(
        SessionBroken, match="the peer speaks mesh protocol 2, this node 1: upgrade the older one"
    ):
        unpack_frame(b"\x02" + RESET_FRAME[1:])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_a_broken_session(data: bytes) -> None:
    try:
        kind, number, body = unpack_frame(data)
    except SessionBroken:
        return
    assert pack_frame(kind, number, body) == data and len(data) == HEADER_BYTES + len(body)


@pytest.mark.parametrize(
    ("flag", "data", "rule"),
    [(PART, b"", "chunk.size"), (PART, FULL[1:], "chunk.size"), (PART, FULL + b"x", "chunk.size"),
     (END, b"x", "chunk.order"), (END, b"", "chunk.order")],
)  # fmt: skip
def test_a_part_that_cut_would_not_make_is_refused(flag: int, data: bytes, rule: str) -> None:
    with pytest.raises(SessionBroken) as caught:
        Reassembly(ReassemblyBudget()).add(flag, data)
    assert caught.value.rule == rule


def test_an_empty_end_is_refused() -> None:
    reassembly = Reassembly(ReassemblyBudget())
    reassembly.add(PART, FULL)
    with pytest.raises(SessionBroken, match="empty end"):
        reassembly.add(END, b"")


def test_a_message_that_never_ends_is_cut_off_at_the_limit() -> None:
    budget = ReassemblyBudget()
    reassembly = Reassembly(budget)
    for _ in range(MAX_MESSAGE_BYTES // PART_BYTES):
        reassembly.add(PART, FULL)
    with pytest.raises(SessionBroken) as caught:
        reassembly.add(PART, FULL)
    assert caught.value.rule == "chunk.total" and budget.held_bytes <= MAX_MESSAGE_BYTES
    reassembly.drop()
    assert budget.held_bytes == 0


def test_one_byte_over_the_limit_is_refused_at_the_end() -> None:
    reassembly = Reassembly(ReassemblyBudget())
    for _ in range(MAX_MESSAGE_BYTES // PART_BYTES):
        reassembly.add(PART, FULL)
    rest = MAX_MESSAGE_BYTES % PART_BYTES
    with pytest.raises(SessionBroken) as caught:
        reassembly.add(END, bytes(rest + 1))
    assert caught.value.rule == "chunk.total"


def test_all_sessions_together_hold_no_more_than_the_budget() -> None:
    budget = ReassemblyBudget(10 * PART_BYTES)
    peers = [Reassembly(budget) for _ in range(50)]
    refused = 0
    for peer in peers:
        try:
            peer.add(PART, FULL)
        except SessionBroken as broken:
            assert broken.rule == "chunk.budget"
            refused += 1
    assert (refused, budget.held_bytes) == (40, 10 * PART_BYTES)
    assert peers[0].add(END, b"x") == FULL + b"x"
    assert budget.held_bytes == 9 * PART_BYTES
    peers[20].add(PART, FULL)
    for peer in peers:
        peer.drop()
    assert budget.held_bytes == 0
