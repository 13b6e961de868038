"""What a question to a model is known by when it is asked again, whom it goes to, and which results it brings."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from kernel.cell.protocol import ModelOptions, ModelQuestion
from kernel.errors import Invalid
from kernel.model.machines.call_states import CallState
from kernel.shapes import read, told
from kernel.slices.sessions import Session
from kernel.slices.turns import Call
from kernel.syscall.models.model_question import (
    MODEL_CHARS,
    MOST_COMPARED,
    NAMED_CHARS,
    PROVIDER_CHARS,
    Base,
    Question,
    Resolved,
    asked_names,
    read_question,
    refused_question,
    resolve,
)
from kernel.values import canonical
from tests.kernel.syscall.models.test_model_question import asked, known_of

LONG = "x" * NAMED_CHARS


def hex_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def question(messages: list[Any], **more: Any) -> Question:
    return asked({"messages": messages, "tools": [], "provider": "p", "model": "m", **more}, Base())


def tool(content: Any, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "content": content}


def ended(seq: int, result: str | None) -> Call:
    outcome = None if result is None else {"status": "ok", "result": result}
    return Call("0.0", "h", "tool", 1, "pay", state=CallState.ENDED, outcome=outcome, outcome_seq=seq)


# -- what it is known by ---------------------------------------------------------------------------------------------


def test_a_question_is_known_by_all_that_was_asked_and_by_nothing_else() -> None:
    messages = [{"role": "user", "content": "?"}]
    one = question(messages, tools=["a"])
    rest = {"provider": "p", "model": "m", "tools": ["a"]}
    text = canonical({"messages": known_of(messages).hash, **rest})
    assert (one.call_hash, one.request_hash) == (hex_of("model\0" + text), hex_of(text))
    assert (one.asked.messages, one.said, one.whole, one.fault) == (
        tuple(messages),
        {0: messages[0]},
        True,
        "",
    )
    assert one.text(0) == canonical(messages[0])
    assert '"messages":1' in one.told and '"tools":["a"]' in one.told
    others = [
        question([*messages, tool("")]),
        question(messages, tools=["b"]),
        question(messages, tools=["a"], model="n"),
    ]
    assert len({other.call_hash for other in (one, *others)}) == 4


def test_the_options_of_a_question_are_of_what_it_is_known_by() -> None:
    messages = [{"role": "user", "content": "?"}]
    rest = {"provider": "p", "model": "m", "tools": []}
    text = canonical({"messages": known_of(messages).hash, **rest, "options": {"top_k": 4}})
    assert question(messages, options=told(ModelOptions(top_k=4))).request_hash == hex_of(text)
    assert question(messages, options=told(ModelOptions())).request_hash == question(messages).request_hash


def test_a_question_that_is_refused_is_known_by_why() -> None:
    one = refused_question("w")
    hashed = hex_of("model\0\0w")
    assert one == Question(ModelQuestion(()), hashed, hashed, fault="w")


def test_a_question_has_as_many_messages_as_the_limit_says_and_no_more() -> None:
    two = read(
        ModelQuestion,
        {
            "terms": None,
            "options": None,
            "sections": [],
            "messages": [{}, {}],
            "tools": [],
            "provider": "",
            "model": "",
        },
    )
    with pytest.raises(Invalid, match=r"^model request of 2 messages, limit 1$"):
        next(read_question(two, Base(), 1, 10**6))
    with pytest.raises(StopIteration):
        next(read_question(two, Base(), 2, 10**6))


# -- whom it goes to -------------------------------------------------------------------------------------------------


def test_only_tools_that_are_held_and_there_are_offered_each_once_and_in_their_order() -> None:
    one = question([], tools=["c", "a", "b", "c", "d"])
    resolved = resolve(one, {"a", "c", "d"}, {"a", "b", "c"}, ("p", "m"))
    assert resolved == Resolved("p", "m", ["c", "a"])
    assert resolved.name == "p/m (c, a)"


def test_the_names_that_were_asked_for_are_bounded() -> None:
    one = question([], provider="p" * (PROVIDER_CHARS + 1), model="m" * (MODEL_CHARS + 1))
    assert asked_names(one) == ("p" * PROVIDER_CHARS, "m" * MODEL_CHARS)


# -- the results that it brings --------------------------------------------------------------------------------------


def test_a_long_result_that_stands_in_the_record_is_named_by_its_entry() -> None:
    one = question([tool(LONG + "a"), tool(LONG + "b"), tool(LONG + "c")])
    calls = [ended(7, LONG + "a"), ended(8, LONG + "b and more"), ended(9, LONG + "d")]
    assert one.results([0, 1, 2], calls) == {0: (7, NAMED_CHARS + 1), 1: (8, NAMED_CHARS + 1)}
    assert one.results([0], calls) == {0: (7, NAMED_CHARS + 1)}
    assert one.results([], calls) == one.results([0], []) == {}


def test_results_come_in_the_order_of_their_calls_and_each_is_named_once() -> None:
    one = question([tool(LONG), tool(LONG), tool(LONG)])
    assert one.results([0, 1, 2], [ended(7, LONG), ended(8, LONG)]) == {
        1: (7, NAMED_CHARS),
        2: (8, NAMED_CHARS),
    }
    crossed = question([tool(LONG + "b"), tool(LONG + "a")])
    found = crossed.results([0, 1], [ended(7, LONG + "a"), ended(8, LONG + "b")])
    assert found == {1: (7, NAMED_CHARS + 1)}


@pytest.mark.parametrize(
    "message",
    [tool(LONG[1:]), tool(LONG, "user"), tool([LONG] * NAMED_CHARS), tool(None), {"role": "tool"}, {}],
)
def test_only_the_long_text_of_a_tool_is_looked_for(message: dict[str, Any]) -> None:
    one = question([tool(LONG), message])
    assert one.results([0, 1], [ended(7, LONG), ended(8, LONG)]) == {0: (8, NAMED_CHARS)}


def test_a_call_without_a_result_or_without_its_entry_is_not_named() -> None:
    one = question([tool(LONG)])
    assert one.results([0], [ended(-1, LONG), ended(7, None)]) == {}
    assert one.results([0], [ended(0, LONG)]) == {0: (0, NAMED_CHARS)}


def test_no_more_than_so_many_results_are_compared() -> None:
    one = question([tool(LONG)])
    for others, found in ((MOST_COMPARED - 1, {0: (7, NAMED_CHARS)}), (MOST_COMPARED, {})):
        calls = [ended(7, LONG), *(ended(8, "y") for _ in range(others))]
        assert one.results([0], calls) == found


def test_a_short_result_is_compared_with_nothing() -> None:
    one = question([tool(LONG), tool("short")])
    calls = [ended(7, LONG), *(ended(8, "y") for _ in range(MOST_COMPARED - 1))]
    assert one.results([0, 1], calls) == {0: (7, NAMED_CHARS)}


# -- in terms of what was asked before -------------------------------------------------------------------------------

RECORDS: list[dict[str, Any]] = [{"content": "one"}, {"content": "two"}]


def in_terms(base: Base, records: list[Any], most_bytes: int = 10**6, pieces: Any = None) -> Question | None:
    """What is asked: ``records``, and one message more."""
    terms = {
        "count": len(records),
        "hash": known_of(records).hash,
        "pieces": pieces or [[0, len(records)], 1],
    }
    args = {
        "messages": [{"content": "new"}],
        "tools": [],
        "provider": "p",
        "model": "m",
        "terms": terms,
        "options": None,
        "sections": [],
    }
    reading = read_question(read(ModelQuestion, args), base, 1024, most_bytes)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            return done.value if isinstance(done.value, Question) else None


def test_a_question_in_terms_of_the_one_before_is_the_same_as_if_all_of_it_were_said() -> None:
    one = in_terms(Base(last=known_of(RECORDS)), RECORDS)
    whole = question([*RECORDS, {"content": "new"}])
    assert one is not None
    assert (one.call_hash, one.bytes) == (whole.call_hash, whole.bytes)
    assert (one.said, one.whole) == ({2: {"content": "new"}}, False)


def test_a_question_in_terms_of_its_session_has_the_messages_of_that_within_the_limit() -> None:
    session = Session()
    for record in RECORDS:
        session.add([record], 50, len(RECORDS))
    whole = question([*RECORDS, {"content": "new"}])
    one = in_terms(Base(session=session), RECORDS, whole.bytes)
    assert one is not None
    assert (one.call_hash, one.bytes, one.said) == (whole.call_hash, whole.bytes, whole.said)
    less = in_terms(Base(session=session), RECORDS, whole.bytes - 1)
    assert less is not None and less.said == {2: {"content": "new"}}


def test_what_is_told_in_terms_of_something_unknown_is_to_be_said_whole() -> None:
    session = Session()
    session.add(RECORDS, 50, 1)
    assert in_terms(Base(), RECORDS) is None
    assert in_terms(Base(last=known_of(RECORDS)), [*RECORDS, {}]) is None
    for other in (RECORDS[::-1], RECORDS[:1]):
        assert in_terms(Base(session=session), other) is None


def test_pieces_that_do_not_fit_what_was_said_are_refused_with_what_is_wrong() -> None:
    words = r"^the request is not put together: \[0, 3\] is no part of 2 messages and 1 new ones$"
    with pytest.raises(Invalid, match=words):
        in_terms(Base(last=known_of(RECORDS)), RECORDS, pieces=[[0, 3], 1])
    for new in (0, 2):
        with pytest.raises(Invalid):
            in_terms(Base(last=known_of(RECORDS)), RECORDS, pieces=[[0, 2], *[1] * new])


# -- what the ledger takes of it -------------------------------------------------------------------------------------


def test_the_text_of_what_is_new_leaves_out_the_content_that_is_named() -> None:
    one = question([tool(LONG), tool("a")])
    bare = canonical([tool(""), tool("a")])
    assert one.new_text([0, 1], {0}, len(bare)) == (bare, False)
    assert one.new_text([0, 1], set(), len(bare)) == (canonical([tool(LONG)])[: len(bare)], True)
