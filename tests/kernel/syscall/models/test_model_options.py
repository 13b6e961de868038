"""How a model is asked to answer: what may be said of it, and what that makes of a question and of its answer."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.budget.price import Price
from kernel.cell.protocol import ModelOptions, said_options
from kernel.errors import Invalid
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budget
from kernel.shapes import told
from kernel.state.record_forms import FORMS
from kernel.syscall.models.model_answer import checked_answer, recorded_answer
from kernel.syscall.models.model_options import check_options, told_options
from kernel.syscall.models.model_question import Base
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.models.test_model_calls import turn_of_ada, user
from tests.kernel.syscall.models.test_model_question import asked
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin, answer_of

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}
ALL = ModelOptions(0.5, 0.9, 40, 100, SCHEMA, False, 5, True, False)
REST = {"messages": [{"role": "user", "content": "?"}], "tools": ["a"], "provider": "p", "model": "m"}


def test_a_question_that_uses_none_of_them_is_what_it_was_before_there_were_any() -> None:
    """The hashes are those that were recorded by a build without them."""
    one = asked(REST, Base())
    assert one.call_hash == "47f3c0d452026fd9e163b52825d5994cf1bf57044771c088ea4214182ba9c587"
    assert one.request_hash == "c83796ff0eb4c39f98afe322786de32a6aeb408ec9231d121337d20dbc59c82f"
    assert one.rest == '{"model":"m","provider":"p","tools":["a"]}'
    usual = asked({**REST, "options": told(ModelOptions())}, Base())
    assert (usual.call_hash, usual.request_hash, usual.told) == (one.call_hash, one.request_hash, one.told)


@pytest.mark.parametrize("name", ModelOptions.__slots__)
def test_each_of_them_is_part_of_what_was_asked(name: str) -> None:
    one = ModelOptions(**{name: getattr(ALL, name)})
    question = asked({**REST, "options": told(one)}, Base())
    assert said_options(one) == {"options": {name: getattr(ALL, name)}}
    assert f'"options":{{"{name}":' in question.rest
    assert f'"options":{{"{name}":' in question.told
    assert question.call_hash != asked(REST, Base()).call_hash


def test_the_gateway_is_told_those_that_are_for_the_model_and_the_lesser_of_two_limits() -> None:
    drawn = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "output_schema": SCHEMA}
    assert told_options(ALL, 0) == {**drawn, "max_tokens": 100, "retry": False, "stream": False}
    assert told_options(ALL, 70)["max_tokens"] == 70
    assert told_options(ALL, 170)["max_tokens"] == 100
    assert told_options(None, 70) == {"max_tokens": 70}
    assert told_options(None, 0) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1, must be from 0 to 2"),
        ({"temperature": 2.1}, "temperature is 2.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0, must be above 0"),
        ({"top_p": 1.01}, "top_p is 1.01, must be from 0 to 1"),
        ({"top_k": 0}, "top_k is 0, must be from 1"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"max_tokens": 2**31}, "max_tokens is 2147483648"),
        ({"after_ms": 600_001}, "after_ms is 600001, must be from 0 to 600000"),
        ({"after_ms": -1}, "after_ms is -1"),
        ({"output_schema": {"enum": ["x" * 70_000]}}, "output_schema of 70013 bytes, limit 65536"),
        ({"output_schema": {"enum": [{1: 2}]}}, "a key in output_schema is no text"),
        ({"output_schema": {"enum": [math.nan]}}, "not expressible as JSON"),
    ],
)
def test_what_nobody_can_be_asked_is_refused_with_what_is_wrong(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_options(ModelOptions(**given), Bounds())


def test_the_ends_of_what_may_be_asked_may_be_asked() -> None:
    for options in (
        ModelOptions(0.0, 1.0, 1, 2**31 - 1, {}, after_ms=600_000),
        ModelOptions(2.0, 0.001, 1_000_000),
        None,
    ):
        check_options(options, Bounds())


def test_a_refusal_of_them_is_an_answer_that_is_recorded(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_model(at, [user("?")], options=ModelOptions(temperature=3.0))
        answer = await twin.result()
        assert (answer["status"], answer["error_kind"]) == ("error", "invalid")
        assert answer["text"] == "temperature is 3.0, must be from 0 to 2"
        assert twin.gateway.asked == []
        twin.crash(at)
        twin.ask_model(await twin.delivery(), [user("?")], options=ModelOptions(temperature=3.0))
        assert await twin.result() == answer

    on_twin(tmp_path, body)


FULL = {
    **answer_of("so"),
    "status": "error",
    "error_kind": "rate_limited",
    "retry_after_s": 1.5,
    "stop_reason": "length",
}


def test_what_is_said_of_an_answer_is_recorded_and_the_same_when_it_is_told_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.gateway.prices["twin-1"] = Price(2_000_000, 10_000_000)
        twin.gateway.answer = lambda request: FULL
        twin.ask_model(at, [user("?")], options=ALL)
        answer = await twin.result()
        assert answer["error_kind"] == "rate_limited" and answer["retry_after_s"] == 1.5
        assert (answer["stop_reason"], answer["provider"], answer["model"]) == ("length", "twin", "twin-1")
        assert answer["cost_millionths"] == 3 * 2 + 1 * 10
        [asked] = twin.gateway.asked
        assert {name: asked[name] for name in told_options(ALL, 0)} == told_options(ALL, 0)
        [entry] = await twin.entries("model.answered")
        recorded = {name: entry.body[name] for name in FORMS["model.answered"].earlier}
        assert recorded == {
            "cached_tokens": 0,
            "error_kind": "rate_limited",
            "retry_after_ms": 1500,
            "stop_reason": "length",
            "provider": "twin",
            "model": "twin-1",
            "cost_millionths": 16,
        }
        twin.crash(at)
        twin.ask_model(await twin.delivery(), [user("?")], options=ALL)
        assert await twin.result() == answer
        assert len(twin.gateway.asked) == 1

    on_twin(tmp_path, body)


def test_an_answer_of_an_older_version_says_none_of_it() -> None:
    old = {"status": "ok", "answer": '{"text":"x","tool_calls":[]}', "tokens": [3, 1]}
    answer = recorded_answer(old)
    assert (answer.input_tokens, answer.output_tokens, answer.cached_tokens) == (3, 1, 0)
    assert (answer.error_kind, answer.retry_after_s, answer.cost_millionths) == ("", 0.0, None)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"error_kind": "haunted"}, {"error_kind": "server"}),
        ({"error_kind": 7}, {"error_kind": "server"}),
        ({"error_kind": ""}, {"error_kind": "server"}),
        ({"error_kind": "timeout"}, {"error_kind": "timeout"}),
        ({"retry_after_s": -1}, {"retry_after_ms": 0}),
        ({"retry_after_s": math.inf}, {"retry_after_ms": 0}),
        ({"retry_after_s": 10.0**12}, {"retry_after_ms": 86_400_000}),
        ({"stop_reason": ["stop"]}, {"stop_reason": ""}),
        ({"stop_reason": "because"}, {"stop_reason": ""}),
    ],
)
def test_what_a_gateway_says_that_nobody_knows_is_not_taken(
    said: dict[str, Any], kept: dict[str, Any]
) -> None:
    checked = checked_answer({**answer_of("x"), "status": "error", **said}, Bounds())
    assert {name: checked[name] for name in kept} == kept


def test_an_answer_has_no_kind_of_error() -> None:
    checked = checked_answer({**answer_of("x"), "error_kind": "timeout"}, Bounds())
    assert "error_kind" not in checked


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(HelperLost("gone"), "transport"), (HelperRefused("no"), "invalid"), (ValueError("?"), "invalid")],
)
def test_what_was_wrong_on_the_way_has_a_kind(tmp_path: Path, fault: Exception, kind: str) -> None:
    async def body(twin: Twin) -> None:
        def fail(request: dict[str, Any]) -> dict[str, Any]:
            raise fault

        at = await turn_of_ada(twin)
        twin.gateway.answer = fail
        twin.ask_model(at, [user("?")])
        assert (await twin.result())["error_kind"] == kind

    on_twin(tmp_path, body)


def test_what_takes_too_long_and_what_no_budget_pays_have_kinds(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        twin.gateway.answer = lambda request: asyncio.Event().wait()
        at = await turn_of_ada(twin)
        twin.ask_model(at, [user("?")])
        late = await twin.result()
        assert (late["error_kind"], late["cost_millionths"]) == ("timeout", None)
        await twin.spawn("bob", budget=Budget(money="1"))
        await twin.send("bob")
        twin.ask_model(await twin.delivery(), [user("?")])
        assert (await twin.result())["error_kind"] == "budget"

    on_twin(tmp_path, body, bounds=Bounds(model_timeout_s=0.05))


@pytest.mark.parametrize(
    ("counts", "price", "cost"),
    [
        ((3, 1), None, None),
        ((3, 1), Price(2_000_000, 10_000_000), 16),
        ((0, 0), Price(2_000_000, 10_000_000), None),
        ((0, 0), Price(), 0),
    ],
)
def test_an_answer_has_a_cost_where_there_is_a_price_and_somebody_counts(
    tmp_path: Path, counts: tuple[int, int], price: Price | None, cost: int | None
) -> None:
    async def body(twin: Twin) -> None:
        if price is not None:
            twin.gateway.prices["twin-1"] = price
        twin.gateway.answer = lambda request: {
            **answer_of("x"),
            "input_tokens": counts[0],
            "output_tokens": counts[1],
        }
        twin.ask_model(await turn_of_ada(twin), [user("?")])
        assert (await twin.result())["cost_millionths"] == cost

    on_twin(tmp_path, body)


def stage_of(twin: Twin, at: Delivery) -> str:
    stage = twin.kernel.model_calls.stage(at.turn, "0.0")
    return stage.name if stage is not None else ""


LATER = ModelOptions(after_ms=600_000)


def test_a_question_that_is_to_be_put_later_waits_and_can_be_cancelled(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        at = await turn_of_ada(twin)
        twin.ask_model(at, [user("?")], options=LATER)
        assert stage_of(twin, at) == "back_off"
        [wait] = [row["waiting"] for row in await control(Processes.ps) if row["name"] == "ada"]
        assert wait is not None and (wait["kind"], wait["of"]) == ("back_off", "twin/twin-1")
        assert wait["left_s"] is not None
        assert len(await twin.entries("model.asked")) == 1
        await control(Processes.cancel, "ada")
        assert stage_of(twin, at) == ""
        assert twin.gateway.asked == []

    on_twin(tmp_path, body)


def test_one_that_waited_is_put_and_its_answer_is_given_at_once_when_it_is_asked_again(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        soon = ModelOptions(after_ms=1)
        twin.ask_model(at, [user("?")], options=soon)
        assert twin.gateway.asked == []
        answer = await twin.result()
        assert answer["status"] == "ok" and len(twin.gateway.asked) == 1
        twin.crash(at)
        twin.ask_model(await twin.delivery(), [user("?")], options=soon)
        assert await twin.result() == answer
        assert len(twin.gateway.asked) == 1

    on_twin(tmp_path, body)


def test_the_wait_for_others_at_a_provider_takes_nothing_of_the_time_of_a_question(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        free = asyncio.Event()

        async def answer(request: dict[str, Any]) -> dict[str, Any]:
            await free.wait()
            return answer_of("late")

        twin.gateway.answer = answer
        at = await turn_of_ada(twin)
        stream = f"{at.turn}:0.0"
        twin.ask_model(at, [user("?")])
        await until(lambda: bool(twin.gateway.asked))
        twin.say(HelperNotice("gateway", "slot", {"stream_id": stream, "waits": True}))
        await asyncio.wait_for(asyncio.shield(over_twice(twin)), 10)
        assert stage_of(twin, at) == "provider_slot"
        twin.say(HelperNotice("gateway", "slot", {"stream_id": stream, "waits": False}))
        assert (await twin.result())["error_kind"] == "timeout"  # its time has begun, and nobody answers

    on_twin(tmp_path, body, bounds=Bounds(model_timeout_s=0.05))


async def over_twice(twin: Twin) -> None:
    """The time of two questions passes: those of another process, that have one after the other."""
    await twin.spawn("bob")
    await twin.send("bob")
    bob = await twin.delivery()
    for round_ in range(2):
        twin.ask_model(bob, [user("?")], round_)
        assert (await twin.result())["error_kind"] == "timeout"
