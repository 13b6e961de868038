"""The keys of ``[guard]``: what becomes of text that reads like orders to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

Action = Literal["off", "flag", "strip", "refuse"]


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """``injection``: nothing is looked at; the model is told beside it; the lines in question are left out; or the
    message is not taken, and a tool's result not shown. ``threshold``: the score from which a text is suspicious.
    """

    injection: Action = "flag"
    threshold: Annotated[float, Ge(0.1), Le(10)] = 1.0
