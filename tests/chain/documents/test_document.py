from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.vectors.document import (
    MAX_TEXT_BYTES,
    Document,
    DocumentError,
    check_document,
    decode_document,
    encode_document,
    may_read,
    readable_owners,
)

DOCUMENT = Document(
    "d7", "/user/a", "own", "Ferry", "It leaves at nine.", 7, 1_700_000_000_000_000, ("sea", "time")
)


def test_what_was_encoded_is_decoded() -> None:
    assert decode_document("d7", encode_document(DOCUMENT)) == DOCUMENT


def test_title_tags_and_text_are_searched_and_hashed() -> None:
    assert DOCUMENT.searched == "Ferry\nsea time\nIt leaves at nine."
    assert replace(DOCUMENT, title="", tags=()).searched == "It leaves at nine."
    assert DOCUMENT.text_hash == replace(DOCUMENT, owner="/user/b", seq=9).text_hash
    assert len({DOCUMENT.text_hash, replace(DOCUMENT, title="Boat").text_hash,
                replace(DOCUMENT, tags=()).text_hash}) == 3  # fmt: skip


def test_a_document_of_exactly_the_limit_passes() -> None:
    check_document("", "x" * MAX_TEXT_BYTES, "own")
    check_document("", "ü" * (MAX_TEXT_BYTES // 2), "shared")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text": "x" * (MAX_TEXT_BYTES + 1)}, "a document of 262145 bytes, limit 262144: split it"),
        ({"text": "ü" * (MAX_TEXT_BYTES // 2 + 1)}, "a document of 262146 bytes, limit 262144"),
        ({"text": "x" * 50_000_000}, "a document of 50000000 bytes, limit 262144"),
        ({"text": " \n\t"}, "a document without text"),
        ({"text": "half \ud800"}, "the text holds half a character pair"),
        ({"title": "t" * 257}, "a title of 257 characters, limit 256 bytes"),
        ({"title": "\udfff"}, "the title holds half a character pair"),
        ({"scope": "everyone"}, "scope is 'everyone', must be own or shared"),
        ({"tags": ("x",) * 17}, "at most 16 tags"),
        ({"tags": ("x" * 65,)}, "at most 16 tags of 64 characters"),
    ],
)
def test_what_may_not_become_a_document_is_refused_in_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        encode_document(replace(DOCUMENT, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{"id": "d8"}, {"seq": -1}, {"seq": True}, {"seq": 2**63}, {"time_us": "1"}, {"text": b"bytes"}, {"tags": "sea"},
     {"tags": [1]}, {"owner": None}, {"owner": "/" * 1201}],
)  # fmt: skip
def test_a_record_of_another_form_is_refused(changes: dict[str, object]) -> None:
    fields = {**msgpack.unpackb(encode_document(DOCUMENT)), **changes}
    with pytest.raises(DocumentError, match="document d7"):
        decode_document("d7", msgpack.packb(fields))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_document_or_refused(value: bytes) -> None:
    with pytest.raises(DocumentError):
        decode_document("d7", value)


def test_a_process_reads_what_is_its_own_or_belongs_above_it() -> None:
    assert readable_owners("/user/a/b") == {"/", "/user", "/user/a", "/user/a/b"}
    assert readable_owners("/") == {"/"}
    assert may_read("/user/a", "own", "/user/a/b")
    assert not may_read("/user/a/b", "own", "/user/a")
    assert not may_read("/user/a", "own", "/user/ab")
    assert may_read("/user/z", "shared", "/user/a")
    assert may_read("/user/z", "own", None)
