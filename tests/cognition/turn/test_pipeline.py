"""A turn goes through its stages, and what each outcome leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from cognition.turn.agent_turn import AgentTurn, Reply
from cognition.turn.outcome import Abort, Continue, Outcome, Respond, Skip
from cognition.turn.pipeline import Pipeline
from cognition.turn.stage import Stage, StageSpec
from tests.cognition.twins.scripted_node import begun_turn


def says(outcome: Outcome) -> Stage:
    async def stage(turn: AgentTurn) -> Outcome:
        return outcome

    return stage


def offers(*tools: str) -> Stage:
    async def stage(turn: AgentTurn) -> Outcome:
        return Continue(replace(turn, tools=(*turn.tools, *tools)))

    return stage


def run(*stages: StageSpec, by_task: dict[str, Sequence[StageSpec]] | None = None) -> AgentTurn:
    pipeline = Pipeline(stages, {name: tuple(each) for name, each in (by_task or {}).items()})
    return asyncio.run(pipeline.run(begun_turn()))


def outcomes(turn: AgentTurn) -> list[tuple[str, str, str]]:
    return [(each.stage, each.outcome, each.why) for each in turn.stages]


def test_each_stage_gets_the_turn_that_the_one_before_has_made() -> None:
    turn = run(StageSpec("a", offers("x")), StageSpec("b", offers("y")))
    assert turn.tools == ("x", "y")
    assert outcomes(turn) == [("a", "continue", ""), ("b", "continue", "")]


def test_a_stage_that_skips_leaves_the_turn_and_says_why() -> None:
    turn = run(
        StageSpec("a", offers("x")), StageSpec("b", says(Skip("nothing to do"))), StageSpec("c", offers("z"))
    )
    assert turn.tools == ("x", "z")
    assert outcomes(turn)[1] == ("b", "skip", "nothing to do")


def test_behind_an_answer_only_what_always_runs_is_run() -> None:
    turn = run(
        StageSpec("a", says(Respond("42"))),
        StageSpec("b", offers("never")),
        StageSpec("c", offers("always"), always=True),
    )
    assert turn.reply == Reply("42") and turn.tools == ("always",)
    assert [each.stage for each in turn.stages] == ["a", "c"]


def test_an_abort_is_an_error_reply_with_its_reason() -> None:
    turn = run(StageSpec("a", says(Abort("not allowed"))), StageSpec("b", offers("never")))
    assert turn.reply == Reply("not allowed", "error") and not turn.tools
    assert outcomes(turn) == [("a", "abort", "not allowed")]


def test_what_an_always_stage_answers_behind_the_end_changes_nothing() -> None:
    turn = run(
        StageSpec("a", says(Respond("first"))),
        StageSpec("b", says(Respond("second")), always=True),
        StageSpec("c", says(Abort("third")), always=True),
    )
    assert turn.reply == Reply("first")


def test_behind_classify_the_stages_of_the_type_of_task_take_over() -> None:
    async def classify(turn: AgentTurn) -> Outcome:
        return Continue(replace(turn, task_type="math"))

    stages = (StageSpec("classify", classify), StageSpec("b", offers("listed")))
    assert run(*stages, by_task={"math": [StageSpec("m", offers("own"))]}).tools == ("own",)
    assert run(*stages, by_task={"chat": [StageSpec("m", offers("own"))]}).tools == ("listed",)
