"""Stages are put together, and everything that is wrong with it is said at once."""

from __future__ import annotations

import asyncio

import pytest

from cognition.config.agent_config import PipelineConfig, StagesConfig
from cognition.stages.table import RUNS, WRAPS, agent_builder
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.builder import PipelineBuilder, PipelineError
from cognition.turn.order import ALIASES, ORDER, REQUIRED, builder_of, loudly_absent
from cognition.turn.outcome import Outcome, Skip
from cognition.turn.stage import Stage, StageSpec
from tests.cognition.twins.scripted_node import begun_turn


async def nothing(turn: AgentTurn) -> Outcome:
    return Skip("nothing")


def spec(name: str, **more: object) -> StageSpec:
    return StageSpec(name, nothing, **more)  # type: ignore[arg-type]  # of a test's own choice


TABLE = (
    spec("classify"),
    spec("prepare", after=frozenset({"classify"})),
    spec("act", after=frozenset({"prepare"}), skippable=False),
    spec("judge", needs=frozenset({"act"}), after=frozenset({"act"})),
)


def builder() -> PipelineBuilder:
    return PipelineBuilder.of(TABLE, {"do": "act"}, frozenset({"act"}))


def faults(of: PipelineBuilder) -> str:
    with pytest.raises(PipelineError) as refused:
        of.build()
    return str(refused.value)


def test_all_stages_of_the_table_come_in_its_order() -> None:
    assert builder().build().names == ("classify", "prepare", "act", "judge")


def test_a_list_may_use_other_names_and_leaves_out_the_rest() -> None:
    assert builder().listed(["prepare", "do"]).build().names == ("prepare", "act")


def test_what_may_be_skipped_is_left_out_and_what_may_not_is_a_fault() -> None:
    assert builder().without(["judge"]).build().names == ("classify", "prepare", "act")
    assert "act cannot be skipped" in faults(builder().without(["do"]))


def test_stages_are_inserted_replaced_and_ordered() -> None:
    made = builder().insert_before("do", spec("x")).insert_after("act", spec("y"))
    assert made.build().names == ("classify", "prepare", "x", "act", "y", "judge")

    async def other(turn: AgentTurn) -> Outcome:
        return Skip("other")

    assert builder().replaced("prepare", other).build().stages[1].run is other
    order = ["classify", "prepare", "act", "x", "y", "judge"]
    assert list(made.ordered(order).build().names) == order


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (builder().listed(["prepar", "act"]), "there is no stage 'prepar'; the nearest is prepare"),
        (
            builder().listed(["zzzz", "act"]),
            "there is no stage 'zzzz'; known are classify, prepare, act, judge, do",
        ),
        (builder().without(["zzzz"]), "there is no stage 'zzzz'"),
        (builder().listed(["classify"]), "act is missing"),
        (builder().listed(["act", "prepare"]), "act stands before prepare and must stand behind it"),
        (builder().listed(["act", "act"]), "act is there twice"),
        (builder().listed(["judge"]), "judge needs act, which is not there"),
        (builder().insert_after("zzzz", spec("x")), "there is no stage 'zzzz'"),
        (builder().without(["judge"]).insert_after("judge", spec("x")), "judge is not among the stages"),
        (builder().without(["judge"]).replaced("judge", nothing), "judge is not among the stages"),
        (builder().ordered(["act"]), "the order names act, but the stages are classify, prepare, act, judge"),
        (builder().without(["classify"]).for_task("math", builder()), "math: no task has a type without"),
        (builder().for_task("math", builder().listed(["judge"])), "for math: judge needs act"),
    ],
)
def test_each_fault_is_said(of: PipelineBuilder, words: str) -> None:
    assert words in faults(of)


def test_all_faults_are_said_in_one_error() -> None:
    said = faults(builder().listed(["nosuch", "judge", "judge"]).without(["act"]))
    for words in ("no stage 'nosuch'", "act cannot be skipped", "judge is there twice", "act is missing"):
        assert words in said


def test_the_stages_of_a_task_are_those_of_its_own_behind_what_runs_before() -> None:
    pipeline = builder().for_task("math", builder().without(["prepare"])).build()
    assert [stage.name for stage in pipeline.by_task["math"]] == ["act", "judge"]


def test_a_stage_that_wraps_another_runs_around_it() -> None:
    ran: list[str] = []

    def around(inner: Stage) -> Stage:
        async def outer(turn: AgentTurn) -> Outcome:
            ran.append("before")
            outcome = await inner(turn)
            ran.append("after")
            return outcome

        return outer

    async def act(turn: AgentTurn) -> Outcome:
        ran.append("act")
        return Skip("done")

    table = (StageSpec("act", act), StageSpec("guard", nothing, wraps="act", wrap=around))
    asyncio.run(PipelineBuilder.of(table, {}, frozenset()).build().run(begun_turn()))
    assert ran == ["before", "act", "after"]


def test_a_configuration_with_no_list_has_every_stage() -> None:
    assert builder_of(PipelineConfig()).build().names == tuple(stage.name for stage in ORDER)


def test_every_stage_that_may_be_absent_says_what_is_done_without_it() -> None:
    assert [stage.name for stage in ORDER if bool(stage.absent) == (stage.name in REQUIRED)] == []
    assert set(ALIASES.values()) <= {stage.name for stage in ORDER}


def test_who_leaves_out_the_guard_of_the_context_is_told_so() -> None:
    config = PipelineConfig(skip_stages=("assemble",))
    [said] = loudly_absent(builder_of(config).build())
    assert said.startswith("without context_guard the model is shown")
    assert loudly_absent(builder_of(PipelineConfig()).build()) == []
    of_a_task = PipelineConfig(tasks={"math": StagesConfig(skip_stages=("context_guard",))})
    assert loudly_absent(builder_of(of_a_task).build()) == [f"for math: {said}"]


def test_a_configuration_has_other_stages_for_a_type_of_task() -> None:
    tasks = {"math": StagesConfig(stages=("execute",)), "chat": StagesConfig(skip_stages=("learn",))}
    pipeline = agent_builder(PipelineConfig(tasks=tasks)).build()
    before = ("auth_resolve", "history_sanitize", "classify")
    assert pipeline.names_for("math") == (*before, "execute")
    assert pipeline.names_for("chat") == pipeline.names[:-1]
    assert pipeline.names_for("research") == pipeline.names
    assert pipeline.by_task["math"][0].run is RUNS["execute"]


def test_stages_for_a_type_of_task_that_there_is_not_are_a_fault() -> None:
    with pytest.raises(
        PipelineError, match=r"for 'poetry': no task has this type; they are code_generation, .*chat"
    ):
        builder_of(PipelineConfig(tasks={"poetry": StagesConfig(stages=("execute",))})).build()


def test_every_stage_has_its_code() -> None:
    assert set(RUNS) == {stage.name for stage in ORDER}
    assert set(WRAPS) == {stage.name for stage in ORDER if stage.wraps}
    assert [stage.run for stage in agent_builder(PipelineConfig()).stages] == list(RUNS.values())
