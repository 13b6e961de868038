"""Is an answer of the type that the table of operations says it has? To the last field, as JSON has it."""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict


def faults_of(kind: Any, answer: object) -> list[str]:
    """Everything in ``answer`` that ``kind`` does not say."""
    return list(_faults(kind, json.loads(json.dumps(answer)), ""))


def _faults(kind: Any, value: Any, where: str) -> list[str]:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return []
    if origin is NotRequired:
        return _faults(inner[0], value, where)
    if origin in (Union, UnionType):
        return [] if any(not _faults(each, value, where) for each in inner) else [_wrong(kind, value, where)]
    if origin is Literal:
        return [] if value in inner else [_wrong(kind, value, where)]
    if origin is list and isinstance(value, list):
        return [fault for at, each in enumerate(value) for fault in _faults(inner[0], each, f"{where}[{at}]")]
    if origin is dict and isinstance(value, dict):
        return [fault for name, each in value.items() for fault in _faults(inner[1], each, f"{where}.{name}")]
    if is_typeddict(kind) and isinstance(value, dict):
        return _fields(kind, value, where)
    plain = {float: (float, int), NoneType: NoneType}.get(kind, kind)
    fits = not is_typeddict(kind) and isinstance(plain, type | tuple) and isinstance(value, plain)
    fits = fits and (kind is bool or not isinstance(value, bool))
    return [] if fits else [_wrong(kind, value, where)]


def _fields(kind: Any, value: dict[str, Any], where: str) -> list[str]:
    hints = get_type_hints(kind, include_extras=True)
    needed = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    missing = [f"{where}.{name} is missing" for name in sorted(needed - value.keys())]
    unknown = [f"{where}.{name} is not declared" for name in sorted(value.keys() - hints.keys())]
    known = [name for name in value if name in hints]
    return [
        *missing,
        *unknown,
        *(fault for name in known for fault in _faults(hints[name], value[name], f"{where}.{name}")),
    ]


def _wrong(kind: Any, value: object, where: str) -> str:
    return f"{where or 'the answer'} is {value!r}, not {kind}"[:300]
