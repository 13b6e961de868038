"""The bound of a check against a JSON Schema: no less than a walk takes, and told without walking."""

from __future__ import annotations

import math
import sys
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from kernel.toolbox.arguments import ArgumentsError, SchemaError, Validator
from kernel.toolbox.schema_cost import CostError, SchemaCost


def _operator(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"$ref": "#/$defs/filter"}}, "op": {"const": name}},
        "required": ["op", "args"],
    }


_TERM = {"type": "object", "properties": {"field": {"type": "string"}}, "required": ["field"]}
FILTER: dict[str, Any] = {
    "type": "object",
    "properties": {"filter": {"$ref": "#/$defs/filter"}},
    "$defs": {"filter": {"anyOf": [_operator("and"), _operator("or"), _operator("not"), _TERM]}},
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}},
    "additionalProperties": False,
}
ANY_JSON: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/additionalProperties"}},
            {"type": ["string", "number", "boolean", "null"]},
        ]
    },
}


def _nested(levels: int, leaf: dict[str, Any], operator: str) -> dict[str, Any]:
    for _ in range(levels):
        leaf = {"args": [leaf], "op": operator}
    return {"filter": leaf}


def _doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Each definition asks the one before it twice."""
    definitions: dict[str, Any] = {"a0": {"type": "object"}}
    for level in range(1, levels + 1):
        definitions[f"a{level}"] = {keyword: [{"$ref": f"#/$defs/a{level - 1}"}] * 2}
    return {"type": "object", "$defs": definitions, "$ref": f"#/$defs/a{levels}"}


def test_arguments_nested_in_alternatives_are_refused_and_not_walked() -> None:
    with pytest.raises(ArgumentsError, match="could take more than 2000000 steps"):
        Validator(FILTER).check(_nested(15, {"field": 1}, "zip"))


def test_arguments_that_people_write_are_checked_as_before() -> None:
    validator = Validator(FILTER)
    validator.check(_nested(8, {"field": "a"}, "not"))
    with pytest.raises(ArgumentsError, match=r"filter: .* is not valid under any of the schemas"):
        validator.check(_nested(2, {"field": 1}, "and"))


def test_faults_that_take_too_long_to_name_are_not_named() -> None:
    with pytest.raises(ArgumentsError, match="too many values and alternatives to name the faults"):
        Validator(FILTER).check(_nested(7, {"field": 1}, "and"))
    schema = {"properties": {"a": {"anyOf": [{"items": {"type": "null"}}, {"items": {"type": "string"}}]}}}
    with pytest.raises(ArgumentsError, match="too many values and alternatives to name the faults"):
        Validator(schema).check({"a": [1] * 60_000})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_asks_one_value_without_end_is_refused(keyword: str) -> None:
    with pytest.raises(SchemaError, match="one value checked against more than 1000 schemas"):
        Validator(_doubling(keyword, 45))
    Validator(_doubling(keyword, 3))


def test_a_schema_that_doubles_at_each_level_of_the_value_is_bounded_by_the_value() -> None:
    definitions: dict[str, Any] = {"a0": {}}
    for level in range(1, 31):
        below = {"properties": {"x": {"$ref": f"#/$defs/a{level - 1}"}}}
        definitions[f"a{level}"] = {"allOf": [below, dict(below)]}
    validator = Validator({"$defs": definitions, "$ref": "#/$defs/a30"})
    validator.check({"x": {"x": {}}})
    deep: dict[str, Any] = {}
    for _ in range(30):
        deep = {"x": deep}
    with pytest.raises(ArgumentsError, match="could take more than"):
        validator.check(deep)


@pytest.mark.parametrize("keyword", ["patternProperties", "properties", "dependentRequired"])
def test_many_names_looked_for_in_many_objects_are_refused(keyword: str) -> None:
    empty: Any = [] if keyword == "dependentRequired" else True
    names = {f"a{number}": empty for number in range(100 if keyword == "patternProperties" else 1000)}
    schema = {"properties": {"rows": {"items": {keyword: names}}}}
    with pytest.raises(ArgumentsError, match="could take more than"):
        Validator(schema).check({"rows": [{"x": 1}] * 20_000})


def test_a_count_beyond_all_numbers_is_infinite() -> None:
    definitions: dict[str, Any] = {"a0": {}}
    for level in range(1, 180):
        below = {"$ref": f"#/$defs/a{level - 1}"}
        definitions[f"a{level}"] = {**below, "unevaluatedProperties": True}
    schema = {"$defs": definitions, "$ref": "#/$defs/a179", "patternProperties": {"y": True}}
    names = {str(number): "" for number in range(100)}
    assert SchemaCost(schema).count(names).decide == math.inf
    with pytest.raises(ArgumentsError, match="could take more than"):
        Validator(schema).check(names)


def test_a_large_pattern_is_not_run_over_a_long_text() -> None:
    schema = {
        "properties": {
            "a": {"pattern": "(a{90}){90}b"},
            "b": {"pattern": "^[a-z ]+$"},
            "c": {"type": "string"},
        }
    }
    validator = Validator(schema)
    with pytest.raises(ArgumentsError, match="could take more than"):
        validator.check({"a": "a" * 100_000})
    validator.check({"b": "b" * 200_000, "c": "c" * 200_000})
    names = Validator({"patternProperties": {"([a-z]{90}){80}x": {}}})
    with pytest.raises(ArgumentsError, match="could take more than"):
        names.check({"n" * 50_000: 1})


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("abc", 3),
        ("a{3}", 3),
        ("(ab){3,5}", 10),
        ("((a{9}){9}){9}", 729),
        ("[a-z]{10}", 40),
        (r"[\]{9}]", 4),
        (r"\w{9}", 36),
        ("a{2,}", 2),
        ("a|b*", 4),
        (r"[\]{9}]{2}", 8),
        ("[[{9}]{2}", 8),
        ("^{9}(){9}", 18),
        (r"\u{41}\x41\.\/", 16),
        (r"\p{Lu}{9}", 36),
        ("(?i:a)(?<name>b)", 12),
        ("(", 0),
        (")", 1),
        ("[a", 4),
    ],
)
def test_the_states_of_a_pattern(pattern: str, states: float) -> None:
    assert SchemaCost({"pattern": pattern}).per_char == states / 8


@pytest.mark.parametrize(
    ("items", "row"),
    [
        ({"multipleOf": 0.01}, 1e300),
        ({"minimum": 0.01, "maximum": 1}, 5e-324),
        ({"enum": [*range(1000), "a"]}, "a"),
        ({"const": list(range(1000))}, list(range(1000))),
        ({"uniqueItems": True}, [5e-324 * number for number in range(10)]),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"format": "uri"}] * 900},
            "a" * 2000,
        ),
    ],
    ids=["multipleOf", "limits", "enum", "const", "uniqueItems", "format"],
)
def test_values_that_are_dear_to_compare_are_counted(items: dict[str, Any], row: Any) -> None:
    with pytest.raises(ArgumentsError, match="could take more than"):
        Validator({"properties": {"rows": {"items": items}}}).check({"rows": [row] * 10_000})


def test_numbers_that_people_write_are_compared_as_before() -> None:
    share = {"type": "number", "minimum": 0.0, "maximum": 1.0, "multipleOf": 0.5}
    Validator({"properties": {"rows": {"items": share}}}).check({"rows": [0.5] * 20_000})
    names = {"enum": [f"Zone/{number}" for number in range(400)]}
    Validator({"properties": {"rows": {"items": names}}}).check({"rows": ["Zone/7"] * 2000})
    Validator({"properties": {"rows": {"uniqueItems": True}}}).check({"rows": list(range(10_000))})


@pytest.mark.parametrize(
    ("items", "row"),
    [
        ({"enum": [*range(3000), "a"]}, []),
        ({"patternProperties": {f"^a{number}$": True for number in range(3000)}}, {}),
        ({"prefixItems": [True] * 3000}, []),
    ],
    ids=["enum", "patternProperties", "prefixItems"],
)
def test_counting_reads_a_large_schema_once(items: dict[str, Any], row: Any) -> None:
    cost = SchemaCost({"properties": {"rows": {"items": items}}})
    rows = [row.copy() for _ in range(20_000)]
    lines = 0

    def trace(*_: Any) -> Any:
        nonlocal lines
        lines += 1
        return trace

    sys.settrace(trace)
    try:
        cost.count({"rows": rows})
    finally:
        sys.settrace(None)
    assert lines < 4_000_000


def test_schemas_as_generators_write_them_are_accepted() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int | None = Field(None, ge=0, le=9, description="left")

    class Dog(BaseModel):
        kind: Literal["dog"]
        weight: Decimal = Field(gt=0, multiple_of=0.5)

    class Home(BaseModel):
        model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"id": "x"}], "x-owner": 1})
        pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(max_length=9)
        when: datetime
        where: tuple[float, float]
        mail: Annotated[str, Field(pattern=r"^[\w.+-]+@(?:[a-z0-9-]+\.)+[a-z]{2,}$")]
        tags: set[str] = Field(default_factory=set, deprecated=True)
        notes: dict[str, int | str] = Field(default={}, title="Notes")

    Validator(Home.model_json_schema())
    nullable = {
        "type": ["string", "null"],
        "nullable": True,
        "readOnly": True,
        "$comment": "as OpenAPI has it",
    }
    listed = {
        "type": "array",
        "prefixItems": [{"type": "string"}],
        "items": False,
        "minContains": 1,
        "contains": {},
    }
    Validator(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"a": nullable, "b": listed, "c": {"$ref": "#/definitions/c"}},
            "definitions": {"c": {"oneOf": [{"const": 1}, {"not": {"type": "integer"}}]}},
            "required": ["a"],
            "additionalProperties": False,
            "dependentRequired": {"a": ["b"]},
        }
    )


@pytest.mark.parametrize("many", [101, 2000])
def test_a_schema_of_many_patterns_is_not_compiled(many: int) -> None:
    half = many // 2
    patterns = {f"n{number}": {"pattern": rf"\p{{L}}{{9}}{number}"} for number in range(half)}
    names = {f"^{number}x": True for number in range(many - half)}
    with pytest.raises(SchemaError, match=f"it has {many} different patterns, at most 100"):
        Validator({"properties": {"a": {"properties": patterns}, "b": {"patternProperties": names}}})
    Validator({"properties": {f"n{number}": {"pattern": "^[a-z]+$"} for number in range(many)}})


def test_recursion_without_alternatives_is_counted_as_the_value_is_large() -> None:
    tree: dict[str, Any] = {"value": 1}
    for _ in range(12):  # 8191 nodes
        tree = {"left": tree, "right": dict(tree)}
    Validator(TREE).check({"left": {"right": {"value": 1}}})
    assert SchemaCost(TREE).count(tree["left"]).decide < 60_000
    nested: list[Any] = []
    for _ in range(30):
        nested = [nested]
    Validator(ANY_JSON).check({"a": nested})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#"}, "leads back to itself"),
        ({"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}}, "leads back to itself"),
        ({"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"}, "must be # or a path"),
        ({"properties": {"a": {"$dynamicRef": "#"}}}, "use \\$ref"),
        ({"properties": {"a": {"$id": "https://example.org/a"}}}, "at the top alone"),
        ({"$ref": "#/$defs/gone"}, "nothing is at"),
        ({"$defs": {"a/d0": {}, "a": {"d0": {}}}, "$ref": "#/$defs/a%2Fd0"}, "without %"),
        ({"pattern": "(?x)(a){ 900 }"}, r"has a \(\?"),
        ({"pattern": "(?i-x:a)"}, r"has a \(\?"),
        ({"pattern": "(a){ 900 }"}, r"has a \{ that begins no"),
        ({"pattern": "(a){,900}"}, r"has a \{ that begins no"),
        ({"items": {"enum": [1e300, "a"]}}, "the number 1e"),
        ({"items": {"multipleOf": 5e-324}}, "the number 5e-324"),
        ({"pattern": "[]a]"}, r"write .\]"),
        ({"pattern": r"\Qa\E"}, r"an escape that is not known"),
        ({"pattern": r"\b{start}"}, r"has a \{ that begins no"),
        ({"properties": {"a": {"anyOf": [{"sizeAtMost": 3}]}}}, "the keyword 'sizeAtMost' is not known"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"if_": 1}}}, "the keyword 'if_' is not known"),
        ({"maximum": 10**40}, "the number 1000"),
    ],
    ids=str,
)
def test_a_schema_of_which_no_bound_can_be_told_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(CostError, match=words):
        SchemaCost(schema)


def test_properties_named_like_keywords_are_no_keywords() -> None:
    names = {name: {"type": "string"} for name in ("$ref", "$id", "id", "$dynamicRef", "anyOf", "allOf")}
    cost = SchemaCost({"properties": names, "examples": [{"id": "x"}]})
    assert cost.per_value == 1 + 2 * len(names)
    assert not cost.alternatives


def test_what_refers_to_itself_has_no_bound_without_a_value() -> None:
    assert SchemaCost(FILTER).per_value == math.inf
    assert SchemaCost(_doubling("allOf", 3)).per_value < 40


SCHEMAS = st.recursive(
    st.sampled_from([True, {}, {"type": "string"}, {"$ref": "#/$defs/a"}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2), "items": inner}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("xy"), inner)}),
        st.fixed_dictionaries({"additionalProperties": inner}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.text(max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS, SCHEMAS, VALUES)
def test_the_count_is_that_of_a_walk(schema: Any, definition: Any, value: Any) -> None:
    root = {"$defs": {"a": {"items": definition}}, "allOf": [schema]}
    try:
        cost = SchemaCost(root)
    except CostError:
        return
    assert cost.count(value).decide == _walk(root, root, value)


def _walk(root: Any, schema: Any, value: Any) -> int:
    """The slow reference: every part for every value, as often as it is come to."""
    if not isinstance(schema, dict):
        return 1
    named = schema.get("properties", {})
    here = [*schema.get("allOf", []), *schema.get("anyOf", [])]
    steps = 1 + len(named)
    if "$ref" in schema:
        here.append(root["$defs"]["a"])
    steps += sum(_walk(root, part, value) for part in here)
    if isinstance(value, list) and "items" in schema:
        steps += sum(_walk(root, schema["items"], child) for child in value)
    if isinstance(value, dict):
        for name, child in value.items():
            if name in named:
                steps += _walk(root, named[name], child)
            elif "additionalProperties" in schema:
                steps += _walk(root, schema["additionalProperties"], child)
    return steps
