"""Arguments of a tool call: JSON text that a model wrote, parsed once, strictly, and validated against a
schema.

A fault is data for the model, so every message here is one bounded line that says what was wrong and what is
right.

Canonical JSON here means: keys sorted by code point, no spaces, no escapes but the needed ones, UTF-8, no
NaN. Two texts with equal values have equal canonical texts (``1`` and ``1.0`` are different values).
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NoReturn

import jsonschema_rs

from kernel.toolbox.schema_cost import CostError, SchemaCost, refuse_many_patterns

MAX_ARGUMENTS_BYTES = 256 * 2**10
MAX_DEPTH = 32
MAX_FAULTS = 3
MAX_MESSAGE_CHARS = 300
_MAX_STEPS = 2_000_000  # of one check; up to 0.2 microseconds each
_MAX_EXPLAINED = 5000  # steps; each may build an error, some 12 microseconds,
_MAX_EXPLAINED_CHARS = 16 * 2**20  # and each error holds a copy of what it is about
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1
_INTEGER_CHARS = 20  # of -9223372036854775808 and of 18446744073709551615


class ArgumentsError(Exception):
    """The arguments are not acceptable. The message is fit for the model that wrote them."""


class SchemaError(Exception):
    """A tool's JSON Schema cannot be used. The message says why; the fault is the tool's author's."""


def parse_arguments(text: str, limit: int = MAX_ARGUMENTS_BYTES) -> dict[str, Any]:
    """The arguments object. Blank text means no arguments. ``limit`` is in bytes of UTF-8.

    Refused with :class:`ArgumentsError`: more than ``limit`` bytes, anything that is not one JSON object,
    duplicate keys, NaN and infinities (also as 1e999), integers over 64 bits, nesting over ``MAX_DEPTH``,
    lone surrogates.
    """
    _check_size(text, limit)
    if not text.strip():
        return {}
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ArgumentsError(f"arguments are not valid JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ArgumentsError(f"arguments are nested deeper than {MAX_DEPTH} levels") from None
    if type(value) is not dict:
        raise ArgumentsError(f"arguments must be a JSON object, not {_json_type(value)}")
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if "\\u" in text:
        _check_encodable(value)
    return value


def canonical_json(value: Any) -> str:
    """The one text of ``value``. Raises ValueError for NaN, infinities and circles, TypeError for what is not JSON."""
    return _ENCODER.encode(value)


def hash_text(text: str) -> str:
    """SHA-256 of the UTF-8 text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


class Validator:
    """A compiled JSON Schema (2020-12 unless it names another draft).

    References to other documents are refused, never fetched, patterns run in linear time, and what takes too many
    steps is refused (:mod:`kernel.toolbox.schema_cost`): a schema comes from a third party, the arguments from a
    model, and the check runs on the node.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises :class:`SchemaError` when ``schema`` is not a usable JSON Schema."""
        try:
            refuse_many_patterns(schema)
            self._validator = jsonschema_rs.validator_for(
                schema,
                retriever=_refuse_reference,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=2**20, dfa_size_limit=2**20),
            )
            self._cost = SchemaCost(schema)
        except (jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
            detail = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
            raise SchemaError(f"not a usable JSON Schema: {_one_line(detail)}") from error
        except CostError as error:
            raise SchemaError(f"not a usable JSON Schema: {_one_line(str(error))}") from error

    def check(self, arguments: dict[str, Any]) -> None:
        """Raises :class:`ArgumentsError` naming up to ``MAX_FAULTS`` faults and where they are; also where checking
        could take more than ``_MAX_STEPS``."""
        steps_at_most = self._cost.per_value * _count_values(arguments)
        if self._cost.per_char:
            steps_at_most += self._cost.per_char * len(canonical_json(arguments))
        if steps_at_most > _MAX_STEPS:
            steps = self._cost.count(arguments)
            if steps.decide > _MAX_STEPS:
                raise ArgumentsError(
                    f"checking the arguments against the tool's schema could take more than {_MAX_STEPS} steps: "
                    "send fewer values, nested less deeply"
                )
        if not self._validator.is_valid(arguments):
            raise ArgumentsError("arguments do not fit the tool's schema" + self._explain(arguments))

    def _explain(self, arguments: dict[str, Any]) -> str:
        steps = self._cost.count(arguments).explain
        cheap = steps <= _MAX_EXPLAINED and steps * len(canonical_json(arguments)) <= _MAX_EXPLAINED_CHARS
        if not cheap and self._cost.alternatives:  # the faults of each of them come with the first one
            return "; there are too many values and alternatives to name the faults"
        errors: list[jsonschema_rs.ValidationError] = []
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            errors = [error]
        if cheap and _is_small_and_flat(arguments):
            errors = list(self._validator.iter_errors(arguments))
        faults = [_describe_fault(error) for error in errors[:MAX_FAULTS]]
        if len(errors) > MAX_FAULTS:
            faults.append("and more")
        return ": " + "; ".join(faults)


def _count_values(arguments: dict[str, Any]) -> int:
    count = 1
    waiting: list[Any] = [arguments]
    while waiting:
        part = waiting.pop()
        count += len(part)
        waiting.extend(
            [
                child
                for child in (part.values() if type(part) is dict else part)
                if type(child) in (dict, list)
            ]
        )
    return count


def _check_size(text: str, limit: int) -> None:
    size = len(text)
    if size <= limit and not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ArgumentsError("arguments hold a lone surrogate, which is not text") from None
    if size > limit:
        raise ArgumentsError(f"arguments are {size} bytes, at most {limit} are accepted")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ArgumentsError(_one_line(f"the key {key!r} appears twice in one object"))
            seen.add(key)
    return value


def _integer(digits: str) -> int:
    if len(digits) <= _INTEGER_CHARS:
        value = int(digits)
        if _INTEGER_MIN <= value <= _INTEGER_MAX:
            return value
    raise ArgumentsError(f"an integer of {len(digits)} characters does not fit in 64 bits")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ArgumentsError(_one_line(f"the number {digits} is too large"))
    return value


def _constant(name: str) -> NoReturn:
    raise ArgumentsError(f"{name} is not a JSON value")


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in (dict, list)
        ]
        if not level:
            return
    raise ArgumentsError(f"arguments are nested deeper than {MAX_DEPTH} levels")


def _check_encodable(value: Any) -> None:
    try:
        canonical_json(value).encode()
    except UnicodeEncodeError:
        raise ArgumentsError("arguments hold a lone surrogate, which is not text") from None


def _json_type(value: Any) -> str:
    names: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _is_small_and_flat(arguments: dict[str, Any]) -> bool:
    return len(arguments) <= MAX_DEPTH and not any(type(item) in (list, dict) for item in arguments.values())


def _describe_fault(error: jsonschema_rs.ValidationError) -> str:
    where = "/".join(str(step) for step in error.instance_path)
    return _one_line(f"{where}: {error.message}" if where else error.message)


def _one_line(text: str) -> str:
    """``text`` on one line; of a long one the head and the tail, which says what was wrong."""
    half = MAX_MESSAGE_CHARS // 2
    if len(text) > 2 * MAX_MESSAGE_CHARS:
        text = f"{text[:half]} ... {text[-half:]}"
    return " ".join(text.split())


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"it refers to another document, {uri[:100]}, and none is fetched")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
