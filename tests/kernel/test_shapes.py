"""Shapes that cross a border: what is told is read as it was, and anything else is refused by its field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.shapes import ShapeError, read, told


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    text: str
    number: int
    share: float
    data: bytes
    yes: bool
    table: dict[str, Any]
    word: Literal["one", "two"]
    perhaps: str | None
    anything: Any
    rows: tuple[Inner, ...] = field(default=())


GOOD = Outer("a", 1, 0.5, b"b", True, {"c": 1}, "one", None, [1], (Inner("d", ("e",)),))

OUTERS = st.builds(
    Outer,
    st.text(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.binary(),
    st.booleans(),
    st.dictionaries(st.text(), st.integers(0, 9)),
    st.sampled_from(("one", "two")),
    st.none() | st.text(),
    st.none() | st.lists(st.text()),
    st.lists(st.builds(Inner, st.text(), st.lists(st.text()).map(tuple))).map(tuple),
)


@given(OUTERS)
def test_what_is_told_and_carried_is_read_as_it_was(value: Outer) -> None:
    assert read(Outer, msgpack.unpackb(msgpack.packb(told(value)))) == value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": 1}, "text is int, not str"),
        ({"number": True}, "number is bool, not int"),
        ({"number": 1.0}, "number is float, not int"),
        ({"share": "1"}, "share is str, not float"),
        ({"data": "b"}, "data is str, not bytes"),
        ({"yes": 1}, "yes is int, not bool"),
        ({"table": []}, "table is list, not dict"),
        ({"word": "three"}, "word is none of one, two"),
        ({"word": ["one"]}, "word is none of one, two"),
        ({"perhaps": 1}, "perhaps is int, not str"),
        ({"rows": {}}, "rows is dict, not list"),
        ({"rows": [{"name": "a"}]}, "rows is not a map with exactly the fields name, path"),
        ({"rows": [{"name": "a", "path": [1]}]}, "rows is path is int, not str"),
        ({"more": 1}, "not a map with exactly the fields"),
    ],
)
def test_another_shape_is_refused_by_its_field(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        read(Outer, {**told(GOOD), **change})


@pytest.mark.parametrize("value", [None, [], "text", 1, {}, {"name": "a"}, {"name": "a", "pfad": []}])
def test_what_is_no_such_map_is_refused(value: Any) -> None:
    with pytest.raises(ShapeError):
        read(Inner, value)


def test_a_whole_number_stands_for_one_with_a_point_and_none_for_nothing() -> None:
    assert read(Outer, {**told(GOOD), "share": 1}).share == 1
    assert read(Outer, {**told(GOOD), "perhaps": "x"}).perhaps == "x"


def test_a_shape_that_cannot_cross_is_a_fault_of_who_declares_it() -> None:
    @dataclass(frozen=True)
    class Wrong:
        when: complex

    with pytest.raises(TypeError, match="cannot cross a border"):
        told(Wrong(1j))
