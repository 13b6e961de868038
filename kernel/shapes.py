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
_PLAIN = (str, int, float, bytes, bool, dict, list)
Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]
_KNOWN: dict[type, _Shape] = {}


class ShapeError(ValueError):
    """Not the shape that was declared."""


class _Shape:
    """What is known of a declared one. Most fields need no call: they are told as they are, but for those in
    ``writers``, and read so when they have the type in ``readers``.
    """

    __slots__ = ("names", "readers", "writers")

    def __init__(self, kind: type) -> None:
        hints = get_type_hints(kind)
        self.names = tuple(hints)
        self.readers = [(name, _plain(hint), _reader(hint)) for name, hint in hints.items()]
        writers = [(name, _writer(hint)) for name, hint in hints.items()]
        self.writers = [(name, writer) for name, writer in writers if writer is not _as_it_is]


def told(value: Any) -> dict[str, Any]:
    """The map of a value of a declared shape."""
    shape = _KNOWN.get(type(value)) or _known(type(value))
    fields = {name: getattr(value, name) for name in shape.names}
    for name, writer in shape.writers:
        fields[name] = writer(fields[name])
    return fields


def read(kind: type[T], value: Any) -> T:
    """The value in a map. Raises :class:`ShapeError`."""
    shape = _KNOWN.get(kind) or _known(kind)
    if type(value) is not dict or len(value) != len(shape.names):
        raise ShapeError(f"not a map with exactly the fields {', '.join(shape.names)}")
    found = []
    for name, plain, reader in shape.readers:
        try:
            field = value[name]
            found.append(field if type(field) is plain else reader(field))
        except KeyError:
            raise ShapeError(f"{name} is missing") from None
        except ShapeError as error:
            raise ShapeError(f"{name} is {error}") from None
    return kind(*found)


def _known(kind: type) -> _Shape:
    shape = _KNOWN[kind] = _Shape(kind)
    return shape


def _plain(hint: Any) -> type | None:
    """The type of which every value may be in such a field; None when there is more to say."""
    plain = get_origin(hint) or hint
    return plain if plain in _PLAIN else None


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
    if plain in _PLAIN:
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
