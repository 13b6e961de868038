"""The node holds calls to what is configured of their tools, whatever a cell proposes, and across boots."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin, kernel_twin


def agent(**tools: Any) -> dict[str, Any]:
    return {"tools": tools}


async def said(twin: Twin, at: Delivery, tool: str, arguments: Any, round_: int) -> str:
    outcome = await twin.call_tool(at, tool, arguments, round_)
    return f"{outcome['status']}: {outcome['text']}"


def test_what_may_not_be_used_is_neither_told_nor_done(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        told = set(at.tools)
        assert {"pay", "ping", "ask", "file_write"}.isdisjoint(told) and {"calculator", "file_read"} <= told
        for round_, (tool, arguments, words) in enumerate(
            (
                ("pay", {}, "denied: tools: pay is switched off"),
                (
                    "ping",
                    {},
                    "denied: tools: ping is called for peer (allowed_roles), and this is for operator",
                ),
                ("ask", {"to": "x", "text": "y"}, "denied: tools: ask is to run in wasm (sandbox)"),
                (
                    "file_write",
                    {"path": "a", "content": ""},
                    "denied: tools: file_write needs a person's word (requires_confirmation), and nobody can be "
                    "asked for it in this version",
                ),
                ("file_read", {"path": "a/.ENV"}, "denied: workspace: 'a/.ENV' is denied here"),
            )
        ):
            assert (await said(twin, at, tool, arguments, round_)).startswith(words)
        decisions = [one.body["decision"] for one in await twin.entries("tool.verdict")]
        assert decisions == ["deny", "deny", "deny", "escalate", "deny"] and not twin.workers.calls
        assert not await twin.entries("tool.intent")
        [started] = await twin.entries("turn.started")
        assert started.body["withheld"] == ["ask", "file_write", "pay", "ping"]

    rules = {
        **agent(
            pay={"enabled": False},
            ping={"allowed_roles": ["peer"]},
            ask={"sandbox": "wasm"},
            file_write={"requires_confirmation": True},
        ),
        "workspace": {"denied_patterns": [".env"]},
    }
    on_twin(tmp_path, body, agent=rules)


def test_calls_are_counted_in_their_session_across_crashes_and_boots(tmp_path: Path) -> None:
    most = agent(pay={"max_calls_per_session": 2})
    over = "denied: tools: pay was called 2 times in this session, the most it may be (max_calls_per_session)"

    async def first() -> None:
        async with kernel_twin(tmp_path, agent=most) as twin:
            at = await turn_of_ada(twin)
            assert await said(twin, at, "pay", {"amount": 1}, 0) == "ok: done"
            twin.crash(at)
            again = await twin.delivery()
            assert "pay" in again.tools
            assert await said(twin, again, "pay", {"amount": 1}, 0) == "ok: done"  # from the record
            assert await said(twin, again, "pay", {"amount": 2}, 1) == "ok: done"
            assert await said(twin, again, "pay", {"amount": 3}, 2) == over
            assert len(twin.workers.calls) == 2
            twin.finish(again)
            await twin.send("ada", "next")
            third = await twin.delivery()
            assert await said(twin, third, "pay", {"amount": 4}, 0) == over
            await twin.ledger.barrier()

    async def second() -> None:
        async with kernel_twin(tmp_path, agent=most) as twin:
            at = await twin.delivery()  # the turn that was open
            assert await said(twin, at, "pay", {"amount": 4}, 0) == over  # from the record
            assert await said(twin, at, "pay", {"amount": 5}, 1) == over
            twin.finish(at)
            await twin.send("ada", session="another")
            other = await twin.delivery()
            assert await said(twin, other, "pay", {"amount": 6}, 0) == "ok: done"
            twin.finish(other)
            assert twin.kernel.state.uses.count(("/user/ada", "main"), "pay") == 2

    asyncio.run(first())
    asyncio.run(second())


def test_a_turn_keeps_what_it_began_with_and_a_later_one_has_what_is_configured_then(tmp_path: Path) -> None:
    async def first() -> None:
        async with kernel_twin(tmp_path) as twin:
            at = await turn_of_ada(twin)
            assert "pay" in at.tools
            await twin.ledger.barrier()

    async def second() -> None:
        async with kernel_twin(tmp_path, agent=agent(pay={"enabled": False})) as twin:
            at = await twin.delivery()
            assert "pay" in at.tools and await said(twin, at, "pay", {}, 0) == "ok: done"
            twin.finish(at)
            await twin.send("ada")
            later = await twin.delivery()
            assert "pay" not in later.tools
            assert (await said(twin, later, "pay", {}, 0)).startswith("denied: tools: pay is switched off")
            assert twin.cells.configured == [
                (later.pid, {"recall_tokens": 700, "tools": {"pay": {"enabled": False}}})
            ]

    asyncio.run(first())
    asyncio.run(second())


def test_what_an_agent_makes_is_held_to_what_the_spawn_of_its_maker_says(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", config={"tools": {"pay": {"enabled": False}}, "execution": {}})
        await twin.spawn("kid", "/user/ada")
        await twin.send("/user/ada/kid")
        at = await twin.delivery()
        assert "pay" not in at.tools
        assert (await said(twin, at, "pay", {}, 0)).startswith("denied: tools: pay is switched off")

    on_twin(tmp_path, body)


def test_calls_of_one_round_count_for_each_other(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        for index in range(4):
            twin.ask_tool(at, "pay", {"amount": index}, index=index)
        statuses = sorted([(await twin.result())["status"] for _ in range(4)])
        assert statuses == ["denied", "denied", "ok", "ok"] and len(twin.workers.calls) == 2

    on_twin(tmp_path, body, agent=agent(pay={"max_calls_per_session": 2}))
