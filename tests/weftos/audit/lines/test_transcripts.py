"""Conversations as lines: written of the ledger, and read from files that anybody may have made."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import weftos.audit.lines.transcripts
from kernel.model.titles import title_of
from tests.weftos.twins.audited_ledger import write_story
from weftos.audit.auditor import Auditor
from weftos.audit.lines.transcripts import Exchange, found_in, read_exchanges, transcripts
from weftos.errors import WeftosError


def lines(*events: object) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(event).encode() + b"\n" for event in events))


def said(turn: str, text: str, reply: str, status: str = "ok") -> Iterator[dict[str, str]]:
    yield {"event": "message", "turn": turn, "text": text}
    yield {"event": "reply", "turn": turn, "text": reply, "status": status}


def test_a_conversation_is_told_with_all_that_happened_in_it(tmp_path: Path) -> None:
    write_story(tmp_path / "data")
    (one,) = transcripts(Auditor(tmp_path / "data"), "ada", "main")
    head, *events = one.lines()
    assert (head["process"], head["session"], head["title"]) == ("/user/ada", "main", "")
    kinds = [event["event"] for event in events]
    assert kinds[0] == "message" and kinds[-1] == "reply" and "tool_call" in kinds and "tool_result" in kinds
    assert kinds.index("assistant") < kinds.index("tool_call") < kinds.index("tool_result")
    back = read_exchanges(lines(*one.lines()))
    assert back == [Exchange(events[0]["text"], events[-1]["text"])]
    assert transcripts(Auditor(tmp_path / "data"), "ada", "another") == []
    (found,) = found_in([one], [events[0]["text"].split()[0].upper()])
    assert (found["process"], found["event"]) == ("/user/ada", "message")
    assert not list(found_in([one], ["nobody", "said", "this"]))


def test_of_a_file_whole_exchanges_are_taken_and_no_deeds() -> None:
    events = [
        {"event": "session", "version": 1, "process": "/user/victim", "session": "private"},
        {"event": "thought", "turn": "t1", "stage": "execute", "summary": "x", "detail": {}},
        *said("t1", "one", "1"),
        {"event": "tool_result", "turn": "t1", "tool": "pay", "status": "ok", "text": "paid"},
        *said("t2", "two", "no", status="error"),
        {"event": "message", "turn": "t3", "text": "unanswered"},
        {"event": "of a later version", "turn": 7},
        *said("t4", "four", "4"),
    ]
    assert read_exchanges(lines(*events)) == [Exchange("one", "1"), Exchange("four", "4")]


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b'{"event":"message","turn":"t1","text":"a"}\n{broken\n', "line 2: it is no JSON"),
        (b'["event"]\n', "line 1: it is no object with an event"),
        (b'{"event":7}\n', "line 1: it is no object"),
        (b'{"event":"message","turn":"t1","text":7}\n', "line 1: text of a 'message' must be text"),
        (b'{"event":"message","turn":["t1"],"text":"a"}\n', "line 1: turn of a 'message' must be text"),
        (
            b'{"event":"reply","status":"ok","turn":[1],"text":"a"}\n',
            "line 1: turn of a 'reply' must be text",
        ),
        (b'{"event":"session","version":2}\n', "line 1: it is of version 2"),
        (b"\xff\xfe\n", "line 1: it is no JSON"),
        (b"[" * 100_000 + b"\n", "line 1: it is no JSON"),
        (b"x" * (2**20 + 1), "line 1: it is longer than 1048576 bytes"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_nothing_is_taken(file: bytes, words: str) -> None:
    with pytest.raises(WeftosError, match=words):
        read_exchanges(io.BytesIO(file))


def test_a_line_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        asked = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            view = memoryview(buffer)  # type: ignore[arg-type]
            view[:] = b"x" * len(view)
            self.asked += len(view)
            return len(view)

    endless = Endless()
    with pytest.raises(WeftosError, match="line 1: it is longer"):
        read_exchanges(io.BufferedReader(endless))
    assert endless.asked < 4 * 2**20
    monkeypatch.setattr(weftos.audit.lines.transcripts, "FILE_BYTES", 100)
    with pytest.raises(WeftosError, match="the file is longer than 100 bytes"):
        read_exchanges(lines(*said("t1", "a" * 60, "b")))


@pytest.mark.parametrize(
    ("first", "exchanges", "title"),
    [
        ("What is 17*23?", 2, ""),
        ("What is 17*23?", 3, "What is 17*23"),
        ("one two three four five six seven eight nine", 3, "one two three four five six seven eight..."),
        ("x" * 500, 9, "x" * 60),
        ("  \n", 3, ""),
    ],
)
def test_a_title_is_of_the_first_words_once_there_are_three_answers(
    first: str, exchanges: int, title: str
) -> None:
    assert title_of(first, exchanges) == title
