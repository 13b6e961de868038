"""The control API as an OpenAPI 3.1 document, made from the table of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from kernel.errors import SupervisionWord
from kernel.operations.operation import AnyRow, Limit, OnWire
from kernel.operations.table import NOUNS
from weftos.api.parts import CODES

Schema = dict[str, Any]
_SIMPLE: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}


def document() -> Schema:
    """The whole document."""
    shapes: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    for noun in NOUNS:
        for row in noun.rows():
            path = paths.setdefault(f"/v1{row.at(lambda name: f'{{{name}}}')}", {})
            path[row.method.lower()] = {"tags": [noun.__name__.lower()], **_operation(row, shapes)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "weftos control API",
            "version": "1",
            "description": "HTTP on the node's Unix socket, for the node's user alone. What stands in a path is quoted "
            "whole, slashes too.",
        },
        "tags": [{"name": noun.__name__.lower(), "description": _text(noun)} for noun in NOUNS],
        "paths": paths,
        "components": {"schemas": dict(sorted(shapes.items())), "responses": {"Error": _error()}},
    }


def shape(kind: Any, shapes: dict[str, Schema]) -> Schema:
    """The JSON Schema of a type of the table; what has a name is put into ``shapes``, and referred to."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(inner, shapes)
    if origin is NotRequired:
        return shape(inner[0], shapes)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [shape(each, shapes) for each in inner]}
    if origin is tuple and inner[-1] is not Ellipsis:
        items = [shape(each, shapes) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": shape(inner[0], shapes)}
    if origin is dict:
        return {"type": "object", "additionalProperties": shape(inner[1], shapes)}
    if kind is Any:
        return {}
    if is_typeddict(kind):
        return _named(kind, shapes)
    if is_dataclass(kind):
        return _request(kind, shapes)
    return {"type": _SIMPLE[kind]}


def _annotated(inner: Sequence[Any], shapes: dict[str, Schema]) -> Schema:
    kind, *marks = inner
    found = shape(next((mark.type for mark in marks if isinstance(mark, OnWire)), kind), shapes)
    ends = {"min_length": "minItems", "max_length": "maxItems"}
    if found.get("type") == "string":
        ends = {"min_length": "minLength", "max_length": "maxLength"}
    for mark in marks:
        if isinstance(mark, Limit):
            found |= {{**_LIMITS, **ends}[name]: value for name, value in mark.given().items()}
    return found


def _named(kind: Any, shapes: dict[str, Schema]) -> Schema:
    if kind.__name__ not in shapes:
        shapes[kind.__name__] = {}  # so that a type that holds itself ends
        hints = get_type_hints(kind, include_extras=True)
        shapes[kind.__name__] = {
            "type": "object",
            "description": _text(kind),
            "properties": {name: shape(hint, shapes) for name, hint in hints.items()},
            "required": [name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _request(kind: Any, shapes: dict[str, Schema]) -> Schema:
    """A request that is part of another one."""
    if kind.__name__ not in shapes:
        shapes[kind.__name__] = _object(kind, {field.name: field.default for field in fields(kind)}, shapes)
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _object(kind: Any, defaults: Mapping[str, Any], shapes: dict[str, Schema]) -> Schema:
    """These fields of a request, and no others."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        "type": "object",
        "description": _text(kind),
        "properties": {
            name: _field(default, shape(hints[name], shapes)) for name, default in defaults.items()
        },
        "required": [name for name, default in defaults.items() if default is MISSING],
        "additionalProperties": False,
    }


def _text(kind: Any) -> str:
    return " ".join((kind.__doc__ or "").split())


def _operation(row: AnyRow, shapes: dict[str, Schema]) -> Schema:
    hints = get_type_hints(row.request, include_extras=True)
    known = {field.name: field for field in fields(row.request)}  # type: ignore[arg-type]  # every request is a dataclass
    told: Schema = {"operationId": row.name, "summary": row.says, "x-recorded-as": row.recorded or None}
    in_query = [name for name in known if row.method == "GET" and name not in row.in_path]
    places = [*((name, "path") for name in row.in_path), *((name, "query") for name in in_query)]
    if places:
        told["parameters"] = [
            {
                "name": name,
                "in": place,
                "required": known[name].default is MISSING,
                "schema": _field(known[name].default, shape(hints[name], shapes)),
            }
            for name, place in places
        ]
    in_body = {name: known[name].default for name in known if name not in dict(places)}
    if in_body:
        body = _object(row.request, in_body, shapes)
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    kind = "application/x-ndjson" if row.streams else "application/json"
    answer = {"content": {kind: {"schema": shape(row.answer, shapes)}}}
    lines = "One object a line." if row.streams else "The answer."
    return {
        **told,
        "responses": {
            "200": {"description": lines, **answer},
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


def _field(default: Any, found: Schema) -> Schema:
    return found if default is MISSING else {**found, "default": default}


def _error() -> Schema:
    error = {
        "type": "object",
        "properties": {
            "code": {"enum": [*CODES, "internal"]},
            "message": {"type": "string"},
            "word": {
                "enum": [*get_args(SupervisionWord)],
                "description": "what OTP's supervisor would answer",
            },
            "retry_after_s": {
                "type": "number",
                "description": "when the same may go well, where that is known",
            },
        },
        "required": ["code", "message"],
    }
    schema = {"type": "object", "properties": {"error": error}, "required": ["error"]}
    return {"description": "What was wrong.", "content": {"application/json": {"schema": schema}}}
