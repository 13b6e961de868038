"""What the verdict says of walks that went wrong in one thing each, and of the plan of the walks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tests.prove.stages.model import place_of
from tests.prove.stages.places import (
    CALLS,
    QUESTIONS,
    TITLES,
    VICTIMS,
    Case,
    places,
    plan,
    reply_of,
    steps_of,
    tool_of,
)
from tests.prove.stages.verdict import ANSWERED, COME, ONCE, OPEN, RECORDED, WHOLE, Told, Walked, faults_of

ANSWERED_US = 1_000


class Walk:
    """A walk that went well; what is to go wrong is changed in it."""

    def __init__(self) -> None:
        self.walked = Walked(Case("w", ()), "m1")
        self.told = Told("m1", [("ok", reply_of("w"))])
        self.told.answered_us = {f"{2 * number}.0": ANSWERED_US for number in range(QUESTIONS)}
        self.told.proposed = steps_of("w")
        self.asked: dict[int, list[int]] = defaultdict(list, {n: [ANSWERED_US - 9] for n in range(QUESTIONS)})
        self.happened = Counter(steps_of("w"))

    def faults(self) -> list[str]:
        return [what for what, _ in faults_of(self.walked, [self.told], self.asked, self.happened)]


def missed(walk: Walk) -> None:
    walk.walked.missed = True


def answered_twice(walk: Walk) -> None:
    walk.told.endings *= 2


def answered_otherwise(walk: Walk) -> None:
    walk.told.endings = [("error", "it crashed")]


def lost(walk: Walk) -> None:
    walk.told.endings = []


def not_done(walk: Walk) -> None:
    del walk.happened["w.3.0"]


def done_twice(walk: Walk) -> None:
    walk.happened["w.3.0"] += 1


def asked_what_was_answered(walk: Walk) -> None:
    walk.asked[2].append(ANSWERED_US + 1)


def call_not_on_record(walk: Walk) -> None:
    walk.told.proposed.remove("w.0.0")


def question_too_many(walk: Walk) -> None:
    walk.told.answered_us["99.0"] = None


def no_outcome(walk: Walk) -> None:
    walk.told.intended.add("5.0")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (missed, COME),
        (answered_twice, ANSWERED),
        (answered_otherwise, ANSWERED),
        (lost, ANSWERED),
        (not_done, ONCE),
        (done_twice, ONCE),
        (asked_what_was_answered, RECORDED),
        (call_not_on_record, WHOLE),
        (question_too_many, WHOLE),
        (no_outcome, OPEN),
    ],
)
def test_what_is_wrong_is_found(wrong: Callable[[Walk], None], said: str) -> None:
    walk = Walk()
    assert walk.faults() == []
    wrong(walk)
    assert walk.faults() == [said]


def test_a_question_that_is_put_again_before_its_answer_is_counted_and_is_no_fault() -> None:
    walk = Walk()
    walk.asked[2].append(ANSWERED_US - 1)
    assert (walk.faults(), walk.walked.again) == ([], 1)


def test_everybody_is_killed_at_each_place_and_a_sample_has_every_kind() -> None:
    whole = [case.kills for case in plan("seed", quick=False)]
    assert {kills[0] for kills in whole if len(kills) == 1} == {
        (place, victim) for place in places() for victim in VICTIMS
    }
    assert len([kills for kills in whole if len(kills) == 2]) == 24
    some = [case.kills[0] for case in plan("seed", quick=True) if len(case.kills) == 1]
    assert {(place.kind, victim) for place, victim in some} == {
        (kind, victim) for kind in ("stage", *TITLES) for victim in VICTIMS
    }
    assert len(places()) == 1 + len([p for p in places() if p.name.startswith("behind")]) + 2 * (
        CALLS + QUESTIONS
    )


def test_the_model_knows_its_round_also_behind_a_note_of_the_node() -> None:
    call = {"id": "step-0-0", "function": {"name": tool_of(0, 0), "arguments": "{}"}}
    note = {"id": "forerunner-1", "function": {"name": "how", "arguments": "{}"}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "walk w0"},
        {"role": "user", "content": "walk w7"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "done"},
        {"role": "assistant", "content": "", "tool_calls": [note]},
        {"role": "user", "content": "[note of the node: x]"},
    ]
    assert place_of(said) == ("w7", 1)
