"""The table of kinds: what waits for the disk, and that no entry can differ from it unnoticed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.entry.entry import ZERO_HASH, Entry, decode_entry, encode_body, encode_entry
from chain.entry.fields import (
    BOOL,
    BYTES,
    DIGEST,
    JSON,
    NUMBER,
    RANGES,
    TEXT,
    TEXTS,
    TEXTS_OR_NIL,
    WHOLE,
    WHOLES,
    Type,
)
from chain.entry.kinds import KINDS, Kind, fits, well_typed
from tests.chain.twins.ledgers import RIGHT

WRONG: dict[Type, list[Any]] = {
    TEXT: [None, 7, True, b"x", ["x"], {}],
    JSON: [None, {}, [], 1],
    DIGEST: ["", "0" * 63, "0" * 65, "0" * 64 + "\n", "g" * 64, "A" * 64, b"0" * 64, None],
    WHOLE: [True, 1.0, "1", None, [1]],
    NUMBER: [True, None, "1", []],
    BOOL: [0, 1, None, "true"],
    BYTES: ["x", None, [], 0],
    TEXTS: [None, "a", {}, ["a", 1], [["a"]], [None]],
    TEXTS_OR_NIL: ["a", False, {}, [None], ["a", b"b"]],
    WHOLES: [None, 3, {}, [True], ["1"], [1.0], [[1]]],
    RANGES: [None, "0-1", {}, [1], [[1]], [[0, True]], [[0, 1, 2]], [["0", 1]]],
}


def test_what_must_be_on_disk_before_anything_follows() -> None:
    assert {name for name, kind in KINDS.items() if kind.durable} == {
        "node.booted",
        "node.stopped",
        "session.preferred",
        "process.changed",
        "node.disk_full",
        "node.disk_free",
        "state.accepted",
        "process.spawned",
        "process.suspended",
        "process.resumed",
        "budget.reserved",
        "budget.granted",
        "budget.changed",
        "message.cancelled",
        "message.accepted",
        "message.sent",
        "message.dead",
        "message.replied",
        "message.replayed",
        "topic.subscribed",
        "topic.unsubscribed",
        "turn.ended",
        "turn.diverged",
        "turn.decided",
        "turn.rated",
        "tool.intent",
        "tool.resolved",
        "memory.written",
        "memory.forgotten",
        "peer.added",
        "peer.conflict",
        "peer.decided",
        "peer.removed",
        "key.rotated",
        "erase",
    }


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_fits_an_entry_and_describes_its_fields(kind: Kind) -> None:
    entry = Entry(0, 0, "weftos-a", 0, 0, kind.name, "", b"", -1, ZERO_HASH, ZERO_HASH)
    assert decode_entry(encode_entry(entry)).kind == kind.name
    encode_body({name: RIGHT[field.type][0] for name, field in kind.fields.items()})
    assert kind.meaning
    assert all(field.meaning and field.type.words for field in kind.fields.values())


def test_a_body_that_differs_from_its_kind_is_told_every_difference() -> None:
    kind = KINDS["message.dead"]
    assert kind.check({"id": "m-1", "to": "/user/a", "why": "expired", "reason": "expired"}) == []
    assert kind.check({"id": "m-1", "because": "expired"}) == [
        "message.dead lacks the field to",
        "message.dead lacks the field why",
        "message.dead lacks the field reason",
        "message.dead has no field because",
    ]
    assert kind.check({"id": 7, "to": "/user/a", "why": None, "reason": "other"}) == [
        "message.dead: id is int, must be text",
        "message.dead: why is NoneType, must be text",
    ]
    assert KINDS["message.replayed"].check({"id": "m-1", "to": "/user/a", "as": "m-2"}) == []


def test_every_type_has_right_and_wrong_values() -> None:
    assert RIGHT.keys() == WRONG.keys()
    assert RIGHT.keys() == {field.type for kind in KINDS.values() for field in kind.fields.values()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
@settings(max_examples=30)
@given(st.data())
def test_a_body_of_right_values_fits_its_kind_and_a_wrong_one_in_any_field_does_not(
    kind: Kind, data: st.DataObject
) -> None:
    names = data.draw(st.permutations([*kind.fields]))
    body = {name: data.draw(st.sampled_from(RIGHT[kind.fields[name].type])) for name in names}
    assert (fits(kind.name, body), well_typed(kind.name, body), kind.check(body)) == (True, True, [])
    for name, field in kind.fields.items():
        for wrong in WRONG[field.type]:
            other = {**body, name: wrong}
            said = f"{kind.name}: {name} is {type(wrong).__name__}, must be {field.type.words}"
            assert (fits(kind.name, other), well_typed(kind.name, other)) == (False, False)
            assert kind.check(other) == kind.mistyped(other) == [said]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_body_that_lacks_a_field_or_has_another_does_not_fit_and_what_it_has_is_of_its_type(
    kind: Kind,
) -> None:
    body = {name: RIGHT[field.type][0] for name, field in kind.fields.items()}
    more = {**body, "unheard_of": 1}
    assert (fits(kind.name, more), well_typed(kind.name, more)) == (False, True)
    for name in body:
        less = {key: value for key, value in body.items() if key != name}
        assert (fits(kind.name, less), well_typed(kind.name, less)) == (False, True)


def test_of_a_kind_that_is_not_known_nothing_is_told() -> None:
    assert (fits("later.kind", {}), well_typed("later.kind", {"id": 7})) == (False, True)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        KINDS["new.kind"] = KINDS["node.booted"]  # type: ignore[index]
    with pytest.raises(TypeError):
        KINDS["node.booted"].fields["more"] = "x"  # type: ignore[index]
