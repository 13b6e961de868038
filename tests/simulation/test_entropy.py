"""Time and randomness that no seed decides are noticed, when ours asks for them."""

from __future__ import annotations

import random
import time
from types import FunctionType

from tests.simulation.entropy import no_hidden_entropy


def test_who_of_ours_asks_is_named_and_gets_its_answer_and_nobody_else_is_noticed() -> None:
    def ask() -> float:
        return time.time() + random.random()

    inside = FunctionType(ask.__code__, {"__name__": "kernel.turn.turns", "time": time, "random": random})
    found: list[str] = []
    with no_hidden_entropy(found.append):
        ask()
        assert found == []
        assert inside() > 0
    assert found == [
        "kernel.turn.turns asks time.time, which no seed decides",
        "kernel.turn.turns asks random.random, which no seed decides",
    ]
    inside()
    assert len(found) == 2
