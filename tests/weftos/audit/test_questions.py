"""Requests put together from ledgers that are whole, erased, cut, of older builds, or lie."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chain.entry.entry import Entry, encode_body
from chain.entry.record import EntryRecord
from kernel.cell.conversation import digest_of, list_hash
from kernel.values import canonical, sha256_hex
from weftos.audit import questions
from weftos.audit.questions import Questions, Unreadable
from weftos.audit.turn import turn_story

ASKED = {"provider": "", "model": "m", "tools": ["pay"]}
ONE, TWO, THREE = ({"role": "user", "content": text} for text in ("one", "two", "three"))


def record(seq: int, body: dict[str, Any] | None, kind: str = "model.asked") -> EntryRecord:
    entry = Entry(seq, 0, "n", 1, 0, kind, "t1", bytes(16), -1, bytes(32), bytes(32))
    return EntryRecord(entry, b"", b"", b"", None if body is None else encode_body(body), 0, "", 0)


def asked(
    messages: list[Any], new: list[Any], base: int = -1, pieces: Any = None, **more: Any
) -> dict[str, Any]:
    """A body as this build writes it."""
    hashed = list_hash(b"".join(digest_of(canonical(message)) for message in messages))
    return {
        "asked": canonical({**ASKED, "messages": len(messages)}),
        "request_hash": sha256_hex(canonical({"messages": hashed, **ASKED})),
        "messages_hash": hashed,
        "prefix_of": base,
        "prefix_count": len(messages) - len(new),
        "pieces": json.dumps([len(new)] if pieces is None else pieces),
        "new": canonical(new),
        "truncated": False,
        **more,
    }


def former(messages: list[Any], new: list[Any], base: int = -1, **more: Any) -> dict[str, Any]:
    """One as builds before conversations by reference wrote it."""
    body = asked(messages, new, base) | {
        "request_hash": sha256_hex(canonical({"messages": messages, **ASKED}))
    }
    del body["pieces"], body["messages_hash"]
    return body | more


def test_a_request_is_found_by_following_its_entries_back() -> None:
    ledger = {
        1: record(1, former([ONE], [ONE])),
        4: record(4, former([ONE, TWO], [TWO], 1)),
        9: record(9, asked([TWO, THREE, ONE], [THREE], 4, [[1, 2], 1, [0, 1]])),
    }
    assert Questions(ledger.__getitem__).read(ledger[9]) == [TWO, THREE, ONE]
    reader = Questions()
    assert [reader.read(one) for one in ledger.values()] == [[ONE], [ONE, TWO], [TWO, THREE, ONE]]


GAVE = {"role": "tool", "content": "what a tool ga"}


def gave(told: list[Any], seq: int = 4, **more: Any) -> dict[str, Any]:
    """A question that names the result of entry ``seq``."""
    return asked([GAVE], [{**GAVE, "content": ""}], results=json.dumps(told), **more)


def test_what_a_tool_gave_is_found_in_its_outcome() -> None:
    outcome = record(4, {"result": "what a tool gave, and more"}, "tool.outcome")
    one = record(9, gave([[0, 4, 14]]))
    reader = Questions({4: outcome}.__getitem__)
    assert (reader.new(one), reader.read(one)) == ([GAVE], [GAVE])


class Ledger:
    """As much of an auditor as a turn's story reads."""

    def __init__(self, *bodies: tuple[str, dict[str, Any]]) -> None:
        self._records = [record(seq, body, kind) for seq, (kind, body) in enumerate(bodies)]
        self.looked_for: list[int] = []

    def records(self, start: int = 0) -> list[EntryRecord]:
        return self._records[start:]

    def entry(self, seq: int) -> EntryRecord:
        self.looked_for.append(seq)
        return self._records[seq]

    def causes(self, seq: int) -> list[int]:
        return [seq]

    def entries(self, seqs: list[int]) -> list[EntryRecord]:
        return [self._records[seq] for seq in seqs]


OUTCOME = {
    "turn": "t1",
    "ordinal": "0.0",
    "status": "ok",
    "result": "what a tool gave",
    "result_hash": "",
    "truncated": False,
    "attempt": 1,
}


def of_turn(ordinal: str, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "turn": "t1", "ordinal": ordinal, "provider": "", "model": "m"}


def test_a_turn_tells_what_its_model_heard_of_tools() -> None:
    question, lost = of_turn("1.0", gave([[0, 1, 14]])), of_turn("2.0", gave([[0, 0, 14]]))
    ledger: Any = Ledger(
        ("turn.started", {"turn": "t1"}),
        ("tool.outcome", OUTCOME),
        ("model.asked", question),
        ("model.asked", lost),
    )
    _, heard, not_found = turn_story(ledger, "t1")["steps"]
    assert (heard["new_messages"], heard["request"]) == ([GAVE], {"messages": 1, "fault": ""})
    assert not_found["new_messages"] == [{**GAVE, "content": ""}]
    assert not_found["request"] == {"messages": None, "fault": "entry 0 is no outcome of a tool"}
    assert 1 not in ledger.looked_for  # it was read on the way


def test_what_a_tool_gave_is_told_also_when_an_earlier_question_is_not_to_be_had() -> None:
    cut = of_turn("1.0", asked([ONE], [ONE], truncated=True))
    named = {"results": json.dumps([[0, 1, 14]])}
    question = of_turn("2.0", asked([ONE, GAVE], [{**GAVE, "content": ""}], 2, [[0, 1], 1], **named))
    ledger: Any = Ledger(
        ("turn.started", {"turn": "t1"}),
        ("tool.outcome", OUTCOME),
        ("model.asked", cut),
        ("model.asked", question),
    )
    heard = turn_story(ledger, "t1")["steps"][-1]
    assert heard["new_messages"] == [GAVE]
    assert "entry 2 does not hold all that it says" in heard["request"]["fault"]


@pytest.mark.parametrize(
    ("told", "outcome", "words"),
    [
        ([[0, 4, 14]], None, "entry 4 is erased"),
        ([[0, 9, 14]], {"result": "what a tool gave"}, "entry 9, of whose result entry 9 tells, is not here"),
        ([[0, -1, 14]], {"result": "what a tool gave"}, "entry -1, of whose result entry 9 tells, is not here"),
        ([[0, 4, 14]], {"result": "another"}, "its messages are not those that were hashed"),
        ([[0, 4, 13]], {"result": "what a tool gave"}, "its messages are not those that were hashed"),
        ([[1, 4, 14]], {"result": "what a tool gave"}, "does not say what was asked"),
        ([[0, 4]], {"result": "what a tool gave"}, "does not say what was asked"),
        ([[0, "4", 14]], {"result": "what a tool gave"}, "entry 4, of whose result entry 9 tells, is not here"),
        ([[0, 4, "14"]], {"result": "what a tool gave"}, "does not say what was asked"),
        ([[0, 2.5, 14]], {"result": "what a tool gave"}, "entry 2.5, of whose result entry 9 tells, is not here"),
        ([[0, 4, 14], [0, 4, 14]], {"result": "what a tool gave"}, "entry 9 names a result twice"),
    ],
)  # fmt: skip
def test_a_result_that_cannot_be_shown_is_said_with_its_reason(told: Any, outcome: Any, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        Questions(lambda seq: record(seq, outcome, "tool.outcome")).read(record(9, gave(told)))


def test_no_more_is_put_together_of_results_than_any_node_takes() -> None:
    one = record(99, gave([[0, at, 10**6] for at in range(68)], 99))
    with pytest.raises(Unreadable, match="the results are more than any node takes"):
        Questions(lambda seq: record(seq, {"result": "x" * 10**6}, "tool.outcome")).read(one)


def test_a_result_of_what_is_no_tool_is_none() -> None:
    with pytest.raises(Unreadable, match="entry 4 is no outcome of a tool"):
        Questions(lambda seq: record(seq, {"result": GAVE["content"]})).read(record(9, gave([[0, 4, 14]])))


@pytest.mark.parametrize(
    ("body", "base", "words"),
    [
        (None, None, "entry 9 is erased"),
        (asked([ONE, TWO], [TWO], 4, [[0, 1], 1]), None, "entry 4 is erased"),
        (asked([ONE, TWO], [TWO], 9, [[0, 1], 1]), None, "entry 9, in terms of which entry 9 is told"),
        (asked([ONE], [ONE], truncated=True), None, "does not hold all that it says"),
        (asked([ONE, TWO], [TWO], 4, [[0, 2], 1]), asked([ONE], [ONE]), "is no part of 1 messages"),
        (asked([ONE, TWO], [TWO], 4, [[0, 1]]), asked([ONE], [ONE]), "take 0 new messages of 1"),
        (asked([ONE, TWO], [THREE], 4, [[0, 1], 1]), asked([ONE], [ONE]), "its messages are not those that were"),
        (asked([ONE], [ONE], request_hash="00"), None, "its request is not the one that was hashed"),
        (former([ONE], [TWO]), None, "its request is not the one that was hashed"),
        (former([ONE], [ONE], asked="cut"), None, "does not hold what its hash is of"),
        ({**asked([ONE], [ONE]), "new": "[nonsense"}, None, "does not say what was asked"),
        ({**asked([ONE], [ONE]), "new": "1"}, None, "does not say what was asked"),
        ({**asked([ONE], [ONE]), "new": "[" * 100_000}, None, "does not say what was asked"),
        ({**asked([ONE], [ONE]), "pieces": "[" * 100_000}, None, "does not say what was asked"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_said_with_its_reason(body: Any, base: Any, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        Questions(lambda seq: record(seq, base)).read(record(9, body))


def test_a_request_with_too_many_tools_to_be_held_is_known_by_its_messages() -> None:
    assert Questions().read(record(9, asked([ONE], [ONE], asked='{"model":"m'))) == [ONE]


def test_another_entry_is_no_question() -> None:
    with pytest.raises(Unreadable, match="entry 9 is no question"):
        Questions().read(record(9, {}, "turn.ended"))


def test_more_messages_than_any_node_takes_are_not_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MOST_MESSAGES", 3)
    body = asked([ONE] * 4, [], 4, [[0, 1]] * 4)
    with pytest.raises(Unreadable, match="4 messages are more than any node takes"):
        Questions(lambda seq: record(seq, asked([ONE], [ONE]))).read(record(9, body))


@pytest.mark.parametrize("without", [(), ("messages_hash",)], ids=["as told", "as an older build hashed it"])
def test_a_long_message_that_is_named_again_and_again_is_not_put_together(without: tuple[str, ...]) -> None:
    long = {"content": "x" * 1_000_000}
    body = {key: value for key, value in asked([long], [], 4, [[0, 1]] * 1000).items() if key not in without}
    with pytest.raises(Unreadable, match="1000014000 characters are more than any node takes"):
        Questions(lambda seq: record(seq, asked([long], [long]))).read(record(9, body))


def test_a_turn_tells_which_files_it_was_given_and_not_their_text() -> None:
    files = json.dumps([["SOUL.md", "5e", ""], ["USER.md", "57", "cut"]])
    given = {"turn": "t1", "ordinal": "0.0", "files": files, "new": json.dumps({"5e": "be kind"})}
    ledger: Any = Ledger(("turn.started", {"turn": "t1"}), ("sys.files", given))
    [step] = turn_story(ledger, "t1")["steps"]
    assert (step["step"], step["op"], step["value"]) == ("value", "files", "SOUL.md, USER.md")
    assert "be kind" not in json.dumps(step)
