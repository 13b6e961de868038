"""What processes of one node ask each other is recorded in its place and waits for no disk; whoever is outside does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import chain.ledger.waking
from chain.entry.kinds import KINDS
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin

ASKED = ["tool.proposed", "tool.verdict", "tool.intent", "message.accepted"]
ANSWERED = ["turn.started", "turn.ended", "tool.outcome"]


@pytest.fixture(autouse=True)
def _nothing_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written but what somebody waits for, and what is before it."""
    monkeypatch.setattr(chain.ledger.waking, "LAZY_S", 3600.0)


def test_a_question_and_its_answer_wait_for_no_disk(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        await twin.ledger.barrier()
        before = twin.ledger.size
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        twin.finish(await twin.delivery(), "well")
        assert (await twin.result())["text"] == "well"
        assert (twin.ledger.size, twin.ledger.next_seq) == (before, before + len(ASKED + ANSWERED))
        exchange = (await twin.entries())[before:]
        assert [record.entry.kind for record in exchange] == [*ASKED, *ANSWERED]
        assert not any(KINDS[record.entry.kind].is_durable(record.body) for record in exchange)

    on_twin(tmp_path, body)


def test_they_are_on_the_disk_before_anybody_outside_hears_what_came_of_them(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        end = twin.kernel.watchers.wait(at.message.id)
        await twin.ledger.barrier()
        before = twin.ledger.size
        twin.ask_tool(at, "ask", {"to": "bob", "text": "?"})
        twin.finish(await twin.delivery(), "well")
        twin.finish(at, (await twin.result())["text"])
        assert (await asyncio.wait_for(end, LIMIT_S))["reply"] == "well"
        assert twin.ledger.size == before + len([*ASKED, *ANSWERED, "turn.ended"])

    on_twin(tmp_path, body)


def test_a_message_that_waits_for_no_answer_is_on_the_disk_before_its_sender_hears_of_it(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.spawn("bob")
        await twin.ledger.barrier()
        before = twin.ledger.size
        twin.ask_tool(at, "send_message", {"to": "bob", "text": "!"})
        assert (await twin.result())["status"] == "ok"
        assert twin.ledger.size >= before + len([*ASKED, "tool.outcome"])

    on_twin(tmp_path, body)
