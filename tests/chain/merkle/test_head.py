"""A head has one text, and only that text is read as it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import HeadError
from chain.merkle.head import MAX_SIZE, TreeHead, parse_head

ROOT = bytes(range(32))
ROOT_TEXT = b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def test_the_text_of_a_head_is_a_checkpoint() -> None:
    assert TreeHead("some.log", 12, ROOT).text() == b"some.log\n12\n" + ROOT_TEXT + b"\n"


def test_a_published_checkpoint_is_read() -> None:
    text = b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    head = parse_head(text)
    assert (head.origin, head.size, head.root.hex()[:8]) == (
        "example.com/behind-the-sofa",
        20852163,
        "0ac5186a",
    )
    assert head.text() == text


@given(
    st.from_regex(r"[!-*,-~]{1,256}", fullmatch=True),
    st.integers(0, MAX_SIZE),
    st.binary(min_size=32, max_size=32),
)
def test_a_head_comes_back(origin: str, size: int, root: bytes) -> None:
    head = TreeHead(origin, size, root)
    assert parse_head(head.text()) == head


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "0 lines, must have 3"),
        (b"some.log\n12\n" + ROOT_TEXT, "2 lines, must have 3"),
        (b"some.log\n12\n" + ROOT_TEXT + b"\nextension\n", "4 lines, must have 3"),
        (b"some.log\n12\n" + ROOT_TEXT + b"\n\n", "4 lines, must have 3"),
        (b"\n12\n" + ROOT_TEXT + b"\n", "origin ''"),
        (b"some log\n12\n" + ROOT_TEXT + b"\n", "origin 'some log'"),
        (b"some+log\n12\n" + ROOT_TEXT + b"\n", "origin"),
        (b"caf\xc3\xa9\n12\n" + ROOT_TEXT + b"\n", "not ASCII at byte 3"),
        (b"some.log\n\n" + ROOT_TEXT + b"\n", "size ''"),
        (b"some.log\n012\n" + ROOT_TEXT + b"\n", "size '012'"),
        (b"some.log\n+12\n" + ROOT_TEXT + b"\n", "size"),
        (b"some.log\n-1\n" + ROOT_TEXT + b"\n", "size"),
        (b"some.log\n1_2\n" + ROOT_TEXT + b"\n", "size"),
        (b"some.log\n12 \n" + ROOT_TEXT + b"\n", "size"),
        (b"some.log\n9223372036854775808\n" + ROOT_TEXT + b"\n", "up to 9223372036854775807"),
        (b"some.log\n12\n\n", "root"),
        (b"some.log\n12\n" + ROOT_TEXT[:-1] + b"\n", "root is not base64"),
        (b"some.log\n12\nAAEC\n", "not 32 bytes"),
        (b"some.log\n12\n" + ROOT_TEXT.replace(b"h8=", b"h9=") + b"\n", "canonical base64"),
        (b"some.log\r\n12\r\n" + ROOT_TEXT + b"\r\n", "origin"),
    ],
)
def test_other_texts_are_refused(text: bytes, words: str) -> None:
    with pytest.raises(HeadError, match=words):
        parse_head(text)
