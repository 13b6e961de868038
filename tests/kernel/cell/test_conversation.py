"""Lists of messages told in terms of others: whatever they are, the same list comes out."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.cell.conversation import (
    Conversation,
    as_json,
    canonical_json,
    common_messages,
    count_of,
    digest_of,
    list_hash,
    new_places,
    parts,
    pieces_of,
)
from kernel.cell.protocol import Terms

LISTS = st.lists(st.sampled_from("abcdef"), max_size=12)


def digests(texts: list[str]) -> bytes:
    return b"".join(map(digest_of, texts))


@given(LISTS, LISTS)
def test_pieces_put_the_list_together_again(known: list[str], wanted: list[str]) -> None:
    pieces = pieces_of(digests(known), digests(wanted))
    said = [wanted[place] for place in new_places(pieces)]
    assert [one for part in parts(pieces, known, said) for one in part] == wanted
    assert count_of(pieces, len(known), len(said)) == len(wanted)


@given(LISTS, LISTS)
def test_what_two_lists_begin_with_is_counted_in_messages(one: list[str], other: list[str]) -> None:
    same = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    assert common_messages(digests(one), digests(other)) == same


def test_a_conversation_that_goes_on_is_its_beginning_and_what_is_new() -> None:
    known = [f"m{number}" for number in range(40)]
    assert pieces_of(digests(known), digests([*known, "a", "b"])) == [[0, 40], 2]
    assert pieces_of(digests(known), digests(known)) == [[0, 40]]
    assert pieces_of(b"", digests(known)) == [40]
    assert pieces_of(digests(known), b"") == []


def test_a_window_that_slid_or_was_summed_up_is_a_cut() -> None:
    known = ["system", *(f"m{number}" for number in range(39))]
    assert pieces_of(digests(known), digests(["system", *known[7:], "new"])) == [[0, 1], [7, 40], 1]
    assert pieces_of(digests(known), digests(["system", "sum", *known[7:], "new"])) == [[0, 1], 1, [7, 40], 1]


@pytest.mark.parametrize(
    "pieces",
    [
        None, "[[0, 1]]", {}, [0], [-1], [True], [1.0], [[0, 1, 2]], [[1, 1]], [[2, 1]], [[0, 6]], [[-1, 2]],
        [["0", 1]], [[False, 1]], [None], [1], [3], [[0, 5], [0, 5], 1],
    ],
)  # fmt: skip
def test_rubbish_is_no_pieces(pieces: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        count_of(pieces, 5, 2)


class Node:
    """Knows the history and what it was told last, and nothing else."""

    def __init__(self, history: list[dict[str, Any]]) -> None:
        self.history, self.last = history, list[Any]()

    def hears(self, messages: list[Any], terms: Terms | None) -> list[Any]:
        if terms is not None:
            known = (self.last or self.history)[: terms.count]
            assert list_hash(digests([canonical_json(one) for one in known])) == terms.hash
            assert count_of(terms.pieces, terms.count, len(messages)) <= 100
            messages = [one for part in parts(terms.pieces, known, messages) for one in part]
        self.last = messages
        return messages


MESSAGES = st.lists(
    st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, True, 1.0, "x", None])), max_size=8
)


@given(MESSAGES, st.lists(MESSAGES, max_size=5))
def test_a_node_hears_what_its_cell_asks(history: list[dict[str, Any]], requests: list[list[Any]]) -> None:
    conversation, node = Conversation(history), Node(list(history))
    for messages in requests:
        heard = node.hears(*conversation.told(list(messages)))
        assert list(map(canonical_json, heard)) == list(map(canonical_json, messages))


def test_a_message_that_was_changed_since_is_said_again() -> None:
    conversation = Conversation([])
    first: dict[str, Any] = {"content": "one"}
    conversation.told([first, {"content": "two"}])
    first["content"] = "changed"
    said, terms = conversation.told([first, {"content": "two"}])
    assert said == [{"content": "changed"}]
    assert terms is not None and terms.pieces == [1, [1, 2]]


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: 2, "1": 3}, object(), "\ud800"])
def test_what_is_no_json_is_left_to_whoever_reads_it(value: Any) -> None:
    conversation = Conversation([])
    conversation.told([{"content": "one"}])
    assert conversation.told([{"content": "one"}, {"content": value}]) == (
        [{"content": "one"}, {"content": value}],
        None,
    )
    said, terms = conversation.told([{"content": "one"}, {"content": 2}])
    assert said == [{"content": 2}]
    assert terms is not None and terms.pieces == [[0, 1], 1]


TRICKY: list[dict[Any, Any]] = [
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {1: "x"},
    {"1": "x"},
    {"a": {2: [1]}},
    {"a": (1, 2)},
    {"a": [1, 2]},
    {"a": float("nan")},
    {"a": b"x"},
]


@given(st.lists(st.lists(st.sampled_from(TRICKY), max_size=5), max_size=4))
def test_requests_come_out_as_json_reads_them_however_they_follow_each_other(
    requests: list[list[Any]],
) -> None:
    """What begins like the request before is not looked through again; that must not be seen."""
    conversation, known = Conversation([]), list[Any]()
    for request in requests:
        said, terms = conversation.told(request)
        whole = said if terms is None else [one for part in parts(terms.pieces, known, said) for one in part]
        read = [as_json(message) for message in request]
        assert repr(whole).replace("(", "[").replace(")", "]") == repr(read).replace("(", "[").replace(
            ")", "]"
        )
        if terms is not None or conversation.packed == [msgpack.packb(message) for message in read]:
            known = whole
