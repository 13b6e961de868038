from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.entry.record import (
    HeadRecord,
    RawEntry,
    RecordError,
    StateRecord,
    Unreadable,
    decode_payload,
    encode_entry_record,
    encode_head_record,
    encode_payload,
    encode_state_record,
    salvage_payload,
)

SALT = bytes(32)


@given(st.binary(max_size=70_000), st.binary(max_size=70_000))
def test_an_entry_record_is_the_msgpack_that_a_library_writes(leaf: bytes, body: bytes) -> None:
    assert encode_entry_record(leaf, SALT, body) == msgpack.packb([1, leaf, SALT, body])


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 70_000])
def test_a_payload_of_any_number_of_records_reads_back(count: int) -> None:
    payload = encode_payload([encode_state_record("t", str(at), None) for at in range(count)], b"note")
    records, note = decode_payload(payload)
    assert records == [StateRecord("t", str(at), None) for at in range(count)]
    assert note == b"note"


def test_all_kinds_of_records_read_back_whole_and_one_by_one() -> None:
    encoded = [
        encode_entry_record(b"leaf", SALT, b"body"),
        msgpack.packb([1, b"leaf", None, None]),
        encode_state_record("mail", "m1", b"value"),
        encode_head_record(b"a note", True),
    ]
    wanted = [
        RawEntry(b"leaf", SALT, b"body"),
        RawEntry(b"leaf", None, None),
        StateRecord("mail", "m1", b"value"),
        HeadRecord(b"a note", True),
    ]
    payload = encode_payload(encoded, None)
    assert decode_payload(payload) == (wanted, None)
    assert salvage_payload(payload) == [*wanted, None]


@pytest.mark.parametrize(
    "record",
    [[1, b"leaf", b"short", b""], [1, b"leaf", None, b""], [True, b"leaf", SALT, b""], [2, b"t", "k", None],
     [2, "t", "k", 1], [3, "note", True], [3, b"note", 1], [4], [], None, {"a": 1}],
)  # fmt: skip
def test_anything_else_is_refused(record: object) -> None:
    with pytest.raises(RecordError, match="no record of the journal"):
        decode_payload(msgpack.packb([record, None]))


def test_around_any_damage_every_other_record_is_salvaged() -> None:
    encoded = [encode_state_record("t", str(at), b"v") for at in range(20)]
    encoded[1::2] = [encode_entry_record(bytes([at]) * 40, SALT, b"body of some length") for at in range(10)]
    payload = encode_payload(encoded, b"the note")
    whole = salvage_payload(payload)
    start = 5
    for index, record in enumerate(encoded):
        for at in range(start, start + len(record)):
            for mask in (0x01, 0x10, 0x80):
                changed = bytearray(payload)
                changed[at] ^= mask
                items = salvage_payload(bytes(changed))
                kept = [item for item in items if item in whole]
                assert len(kept) >= len(whole) - 1 - (index == len(encoded) - 1), (index, at, mask)
                assert whole[:index] == items[:index]
        start += len(record)
    for at in range(5):
        assert salvage_payload(payload[:at] + b"\x00" + payload[at + 1 :]) == whole


def test_a_payload_that_is_garbage_gives_nothing_to_read() -> None:
    assert [type(item) for item in salvage_payload(b"\xc1" * 50)] == [Unreadable]
    with pytest.raises(RecordError, match="not msgpack"):
        decode_payload(b"\xc1" * 50)
