"""A configuration is checked against the dataclass that it becomes, and all its faults are told at once.

The node checks its file by it, and a cell what it is told of a process, which others have written: one statement of
what may be said, which needs no pydantic (a cell loads none). Pure.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate

from cognition.errors import ConfigurationError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a dotted ``key``."""

    key: str
    words: str

    def __str__(self) -> str:
        return f"{self.key} {self.words}".strip()


SHOWN_CHARS = 60
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def parse(kind: type[T], given: Mapping[str, Any], where: str) -> T:
    """The configuration ``given`` as a ``kind``, which is a dataclass. Raises :class:`ConfigurationError` that names
    every fault, each with its dotted key. ``None`` means that a key is left out.
    """
    faults = list(faults_of(kind, given))
    if faults:
        raise ConfigurationError(f"{where}: " + "; ".join(map(str, faults)))
    made: T = _made(kind, given)
    return made


def faults_of(kind: Any, given: Any, key: str = "") -> Iterator[Fault]:
    """What is wrong with ``given``, which stands at ``key``, as a value of the type ``kind``."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield from _faults_of_table(kind, given, key)
        return
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin is Annotated:
        before = list(faults_of(arguments[0], given, key))
        yield from before or (Fault(key, words) for words in _limits(arguments[1:], given))
    elif origin is Literal:
        if not any(given == each and type(given) is type(each) for each in arguments):
            yield Fault(key, f"must be {_listed(arguments)}{_shown(given)}")
    elif origin in (Union, types.UnionType):
        if given is not None or type(None) not in arguments:
            yield from _faults_of_member(arguments, given, key)
    elif origin is tuple:
        yield from _faults_of_list(arguments[0], given, key)
    elif origin is dict or origin is Mapping:
        yield from _faults_of_map(arguments[1], given, key)
    elif not _is(kind, given):
        yield Fault(key, f"must be {_NAMES[kind]}{_shown(given)}")


def _faults_of_table(kind: Any, given: Any, key: str) -> Iterator[Fault]:
    if not isinstance(given, Mapping):
        yield Fault(key, "must be a table")
        return
    known = hints_of(kind)
    for name in given:
        if name not in known:
            yield Fault(_joined(key, str(name)[:SHOWN_CHARS]), _unknown(str(name), known))
    for name, hint in known.items():
        if given.get(name) is not None:
            yield from faults_of(hint, given[name], _joined(key, name))
    required = (each.name for each in fields(kind) if each.default is each.default_factory is MISSING)
    yield from (Fault(_joined(key, name), "is missing") for name in required if given.get(name) is None)


def _faults_of_member(kinds: tuple[Any, ...], given: Any, key: str) -> Iterator[Fault]:
    present = [each for each in kinds if each is not type(None)]
    if len(present) > 1 and not isinstance(given, list | tuple | Mapping):
        yield Fault(key, f"must be a list or a table{_shown(given)}")
    else:
        yield from faults_of(member(kinds, given), given, key)


def member(kinds: tuple[Any, ...], given: Any) -> Any:
    """Which of the types of a union is meant: where one is a list and one a table, what is given tells."""
    present = [each for each in kinds if each is not type(None)]
    fits = [each for each in present if is_table(each) == isinstance(given, Mapping)]
    return (fits or present)[0]


def is_table(kind: Any) -> bool:
    """Whether a value of that type is a table of the file."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) in (dict, Mapping) or is_dataclass(kind)


def _faults_of_list(kind: Any, given: Any, key: str) -> Iterator[Fault]:
    if not isinstance(given, list | tuple):
        yield Fault(key, f"must be a list{_shown(given)}")
        return
    for place, each in enumerate(given):
        yield from faults_of(kind, each, f"{key}[{place}]")


def _faults_of_map(kind: Any, given: Any, key: str) -> Iterator[Fault]:
    if not isinstance(given, Mapping):
        yield Fault(key, "must be a table")
        return
    for name, each in given.items():
        yield from faults_of(kind, each, _joined(key, str(name)[:SHOWN_CHARS]))


def _limits(limits: tuple[Any, ...], given: Any) -> Iterator[str]:
    for limit in limits:
        match limit:
            case Ge(least) if not given >= least:
                yield f"must be at least {least}{_shown(given)}"
            case Gt(above) if not given > above:
                yield f"must be more than {above}{_shown(given)}"
            case Le(most) if not given <= most:
                yield f"must be at most {most}{_shown(given)}"
            case Lt(below) if not given < below:
                yield f"must be less than {below}{_shown(given)}"
            case MinLen(least) if len(given) < least:
                yield f"has {len(given)}, must have at least {least}"
            case MaxLen(most) if len(given) > most:
                yield f"has {len(given)}, must have at most {most}"
            case Predicate(holds) if not holds(given):
                yield str(holds.__doc__)


def _is(kind: Any, given: Any) -> bool:
    """Whether it is of that very type: true is no number, and 1 no text; a whole number is a number."""
    if kind is float:
        return type(given) in (int, float) and isfinite(given)
    return type(given) is kind


def _made(kind: Any, given: Any) -> Any:
    """The value, once it is known to have no faults."""
    if isinstance(kind, type) and is_dataclass(kind):
        known = hints_of(kind)
        said = {name: _made(known[name], value) for name, value in given.items() if value is not None}
        return kind(**said)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _made(arguments[0], given)
    if origin in (Union, types.UnionType):
        return None if given is None else _made(member(arguments, given), given)
    if origin is tuple:
        return tuple(_made(arguments[0], each) for each in given)
    if origin is dict or origin is Mapping:
        return {name: _made(arguments[1], each) for name, each in given.items()}
    return float(given) if kind is float else given


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The fields of a dataclass with their types, as they are annotated."""
    return get_type_hints(kind, include_extras=True)


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name[:SHOWN_CHARS], known, n=1, cutoff=0.5)
    return "is unknown; " + (f"the nearest is {near[0]}" if near else f"known here: {', '.join(known)}")


def _joined(above: str, name: str) -> str:
    return f"{above}.{name}" if above else name


def _listed(choices: tuple[Any, ...]) -> str:
    return " or ".join(", ".join(map(str, choices)).rsplit(", ", 1))


def _shown(given: Any) -> str:
    if isinstance(given, str):
        return f" (it is {given[:SHOWN_CHARS]!r})"
    if isinstance(given, bool | int | float) and abs(given) < 2**63:
        return f" (it is {given!r})"
    return ""
