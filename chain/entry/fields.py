"""What the fields of a body may be: their types, and whether a body has them.

Each entry passes here before it is written, and again in an audit. So all that can be is compared at once: the types of
all fields, and then, where a type has more to it, these one by one. Types are exact, as those of msgpack are: ``true``
is no number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

Rule = Callable[[Any], object]
Get = Callable[[Mapping[str, Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Type:
    """``words`` name it. ``plain`` is what all its values are to msgpack, None when not all are the same; ``rule`` says
    yes or no to such a value.
    """

    words: str
    plain: type | None
    rule: Rule | None = None

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is of this type."""
        if self.plain is not None and type(value) is not self.plain:
            return False
        return self.rule is None or bool(self.rule(value))

    def where(self, rule: Rule | None) -> Type:
        """This type, of whose values ``rule`` must be true too."""
        before = self.rule
        if rule is None or before is None:
            return replace(self, rule=rule or before)
        return replace(self, rule=lambda value: before(value) and rule(value))


class Field(NamedTuple):
    """A field of a kind: what it is, and what it means."""

    type: Type
    meaning: str


def _all(kind: type) -> Rule:
    only = {kind}
    return lambda values: {*map(type, values)} <= only


def _is_range(value: Any) -> bool:
    return type(value) is list and [*map(type, value)] == [int, int]


TEXT = Type("text", str)
JSON = Type("JSON text", str)  # that it is JSON is the word of its writer
DIGEST = Type("64 hexadecimal digits", str, re.compile("[0-9a-f]{64}").fullmatch)
WHOLE = Type("a whole number", int)
NUMBER = Type("a number", None, lambda value: type(value) in (int, float))
BOOL = Type("true or false", bool)
BYTES = Type("bytes", bytes)
TEXTS = Type("a list of text", list, _all(str))
TEXTS_OR_NIL = Type("a list of text, or nil", None, lambda value: value is None or TEXTS.holds(value))
WHOLES = Type("a list of whole numbers", list, _all(int))
RANGES = Type("a list of pairs of whole numbers", list, lambda value: all(map(_is_range, value)))


class Fields:
    """Some fields and their types, made ready for many bodies."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        plain = {name: kind.plain for name, kind in types.items() if kind.plain is not None}
        names = [*plain] if len(plain) != 1 else [*plain, *plain]  # of one name itemgetter gives no tuple
        self._count = len(types)
        self._get: Get = itemgetter(*names) if names else lambda body: ()
        self._types = (*(plain[name] for name in names),)
        self._rules = [(name, kind.rule) for name, kind in types.items() if kind.rule is not None]

    def fit(self, body: Mapping[str, Any]) -> bool:
        """Whether ``body`` has these fields and no others, each of its type."""
        try:
            if len(body) != self._count or (*map(type, self._get(body)),) != self._types:
                return False
            return not self._rules or obeys(body, self._rules)
        except KeyError:
            return False

    def hold(self, body: Mapping[str, Any]) -> bool:
        """Whether ``body`` has each of these fields of its type. Raises KeyError for one that it does not have."""
        return (*map(type, self._get(body)),) == self._types and obeys(body, self._rules)


def obeys(body: Mapping[str, Any], rules: Iterable[tuple[str, Rule]]) -> bool:
    """Whether what ``body`` has in each field is as its rule wants it. Raises KeyError for a field that it lacks."""
    for name, rule in rules:  # noqa: SIM110 - all() of a generator takes twice as long
        if not rule(body[name]):
            return False
    return True
