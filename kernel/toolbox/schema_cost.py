"""How many steps a check against a JSON Schema can take, counted before it is made.

A validator walks a schema as it is written: what is referred to twice for one value is walked twice for it, and
alternatives that lead back to their own beginning are walked as often as there are paths through them, which is
exponential in how deep the *value* is nested. The schema is a third party's, the value a model's, and the check runs
on the node's loop: so both are counted first.

One *step* is one schema looked at for one value, or one name of it, or ``_FOUND_AT_ONCE`` states of a pattern for one
character: a pattern runs in linear time, but what is repeated in it by number counts as often, and 8000 states take
3 s for 20,000 characters. The count follows the walk, but each pair of schema and value is counted once and
remembered, so counting takes a product where walking takes a power. It assumes that nothing ends early and every
pattern matches: a bound, not a forecast. It imitates the validator, so what it does not know, a keyword or a form of
a pattern, is refused.

To *explain* a fault costs more than to find it: of each alternative it is first asked whether it fits, and then every
fault of every one is built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_PER_VALUE = 1000
"""Schemas that one schema may have looked at for one and the same value."""
MAX_PATTERNS = 100
"""Different patterns in one schema: each takes up to 10 ms and 1 MiB to compile."""
_MAX_COUNTED = 100_000  # pairs and children that one count looks at
_FOUND_AT_ONCE = 8
_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_CLASS = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]?", re.DOTALL)
_ALWAYS = ("$ref", "allOf", "dependentSchemas", "dependencies")
_ALTERNATIVES = ("anyOf", "oneOf", "if", "then", "else", "not")
_ELEMENTS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_NAMED = ("properties", "patternProperties")
_OTHERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EVERY = (*_ALWAYS, *_ALTERNATIVES, *_ELEMENTS, *_NAMED, *_OTHERS)
_LOOKED_THROUGH = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies")
_REMEMBERING = ("unevaluatedItems", "unevaluatedProperties")
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_READ_THROUGH = ("contentEncoding", "contentMediaType", "format")
_FLOAT, _WIDE = 10.0, 1000.0  # steps to compare a number: one with a fraction, one of hundreds of digits
_DIVIDED = 5  # times as much as to compare it
_IN_PAIRS = 8  # times that a part of an array is compared to find equal ones
_WIDE_EXPONENT = 64
_COUNTED = frozenset(
    [
        "multipleOf",
        "enum",
        "const",
        "uniqueItems",
        "type",
        "required",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
    ]
).union(_EVERY, _LOOKED_THROUGH, _LIMITS, _READ_THROUGH)
_UNCHECKED = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$comment",
        "$defs",
        "definitions",
        "components",
        "contentSchema",
        "title",
        "description",
        "default",
        "example",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "nullable",
        "discriminator",
        "xml",
        "externalDocs",
        "enumNames",
        "enumDescriptions",
        "errorMessage",
        "markdownDescription",
        "markdownEnumDescriptions",
        "propertyOrdering",
    ]
)
_MAX_DEPTH = 32  # of a value, kernel.toolbox.arguments
_ESCAPED = re.compile(
    r"\\(?:[pP](?:[A-Z]|\{\w+(?:=\w+)?\})|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[xu]\{[0-9a-fA-F]+\}|c[a-zA-Z]"
    r"|[dDwWsSbBAznrtfv]|[^a-zA-Z0-9<>])",
    re.DOTALL,
)
_OPENED = re.compile(r"\(\?(?:[ims]*[:)]|P?<[A-Za-z_]\w*>)")


class CostError(Exception):
    """A schema of which no bound can be told, or whose bound is too high. The message says why."""


class Steps(NamedTuple):
    """Steps of a check at most: to say whether the value fits, and to explain why it does not."""

    decide: float
    explain: float


class _Fixed(NamedTuple):
    """What one schema adds for each value, told once."""

    names: float
    compared: float  # members of enum and const
    numeric: float
    per_char: float
    per_name: float
    per_name_char: float
    always: tuple[Any, ...]
    alternatives: tuple[Any, ...]


class SchemaCost:
    """The bound of one schema.

    ``per_value`` is what it can cost for each value within an argument, and ``per_char`` for each character, infinite
    when it is recursive; ``alternatives`` says whether a fault may hold the faults of several schemas.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises :class:`CostError`."""
        self._schema = schema
        try:
            _refuse_moving_references(schema)
            reached = _reached(schema)
            for part in reached:
                _refuse_unknown_keywords(part)
                _refuse_wide_numbers(part)
            in_place: dict[int, float] = {}
            for part in reached:
                self._check_in_place(part, in_place)
            self._fixed = {id(part): _fix(schema, part) for part in reached}
            self.per_value = self._expansion(schema, {})
        except RecursionError:
            raise CostError("its parts are nested too deeply") from None
        widest = max(fixed.per_char + fixed.per_name_char for fixed in self._fixed.values())
        self.per_char = self.per_value * widest if widest else 0.0
        self.alternatives = any("anyOf" in part or "oneOf" in part for part in reached)

    def count(self, value: Any) -> Steps:
        """The steps of checking ``value``, infinite where counting them would itself take too long."""
        try:
            return _Count(self._schema, self._fixed).of(self._schema, value)
        except (_TooMany, RecursionError):
            return Steps(math.inf, math.inf)

    def _check_in_place(self, schema: Any, known: dict[int, float]) -> float:
        """The schemas that ``schema`` has looked at for the value it is given."""
        key = id(schema)
        if key in known:
            if known[key] < 0:
                raise CostError("a $ref leads back to itself without going into a value")
            return known[key]
        known[key] = -1.0
        here = 1.0
        if isinstance(schema, dict):
            here += sum(
                self._check_in_place(each, known)
                for each in _parts(self._schema, schema, *_ALWAYS, *_ALTERNATIVES)
            )
        if here > MAX_PER_VALUE:
            raise CostError(f"it has one value checked against more than {MAX_PER_VALUE} schemas")
        known[key] = here
        return here

    def _expansion(self, schema: Any, known: dict[int, float]) -> float:
        key = id(schema)
        if key not in known:
            known[key] = math.inf  # where it leads back to itself
            total = 1.0
            if isinstance(schema, dict):
                fixed = self._fixed[key]
                in_pairs = _IN_PAIRS * _MAX_DEPTH * bool(schema.get("uniqueItems"))
                total = fixed.names + _WIDE * (fixed.compared + fixed.numeric + in_pairs)
                total += sum(self._expansion(each, known) for each in _parts(self._schema, schema, *_EVERY))
                if any(name in schema for name in _REMEMBERING):
                    total = math.inf
            known[key] = total
        return known[key]


def refuse_many_patterns(schema: Any) -> None:
    """Raises :class:`CostError` where compiling ``schema`` would take too long. Asked before it is compiled."""
    patterns: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            own = part.get("pattern")
            patterns.update(_under(part, "patternProperties"), [own] if isinstance(own, str) else ())
        if isinstance(part, (dict, list)):
            waiting.extend(part.values() if isinstance(part, dict) else part)
    if len(patterns) > MAX_PATTERNS:
        raise CostError(f"it has {len(patterns)} different patterns, at most {MAX_PATTERNS} are accepted")


class _TooMany(Exception):
    pass


class _Count:
    """One count. Values without parts are alike: one entry serves all of them."""

    def __init__(self, root: dict[str, Any], fixed: dict[int, _Fixed]) -> None:
        self._root = root
        self._fixed = fixed
        self._known: dict[tuple[int, int], Steps] = {}
        self._left = _MAX_COUNTED

    def of(self, schema: Any, value: Any) -> Steps:
        if not isinstance(schema, dict):
            return Steps(1.0, 1.0)
        key = (
            id(schema),
            id(value) if type(value) in (dict, list) else -len(value) if type(value) is str else _kind(value),
        )
        known = self._known.get(key)
        if known is None:
            self._spend(1)
            known = self._known[key] = self._sum(schema, value)
        return known

    def _sum(self, schema: dict[str, Any], value: Any) -> Steps:
        fixed = self._fixed[id(schema)]
        decide = explain = fixed.names + self._compared(schema, fixed, value)
        for part in fixed.always:
            steps = self.of(part, value)
            decide, explain = decide + steps.decide, explain + steps.explain
        for part in fixed.alternatives:
            steps = self.of(part, value)
            decide, explain = decide + steps.decide, explain + steps.decide + steps.explain
        if any(name in schema for name in _REMEMBERING) and type(value) in (dict, list):
            decide, explain = decide * (1 + len(value)), explain * (1 + len(value))  # asked again for each
        for part, child in self._children(schema, value):
            steps = self.of(part, child)
            decide, explain = decide + steps.decide, explain + steps.explain
        return Steps(decide, explain)

    def _compared(self, schema: dict[str, Any], fixed: _Fixed, value: Any) -> float:
        """What equality, size and form of ``value`` cost."""
        weight = _weight(value)
        steps = weight * fixed.compared
        if type(value) in (int, float):
            steps += weight * fixed.numeric
        elif type(value) is str:
            steps += len(value) * fixed.per_char
        elif type(value) is dict and fixed.per_name:
            steps += len(value) * fixed.per_name + sum(map(len, value)) * fixed.per_name_char
        elif type(value) is list and schema.get("uniqueItems"):
            steps += _IN_PAIRS * self._within(value)
        return steps

    def _within(self, value: Any) -> float:
        if type(value) not in (dict, list):
            return _weight(value)
        self._spend(len(value))
        return len(value) + sum(map(self._within, value.values() if type(value) is dict else value), 0.0)

    def _children(self, schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """What is looked at within ``value``, and for which schema."""
        if type(value) is list:
            for part in _parts(self._root, schema, *_ELEMENTS):
                self._spend(1 + len(value))
                yield from ((part, child) for child in value)
        elif type(value) is dict:
            named = _under(schema, "properties")
            self._spend(len(named))
            yield from ((part, value[name]) for name, part in named.items() if name in value)
            for part in _parts(self._root, schema, "patternProperties"):
                self._spend(1 + len(value))
                yield from ((part, child) for child in value.values())
            for part in _parts(self._root, schema, "additionalProperties", "unevaluatedProperties"):
                self._spend(1 + len(value))
                yield from ((part, child) for name, child in value.items() if name not in named)
            for part in _parts(self._root, schema, "propertyNames"):
                self._spend(1 + len(value))
                yield from ((part, name) for name in value)

    def _spend(self, looked_at: int) -> None:
        self._left -= looked_at
        if self._left < 0:
            raise _TooMany


def _fix(root: dict[str, Any], schema: dict[str, Any]) -> _Fixed:
    own, patterns = schema.get("pattern"), _under(schema, "patternProperties")
    read = _size(own) if isinstance(own, str) else 0.0
    return _Fixed(
        names=_names(schema),
        compared=_members(schema),
        numeric=float(sum(name in schema for name in _LIMITS) + _DIVIDED * ("multipleOf" in schema)),
        per_char=(read + sum(name in schema for name in _READ_THROUGH)) / _FOUND_AT_ONCE,
        per_name=float(len(patterns)),
        per_name_char=sum(map(_size, patterns)) / _FOUND_AT_ONCE,
        always=tuple(_parts(root, schema, *_ALWAYS)),
        alternatives=tuple(_parts(root, schema, *_ALTERNATIVES)),
    )


def _names(schema: dict[str, Any]) -> float:
    """The names that are looked for, one after the other, and the schema itself."""
    return 1.0 + sum(len(_under(schema, name)) for name in _LOOKED_THROUGH)


def _members(schema: dict[str, Any]) -> float:
    """What a value is compared with, part by part."""
    members = schema.get("enum")
    compared = [
        *(members if isinstance(members, list) else ()),
        *([schema["const"]] if "const" in schema else ()),
    ]
    return sum(map(_size_of, compared), 0.0)


def _size_of(value: Any) -> float:
    if type(value) in (dict, list):
        return 1.0 + sum(map(_size_of, value.values() if type(value) is dict else value))
    return 1.0


def _weight(value: Any) -> float:
    """Steps of comparing ``value``, or a part of it, once. A number is compared exactly, by fractions as long as it."""
    if type(value) in (dict, list):
        return _WIDE
    return (1.0, _FLOAT, _WIDE)[_kind(value)]


def _kind(value: Any) -> int:
    if type(value) is int:
        return 0 if value.bit_length() <= _WIDE_EXPONENT else 2
    if type(value) is not float:
        return 0
    return 1 if abs(math.frexp(value)[1]) <= _WIDE_EXPONENT else 2


def _refuse_unknown_keywords(schema: dict[str, Any]) -> None:
    for name in schema:
        if name not in _COUNTED and name not in _UNCHECKED and not name.startswith("x-"):
            raise CostError(
                f"the keyword {name[:60]!r} is not known: leave it out, or begin its name with x-"
            )


def _refuse_wide_numbers(schema: dict[str, Any]) -> None:
    """A number of the schema is compared with each of the value."""
    compared: list[Any] = [
        schema[name] for name in (*_LIMITS, "multipleOf", "const", "enum") if name in schema
    ]
    while compared:
        part = compared.pop()
        if type(part) in (dict, list):
            compared.extend(part.values() if type(part) is dict else part)
        elif _kind(part) == 2:
            raise CostError(f"the number {str(part)[:30]} is none between 2^-64 and 2^64")


def _under(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    under = schema.get(keyword)
    return under if isinstance(under, dict) else {}


def _size(pattern: str) -> float:
    """The states of a pattern, about: its length, and what is repeated by number as often."""
    groups, last, at = [0.0], 0.0, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "{" and (repeated := _REPEATED.match(pattern, at)):
            times = max(float(number or 0) for number in repeated.groups())
            groups[-1] += last * max(times - 1, 0.0)
            last *= max(times, 1.0)
            at = repeated.end()
            continue
        if letter == "{":
            raise _strange(pattern, "a { that begins no {n}, {n,} or {n,m}: write \\{")
        if letter == "(":
            if pattern.startswith("(?", at) and not _OPENED.match(pattern, at):
                raise _strange(pattern, "a (? that is none of (?: (?i) (?m) (?s) (?<name>")
            groups.append(0.0)
        elif letter == ")" and len(groups) > 1:
            last = max(groups.pop(), 1.0)
            groups[-1] += last
        elif letter in "*+?|":
            groups[-1] += 1
        else:
            last = 4.0 if letter in "\\[." else 1.0
            groups[-1] += last
            whole = _CLASS.match(pattern, at) if letter == "[" else None
            if letter == "\\":
                whole = _ESCAPED.match(pattern, at)
                if whole is None:
                    raise _strange(pattern, f"an escape that is not known, {pattern[at : at + 2]}")
            if whole:
                if whole[0] in ("[]", "[^]"):
                    raise _strange(pattern, "a class that begins with ]: write \\]")
                at = whole.end() - 1
        at += 1
    return sum(groups)


def _strange(pattern: str, what: str) -> CostError:
    return CostError(f"the pattern {pattern[:100]!r} has {what}")


def _parts(root: dict[str, Any], schema: dict[str, Any], *keywords: str) -> Iterator[Any]:
    """The schemas under ``keywords`` of ``schema``."""
    for keyword in keywords:
        if keyword not in schema:
            continue
        under = schema[keyword]
        if keyword == "$ref":
            yield _target(root, under)
        elif keyword in (*_NAMED, "dependentSchemas", "dependencies"):
            yield from _under(schema, keyword).values()
        elif isinstance(under, list):
            yield from under
        else:
            yield under


def _reached(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Every schema that a check can come to."""
    reached: dict[int, dict[str, Any]] = {}
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and id(part) not in reached:
            reached[id(part)] = part
            waiting.extend(_parts(schema, part, *_EVERY))
    return list(reached.values())


def _target(root: dict[str, Any], reference: Any) -> Any:
    """What a reference within the document points at (RFC 6901 in a URI fragment)."""
    found: Any = root
    for step in str(reference).removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise CostError(f"nothing is at {str(reference)[:100]!r}") from None
    return found


def _refuse_moving_references(schema: dict[str, Any]) -> None:
    """References are followed by their path alone: what changes where a path begins, or where it leads while a value
    is checked, is refused."""
    own_names = ("$id", "id") if "draft-04" in str(schema.get("$schema")) else ("$id",)
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
            reference = part.get("$ref")
            if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
                raise CostError(f"$ref is {reference[:100]!r}, must be # or a path that begins with #/")
            if isinstance(reference, str) and "%" in reference:
                raise CostError(f"$ref is {reference[:100]!r}, must be written without %")
            for name in ("$dynamicRef", "$recursiveRef"):
                if isinstance(part.get(name), (str, bool)):
                    raise CostError(f"{name} is not accepted, use $ref")
            for name in own_names:
                if part is not schema and isinstance(part.get(name), str):
                    raise CostError(f"{name} is accepted at the top alone")
