"""One kind of ledger entries, as a row of the table says it; and the fields that many rows have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from chain.entry.fields import DIGEST, TEXT, Field, Type

TURN = TEXT, "id of the turn"
ORDINAL = TEXT, "round and index of the syscall in its turn"
CALL_HASH = DIGEST, "SHA-256 of the canonical call"
ADDRESS = TEXT, "address of the process"
MESSAGE = TEXT, "id of the message"
ORIGIN = TEXT, "true name of the other node"


@dataclass(frozen=True, slots=True)
class Kind:
    """``fields``: what each field of the body is, and what it means. ``durable``: it is written to the disk at once,
    unless ``lazy_when`` says of its body that nobody outside the node hears of it before of something that is.
    """

    name: str
    meaning: str
    fields: Mapping[str, Field]
    durable: bool
    lazy_when: Callable[[Mapping[str, Any]], bool] | None = None

    def is_durable(self, body: Mapping[str, Any]) -> bool:
        """Whether an entry with ``body`` is written to the disk at once, with all before it."""
        return self.durable and not (self.lazy_when is not None and self.lazy_when(body))

    def check(self, body: Mapping[str, Any]) -> list[str]:
        """Every field that ``body`` lacks, has too many, or has with another type than its own, in words."""
        lacking = [f"{self.name} lacks the field {name}" for name in self.fields if name not in body]
        unknown = [f"{self.name} has no field {name}" for name in body if name not in self.fields]
        return [*lacking, *unknown, *self.mistyped(body)]

    def mistyped(self, body: Mapping[str, Any]) -> list[str]:
        """Every field of ``body`` that has another type than its own, in words."""
        return [
            f"{self.name}: {name} is {type(body[name]).__name__}, must be {field.type.words}"
            for name, field in self.fields.items()
            if name in body and not field.type.holds(body[name])
        ]


def kind(name: str, meaning: str, /, *, durable: bool = False, **fields: tuple[Type, str]) -> Kind:
    """A row of the table."""
    return Kind(name, meaning, MappingProxyType({key: Field(*row) for key, row in fields.items()}), durable)
