"""Operations on the node's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import Limit, Noun, Operation


@dataclass(frozen=True, slots=True)
class Rotate:
    """Why: one line."""

    reason: Annotated[str, Limit(min_length=1, max_length=200)]


class Rotated(TypedDict):
    """The new keys; ``number`` is 1 for the first change."""

    origin: str
    number: int
    ed25519: str
    ml_dsa_65: str
    seq: int


class Keys(Noun):
    """The node's signing keys."""

    rotate = Operation(
        "POST", "/keys/rotate", Rotate, Rotated, "Change both signing keys of the node.", recorded="rotate"
    )
