from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.entry.frame import (
    NO_CHECKSUM,
    UNSIGNED_FORMAT,
    BadFrame,
    FormatError,
    Frame,
    SegmentHeader,
    decode_segment_header,
    encode_frame,
    encode_segment_header,
    find_frame,
    frame_checksum,
    read_frame,
    segment_group,
    segment_name,
)

HEADER = SegmentHeader(5, bytes(range(32)), "weftos-abc")


def sign(digest: bytes) -> bytes:
    return digest + digest


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1))
def test_a_frame_reads_back(payload: bytes, group: int) -> None:
    data, checksum = encode_frame(group, payload, NO_CHECKSUM, sign)
    digest = sha256(NO_CHECKSUM + data[:20] + payload).digest()
    read = Frame(group, payload, checksum, len(data), digest, sign(digest))
    assert read_frame(data, 0, group, NO_CHECKSUM) == read
    assert checksum == sha256(NO_CHECKSUM + data[:20] + payload + sign(digest)).digest()
    assert frame_checksum(NO_CHECKSUM, group, payload, sign(digest)) == checksum


def test_a_frame_of_format_1_has_no_signature() -> None:
    data, checksum = encode_frame(3, b"payload", NO_CHECKSUM, lambda digest: b"")
    read = read_frame(data, 0, 3, NO_CHECKSUM, UNSIGNED_FORMAT)
    assert read == Frame(3, b"payload", checksum, len(data), checksum, b"")
    assert isinstance(read_frame(data, 0, 3, NO_CHECKSUM), BadFrame)


def test_every_changed_bit_of_a_frame_is_noticed_and_never_taken_for_a_cut_off_write() -> None:
    data, _ = encode_frame(3, b"payload", NO_CHECKSUM, sign)
    for at in range(len(data) * 8):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        frame = read_frame(bytes(changed), 0, 3, NO_CHECKSUM)
        assert isinstance(frame, BadFrame) and frame.fault in ("header", "checksum"), at


def test_every_proper_beginning_of_a_frame_is_incomplete() -> None:
    data, _ = encode_frame(3, b"payload", NO_CHECKSUM, sign)
    for size in range(1, len(data)):
        frame = read_frame(data[:size], 0, 3, NO_CHECKSUM)
        assert isinstance(frame, BadFrame) and frame.fault == "incomplete", size


def test_a_frame_in_the_place_of_another_is_refused() -> None:
    data, _ = encode_frame(3, b"payload", NO_CHECKSUM, sign)
    moved = read_frame(data, 0, 4, NO_CHECKSUM)
    assert isinstance(moved, BadFrame) and moved.what == "group 3 stands where group 4 should"
    rechained = read_frame(data, 0, 3, bytes([1] * 32))
    assert isinstance(rechained, BadFrame) and rechained.fault == "checksum"


def test_a_later_frame_is_found_behind_damage_and_an_earlier_one_is_not() -> None:
    first, checksum = encode_frame(3, b"payload", NO_CHECKSUM, sign)
    second, _ = encode_frame(4, b"payload", checksum, sign)
    assert find_frame(b"WFRM" + first + second, 0, 3) == (4 + len(first), 4)
    assert find_frame(first + first, 0, 3) is None


def test_a_segment_header_reads_back_and_every_changed_byte_is_refused() -> None:
    data = encode_segment_header(HEADER)
    assert decode_segment_header(data + b"rest") == (HEADER, len(data))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x01
        with pytest.raises(FormatError):
            decode_segment_header(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(FormatError):
            decode_segment_header(data[:size])


def test_segment_names_are_those_of_their_first_group_and_nothing_else_is_one() -> None:
    assert segment_name(255) == "00000000000000ff.wj"
    assert segment_group("00000000000000ff.wj") == 255
    for name in ("next.new", "00000000000000FF.wj", "ff.wj", "00000000000000ff.wj~"):
        assert segment_group(name) is None
