"""What crosses a border, declared once: a frozen dataclass, and the map that it travels as.

    told(value) -> dict[str, Any]           the map, with a key for each field
    read(kind, value) -> kind               what came; raises ShapeError, naming the first field that is wrong

A field is text, a number, bytes, yes or no, a map, any value, one of some words (``Literal``), any of these or None, a
``tuple[X, ...]`` (which travels as a list), or such a dataclass. A map has exactly the fields. The types are those that
msgpack and JSON have, and nothing is converted: ``true`` is no number, and a whole number is one with a point only
where a field says ``float``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]
Fields = tuple[tuple[str, Reader, Writer], ...]
_KNOWN: dict[type, Fields] = {}


class ShapeError(ValueError):
    """Not the shape that was declared."""


def told(value: Any) -> dict[str, Any]:
    """The map of a value of a declared shape."""
    return {name: write(getattr(value, name)) for name, _, write in _fields(type(value))}


def read(kind: type[T], value: Any) -> T:
    """The value in a map. Raises :class:`ShapeError`."""
    declared = _fields(kind)
    if type(value) is not dict or len(value) != len(declared):
        raise ShapeError(f"not a map with exactly the fields {', '.join(name for name, *_ in declared)}")
    found = []
    for name, reader, _ in declared:
        try:
            found.append(reader(value[name]))
        except KeyError:
            raise ShapeError(f"{name} is missing") from None
        except ShapeError as error:
            raise ShapeError(f"{name} is {error}") from None
    return kind(*found)


def _fields(kind: type) -> Fields:
    found = _KNOWN.get(kind)
    if found is None:
        hints = get_type_hints(kind)
        found = _KNOWN[kind] = tuple((name, _reader(hint), _writer(hint)) for name, hint in hints.items())
    return found


def _reader(hint: Any) -> Reader:
    if hint is Any:
        return _as_it_is
    if get_origin(hint) in (Union, UnionType):
        rest = [each for each in get_args(hint) if each is not NoneType]
        if len(rest) == 1:
            return _or_none(_reader(rest[0]))
    if get_origin(hint) is Literal:
        return _word(get_args(hint))
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return _row(_reader(get_args(hint)[0]))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(read, hint)
    plain = get_origin(hint) or hint
    if plain is float:
        return _typed(float, int)
    if plain in (str, int, bytes, bool, dict, list):
        return _typed(plain)
    raise TypeError(f"{hint} cannot cross a border")


def _as_it_is(value: Any) -> Any:
    return value


def _typed(*kinds: type) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) not in kinds:
            raise ShapeError(f"{type(value).__name__}, not {kinds[0].__name__}")
        return value

    return reader


def _or_none(inner: Reader) -> Reader:
    return lambda value: None if value is None else inner(value)


def _word(words: tuple[Any, ...]) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) is not str or value not in words:
            raise ShapeError(f"none of {', '.join(words)}")
        return value

    return reader


def _row(inner: Reader) -> Reader:
    def reader(value: Any) -> Any:
        if type(value) is not list:
            raise ShapeError(f"{type(value).__name__}, not list")
        return tuple(map(inner, value))

    return reader


def _writer(hint: Any) -> Writer:
    if get_origin(hint) is tuple:
        inner = _writer(get_args(hint)[0])
        return list if inner is _as_it_is else lambda value: [inner(each) for each in value]
    if get_origin(hint) in (Union, UnionType):
        return _none_or(*(_writer(each) for each in get_args(hint) if each is not NoneType))
    return told if is_dataclass(hint) else _as_it_is


def _none_or(inner: Writer) -> Writer:
    return lambda value: None if value is None else inner(value)
