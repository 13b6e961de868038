"""What a tool gave, on its way to the model: named in the question's entry, and not held a second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain.entry.record import EntryRecord
from kernel.syscall.models.model_question import MOST_COMPARED
from kernel.worker.workers import WorkerResult
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin
from weftos.audit.questions import Questions

LONG = "the first " + "\u20ac" * 20_000


def says(text: str) -> Any:
    return lambda call: WorkerResult("ok", text, False, "", 4)


def brings(content: Any, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "tool_call_id": "1", "content": content}


async def pinged(twin: Twin, at: Delivery, round_: int, text: str) -> str:
    """What a tool gave, as its cell gets it."""
    twin.workers.answer = says(text)
    return str((await twin.call_tool(at, "ping", {}, round_))["text"])


async def asked(twin: Twin) -> tuple[dict[str, Any], list[Any]]:
    """The newest question as it is held, and its messages as they are put together again."""
    ledger: dict[int, EntryRecord] = {each.entry.seq: each for each in await twin.entries()}
    newest = max(seq for seq, each in ledger.items() if each.entry.kind == "model.asked")
    return ledger[newest].body, Questions(ledger.__getitem__).read(ledger[newest])


def test_a_result_is_in_the_ledger_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        messages = [brings("what does it say", "user")]
        twin.ask_model(at, list(messages), 0)
        await twin.result()
        texts = [await pinged(twin, at, round_, f"{round_}: {LONG}") for round_ in (1, 2)]
        messages += [brings(texts[0]), brings(texts[1][:1000])]
        twin.ask_model(at, list(messages), 3)
        await twin.result()
        held, whole = await asked(twin)
        outcomes = [each.entry.seq for each in await twin.entries("tool.outcome")]
        assert json.loads(held["results"]) == [[0, outcomes[0], len(texts[0])], [1, outcomes[1], 1000]]
        assert json.loads(held["new"]) == [brings(""), brings("")]
        assert whole == messages

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    "message",
    [
        brings(LONG + "!"),
        brings(LONG, "user"),
        brings(LONG[:255]),
        brings([{"type": "text", "text": LONG}]),
        brings(None),
        {"role": "tool"},
    ],
    ids=["more than it gave", "no word of a tool", "a short one", "parts", "none", "no content"],
)
def test_what_no_tool_gave_is_held(tmp_path: Path, message: dict[str, Any]) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await pinged(twin, at, 0, LONG)
        twin.ask_model(at, [message], 1)
        await twin.result()
        held, whole = await asked(twin)
        assert (held["results"], json.loads(held["new"]), whole) == ("[]", [message], [message])

    on_twin(tmp_path, body)


def test_each_result_is_named_once_and_two_that_are_alike_each_by_its_own_entry(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        for round_ in range(2):
            await pinged(twin, at, round_, LONG)
        twin.ask_model(at, [brings(LONG)] * 3, 2)
        await twin.result()
        held, whole = await asked(twin)
        outcomes = [each.entry.seq for each in await twin.entries("tool.outcome")]
        assert [seq for _, seq, _ in json.loads(held["results"])] == outcomes
        assert [len(each["content"]) for each in json.loads(held["new"])] == [len(LONG), 0, 0]
        assert whole == [brings(LONG)] * 3

    on_twin(tmp_path, body)


def test_a_result_of_before_a_crash_and_a_boot_is_named_too(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await pinged(twin, await turn_of_ada(twin), 0, LONG)

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        text = (await twin.call_tool(at, "ping", {}, 0))["text"]
        twin.ask_model(at, [brings(text)], 1)
        await twin.result()
        held, whole = await asked(twin)
        assert (len(json.loads(held["results"])), whole) == (1, [brings(LONG)])

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_so_many_results_are_compared_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.syscall.models.model_question.MOST_COMPARED", 2)
    assert MOST_COMPARED == 256

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        for round_ in range(3):
            await pinged(twin, at, round_, f"{round_}: {LONG}")
        twin.ask_model(at, [brings(f"0: {LONG}")], 3)
        await twin.result()
        held, whole = await asked(twin)
        assert (held["results"], whole) == ("[]", [brings(f"0: {LONG}")])

    on_twin(tmp_path, body)
