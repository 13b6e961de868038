"""The shape that an answer was asked for in: a JSON Schema, against which it is held. Pure.

The checker is loaded when a shape is asked for, and by nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from cognition.errors import ConfigurationError
from cognition.execution.fences import unfenced

ASKED_AGAIN = 2
"""So often a model is asked again for an answer of that shape."""
WHY_CHARS = 300
Check = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Shape:
    """``check``: what is wrong with a value, empty when nothing is; None: any text will do. ``misses``: how many
    answers were of another shape.
    """

    check: Check | None = None
    misses: int = 0

    def fault_of(self, text: str) -> str:
        """What is wrong with an answer; empty when it is of the shape."""
        if self.check is None:
            return ""
        try:
            value = json.loads(self.text_of(text))
        except (ValueError, RecursionError) as error:
            return f"it is no JSON ({str(error)[:WHY_CHARS]})"
        return self.check(value)[:WHY_CHARS]

    def text_of(self, text: str) -> str:
        """The answer itself, without a fence around it where a shape was asked for."""
        if self.check is None:
            return text
        return unfenced(text) or text.strip()

    def missed(self) -> Shape:
        """With one more answer of another shape."""
        return replace(self, misses=self.misses + 1)

    @property
    def over(self) -> bool:
        return self.misses > ASKED_AGAIN

    def note(self, why: str) -> str:
        """What the model is told when it is asked again."""
        return f"the answer must be JSON of the shape that was asked for, and nothing else: {why}"


def shape_of(schema: Mapping[str, Any] | None) -> Shape:
    """Raises :class:`ConfigurationError` for what is no JSON Schema."""
    return Shape() if schema is None else Shape(_check_of(json.dumps(schema, sort_keys=True)))


@lru_cache(maxsize=64)
def _check_of(schema: str) -> Check:
    import jsonschema_rs  # takes memory that most cells never need

    try:
        validator = jsonschema_rs.validator_for(json.loads(schema))
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ConfigurationError(f"output_schema is no JSON Schema: {str(error)[:WHY_CHARS]}") from error

    def check(value: Any) -> str:
        error = next(validator.iter_errors(value), None)
        if error is None:
            return ""
        where = "/".join(map(str, error.instance_path)) or "it"
        return f"{where}: {error.message}"

    return check
