"""A value of a dataclass as an array of its fields, in the order of their declaration, of types that msgpack has.

Reading checks every type: what comes from a file is what this writes, or ValueError, TypeError or Invalid is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

from kernel.abi import Inbound
from kernel.model.inbound import inbound_text, read_inbound
from kernel.model.spec import ProcessSpec

_NUMBER_LIMIT = 2**63

T = TypeVar("T")


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def row(value: Any, without: tuple[str, ...] = ()) -> list[Any]:
    """``value`` without the fields of those names."""
    hints = _hints(type(value))
    return [_plain(hint, getattr(value, name)) for name, hint in hints.items() if name not in without]


def made(kind: type[T], of: Any, **known: Any) -> T:
    """A value of the dataclass ``kind`` from a row, which lacks the fields in ``known``."""
    hints = [item for item in _hints(kind).items() if item[0] not in known]
    pairs = zip(hints, as_list(of), strict=True)
    return kind(**known, **{name: _read(hint, value) for (name, hint), value in pairs})


def _plain(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if hint is ProcessSpec:
        return value.to_json()
    if hint == Inbound | None:
        return inbound_text(value)
    if is_dataclass(hint):
        return row(value)
    if hint == tuple[str, ...]:
        return list(value)
    if hint == frozenset[str] | None:
        return sorted(value)
    return str(value) if isinstance(value, StrEnum) else value


def _read(hint: Any, value: Any) -> Any:
    reader = _READERS.get(hint)
    if reader is not None:
        return reader(value)
    return hint(as_text(value)) if issubclass(hint, StrEnum) else made(hint, value)


def as_rows(value: Any) -> list[list[Any]]:
    return [as_list(each) for each in as_list(value)]


def as_list(value: Any) -> list[Any]:
    return _of(list, value)


def as_text(value: Any) -> str:
    return _of(str, value)


def as_bytes(value: Any) -> bytes:
    return _of(bytes, value)


def as_map(value: Any) -> dict[str, Any]:
    return _of(dict, value)


def as_flag(value: Any) -> bool:
    return _of(bool, value)


def as_number(value: Any) -> int:
    """A number that is not below 0."""
    number = _of(int, value)
    if not 0 <= number < _NUMBER_LIMIT:
        raise ValueError(f"{number} is out of range")
    return number


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is {type(value).__name__}, not {kind.__name__}")
    return value


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: as_text,
    int: lambda value: _of(int, value),
    bool: as_flag,
    bytes: as_bytes,
    tuple[str, ...]: lambda value: tuple(map(as_text, as_list(value))),
    frozenset[str] | None: lambda value: None if value is None else frozenset(map(as_text, as_list(value))),
    dict[str, Any] | None: lambda value: None if value is None else _of(dict, value),
    Inbound | None: lambda value: None if value is None else read_inbound(as_text(value)),
    ProcessSpec: lambda value: ProcessSpec.from_json(as_text(value)),
}
