"""What may be said of how a message came, each refusal in words, and the record that it is kept as."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.abi import Attachment, Inbound, MessageOptions
from kernel.errors import Invalid
from kernel.model.inbound import MAX_NAME_BYTES, inbound_of, inbound_text, read_inbound, session_key

HASH = "a" * 64
FILE = {"name": "cat.png", "type": "image/png", "size": 3, "sha256": HASH}
WHOLE = Inbound(
    "telegram",
    "-100:7@x",
    "Боб",
    "<a+b=c@mail>",
    MessageOptions("openai", "gpt", 0.0, 0.5, 40, 9, {"type": "object"}),
    (Attachment("cat.png", "image/png", 3, HASH), Attachment("a b.txt", "text/plain", 0, HASH, "x")),
)


def said(**more: Any) -> Inbound | None:
    given: dict[str, Any] = {
        "channel": "telegram",
        "chat": "",
        "user": "",
        "ident": "",
        "options": {},
        **more,
    }
    return inbound_of(**{"attachments": (), **given})


def test_nothing_said_is_nothing() -> None:
    assert said(channel="") is None
    assert inbound_text(None) == ""
    assert read_inbound("") is None


def test_all_that_is_said_comes_back_from_its_record() -> None:
    files = ({**FILE}, {**FILE, "name": "a b.txt", "type": "text/plain", "size": 0, "text": "x"})
    options = {
        "provider": "openai", "model": "gpt", "temperature": 0.0, "top_p": 0.5, "top_k": 40, "max_tokens": 9,
        "output_schema": {"type": "object"},
    }  # fmt: skip
    made = said(chat=WHOLE.chat, user=WHOLE.user, ident=WHOLE.id, options=options, attachments=files)
    assert made == WHOLE
    assert read_inbound(inbound_text(WHOLE)) == WHOLE
    assert session_key(WHOLE) == "telegram:-100:7@x"


def test_a_record_says_only_what_was_said() -> None:
    assert inbound_text(Inbound("cli", options=MessageOptions(temperature=0))) == (
        '{"channel":"cli","options":{"temperature":0}}'
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"channel": "../x"}, "channel '../x' is not allowed"),
        ({"channel": "Telegram"}, "channel 'Telegram' is not allowed"),
        ({"channel": "t" * 33}, "at most 32 small letters"),
        ({"channel": "", "chat": "1", "user": "u"}, "chat and user without a channel"),
        ({"chat": "../../etc"}, "chat '../../etc' is not allowed"),
        ({"chat": ".."}, "chat '..' is not allowed: it names a directory"),
        ({"chat": "a\0b"}, r"chat 'a\\x00b' is not allowed"),
        ({"chat": "a\nb"}, "is not allowed"),
        ({"chat": "a b"}, "no spaces"),
        ({"chat": "\u202egnp"}, "is not allowed"),
        ({"chat": "\ud800"}, "is not allowed"),
        ({"user": "x" * 300}, f"user has 300 bytes, limit {MAX_NAME_BYTES}"),
        ({"ident": "й" * 65}, f"id has 130 bytes, limit {MAX_NAME_BYTES}"),
        ({"options": {"tools": ["x"]}}, "options: no option 'tools'; there are provider, model"),
        ({"options": {"temperature": 3}}, "options: temperature must be a number from 0 to 2, not 3"),
        ({"options": {"temperature": True}}, "temperature must be"),
        ({"options": {"temperature": float("nan")}}, "temperature must be"),
        ({"options": {"top_k": 10**500}}, "top_k must be a whole number from 1 to 100000, not a very large"),
        ({"options": {"model": ""}}, "model must be a name"),
        ({"options": {"output_schema": "x"}}, "output_schema must be a JSON Schema"),
        ({"options": {"output_schema": {"x": float("inf")}}}, "not expressible as JSON"),
        ({"attachments": [FILE] * 17}, "17 attachments, at most 16"),
        ({"attachments": [{**FILE, "name": "../x"}]}, "attachment 1: name '../x' is no name of a file"),
        ({"attachments": [{**FILE, "name": ".."}]}, "attachment 1: name '..' is that of a directory"),
        ({"attachments": [{**FILE, "type": "png"}]}, "type 'png' is no media type"),
        ({"attachments": [{**FILE, "size": -1}]}, "size -1 is no number of bytes"),
        ({"attachments": [{**FILE, "sha256": "A" * 64}]}, "sha256 must be 64 hex digits"),
        ({"attachments": [{"name": "x"}]}, "attachment 1: not a map with exactly the fields"),
        ({"attachments": [{**FILE, "size": "3"}]}, "attachment 1: size is str, not int"),
        ({"attachments": [{**FILE, "text": "x" * 270_000}]}, "limit 262144: shorten the texts"),
    ],
)
def test_each_thing_that_cannot_be_is_refused_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        said(**given)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        said(channel="A", chat="/", options={"x": 1, "top_p": 0})
    assert str(refused.value).count(";") >= 3


@pytest.mark.parametrize("text", ["[]", "{", '{"channel":1}', '{"other":"x"}', '{"options":{"x":1}}', '"x"'])
def test_what_no_record_says_is_not_read(text: str) -> None:
    with pytest.raises(Invalid, match=r"how a message came here is not readable|it has a field"):
        read_inbound(text)
