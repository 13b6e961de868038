"""Asks between nodes: answered and ended once, whatever becomes of the nodes; and asks that would go in a circle."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import chain.ledger.waking
from kernel.bounds import Bounds
from kernel.operations.messages import Messages
from kernel.operations.processes import Processes
from kernel.peer.lost_questions import TOLD_AT_ONCE
from mesh.errors import LinkFull
from mesh.identity.peers import Peer
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, go_off
from tests.kernel.twins.mesh_twin import NodeTwin, balance, befriend, link, node_twin, on_pair, unlink, until


async def ada_asks(a: NodeTwin, to: str, **more: Any) -> Delivery:
    await a.twin.spawn("ada")
    await a.twin.send("ada")
    at = await a.twin.delivery()
    a.twin.ask_tool(at, "ask", {"to": to, "text": "what is it", **more})
    return at


def test_an_ask_is_answered_by_another_node(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        at = await ada_asks(a, "bob@b")
        got = await b.twin.delivery()
        assert got.message.wants_reply
        b.twin.finish(got, "it is this")
        outcome = await a.twin.result()
        assert (outcome["status"], outcome["text"]) == ("ok", "it is this")
        a.twin.finish(at)
        await until(lambda: balance(b) == (2, 2, 0, 0, 0))
        assert balance(a) == (2, 2, 0, 0, 0)
        assert not a.twin.kernel.state.in_transit.questions
        assert len(await a.twin.entries("tool.outcome")) == 1

    on_pair(tmp_path, body)


def test_an_answer_is_no_further_message_of_its_trace(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        at = await ada_asks(a, "bob@b")
        for number in (1, 2):
            b.twin.finish(await b.twin.delivery(), "it is this")
            assert (await a.twin.result())["status"] == "ok"
            a.twin.ask_tool(at, "ask", {"to": "bob@b", "text": "and this"}, round_=number)
        refused = await a.twin.result()
        assert "more than 2 messages came of one message from outside" in refused["text"]
        assert b.twin.kernel.state.traces.messages(bytes(16)) == 2

    on_pair(tmp_path, body, bounds=Bounds(messages_per_trace=2))


def test_an_error_of_the_asked_is_an_error_of_the_ask(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await ada_asks(a, "bob@b")
        b.twin.finish(await b.twin.delivery(), "I could not", status="error")
        outcome = await a.twin.result()
        assert (outcome["status"], outcome["text"]) == ("error", "I could not")

    on_pair(tmp_path, body)


def test_a_node_hears_that_a_question_is_taken_back_once_that_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody outside waits for the end of the turn that had asked it: another process of the node does."""
    monkeypatch.setattr(chain.ledger.waking, "LAZY_S", 3600.0)

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await a.twin.spawn("carl")
        await ada_asks(a, "carl")
        a.twin.ask_tool(await a.twin.delivery(), "ask", {"to": "bob@b", "text": "and you"})
        await b.twin.delivery()
        kernel, ledger = a.twin.kernel, a.twin.ledger
        await until(lambda: not any(kernel.state.in_transit.outbox.values()))
        await ledger.barrier()
        kernel.cancels.cancel(kernel.cancels.find("/user/carl"), "enough")
        assert (await a.twin.result())["status"] == "error"
        assert ledger.size < ledger.next_seq and "withdraw" not in [op["op"] for op in a.mesh.said]
        await ledger.barrier()
        await until(lambda: "withdraw" in [op["op"] for op in a.mesh.said])

    on_pair(tmp_path, body)


def test_a_reply_survives_the_loss_of_its_link_and_of_its_node(tmp_path: Path) -> None:
    """The asker is a person, whose wait no lost link ends; the reply is recorded with the end of the turn."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(node_twin(tmp_path / "a", "a", 1))
            async with node_twin(tmp_path / "b", "b", 2) as b:
                befriend(a, b)
                await b.twin.spawn("bob")
                waiting = asyncio.ensure_future(
                    a.control(Messages.send, "bob@b", "what is it", wait_s=LIMIT_S)
                )
                got = await b.twin.delivery()
                unlink(a.mesh, b.mesh)
                b.twin.finish(got, "it is this")
            async with node_twin(tmp_path / "b", "b", 2) as b:
                b.mesh.add_peer(Peer("a", a.origin))
                link(a.mesh, b.mesh)
                assert (await waiting)["reply"] == "it is this"
                await until(lambda: balance(b)[4] == 0)

    asyncio.run(run())


def test_an_ask_of_a_node_that_is_not_there_is_refused_with_noconnection(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        unlink(a.mesh, b.mesh)
        await ada_asks(a, "bob@b")
        outcome = await a.twin.result()
        assert outcome["status"] == "error"
        assert outcome["text"].startswith("noconnection: there is no link to b")
        assert balance(a) == (1, 0, 0, 0, 1)

    on_pair(tmp_path, body)


def test_a_node_lost_while_its_answer_is_awaited_ends_the_ask_once(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        at = await ada_asks(a, "bob@b")
        got = await b.twin.delivery()
        await until(lambda: balance(a) == (2, 1, 0, 0, 1))
        unlink(a.mesh, b.mesh)
        outcome = await a.twin.result()
        assert outcome["status"] == "error"
        assert outcome["text"].startswith("noconnection: b was lost")
        link(a.mesh, b.mesh)
        b.twin.finish(got, "too late")
        await until(lambda: balance(b) == (2, 1, 1, 0, 0))
        assert "nobody waits for this answer" in (await b.control(Messages.deadletters))[0]["why"]
        a.twin.finish(at)
        assert len(await a.twin.entries("tool.outcome")) == 1
        assert a.twin.cells.results.empty()
        assert (await a.twin.entries("message.unanswered"))[0].body["peer"] == b.origin

    on_pair(tmp_path, body)


def test_a_question_that_was_not_taken_is_withdrawn_when_its_node_is_lost(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        a.mesh.lose = lambda op: op["op"] == "message"
        await ada_asks(a, "bob@b")
        await until(lambda: any(op["op"] == "message" for op in a.mesh.said))
        unlink(a.mesh, b.mesh)
        outcome = await a.twin.result()
        assert "noconnection: b was lost" in outcome["text"]
        assert "maybe delivered" in outcome["text"]
        a.mesh.lose = lambda op: False
        link(a.mesh, b.mesh)
        await a.control(Messages.send, "bob@b", "another")
        assert (await b.twin.delivery()).message.text == "another"
        assert balance(b) == (1, 0, 0, 0, 1)

    on_pair(tmp_path, body)


def test_a_link_that_is_cut_while_questions_go_out_again_withdraws_each_of_them(tmp_path: Path) -> None:
    """A link that takes nothing more is cut at once, in the middle of what goes out."""

    def full(op: dict[str, Any]) -> bool:
        raise LinkFull("it takes nothing more")

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        a.mesh.lose = lambda op: op["op"] == "message"
        at = await ada_asks(a, "bob@b")
        a.twin.ask_tool(at, "ask", {"to": "bob@b", "text": "and this"}, index=1)
        await until(lambda: sum(op["op"] == "message" for op in a.mesh.said) == 2)
        a.mesh.lose = full
        peer = a.mesh.peer("b")
        assert peer is not None
        a.twin.kernel.remote.on_up(peer, b.mesh.identity)
        for _ in range(2):
            assert "noconnection: b was lost (it takes nothing more)" in (await a.twin.result())["text"]
        assert a.mesh.cuts == ["it takes nothing more"]

    on_pair(tmp_path, body)


@pytest.mark.parametrize("taken", [True, False])
def test_many_who_ask_a_node_that_is_lost_are_told_once_each_and_the_loop_goes_round_meanwhile(
    tmp_path: Path, taken: bool
) -> None:
    many = 2 * TOLD_AT_ONCE + 1

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        a.mesh.lose = lambda op: op["op"] == "message" and not taken
        at = await ada_asks(a, "bob@b")
        for number in range(1, many):
            a.twin.ask_tool(at, "ask", {"to": "bob@b", "text": "and this"}, round_=number)
        in_transit = a.twin.kernel.state.in_transit
        await a.twin.ledger.barrier()
        await until(lambda: len(in_transit) == (0 if taken else many))
        assert len(in_transit.questions) == many
        unlink(a.mesh, b.mesh)
        assert len(in_transit.questions) == many - TOLD_AT_ONCE
        link(a.mesh, b.mesh)
        for _ in range(many):
            assert "noconnection: b was lost" in (await a.twin.result())["text"]
        assert not in_transit.questions
        assert a.twin.cells.results.empty()
        assert len(await a.twin.entries("tool.outcome")) == many

    on_pair(tmp_path, body)


def test_a_refused_question_ends_the_ask_with_the_words_of_the_other_node(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await ada_asks(a, "nobody@b")
        outcome = await a.twin.result()
        assert outcome["status"] == "error"
        assert "refused by b: no process named nobody" in outcome["text"]

    on_pair(tmp_path, body)


def test_a_question_that_dies_there_is_answered_as_dead(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await b.twin.send("bob", "busy")
        busy = await b.twin.delivery()
        await ada_asks(a, "bob@b")
        await until(lambda: balance(b)[0] == 2)
        await b.control(Processes.stop, "bob")
        b.twin.finish(busy)
        outcome = await a.twin.result()
        assert outcome["status"] == "error"
        assert outcome["text"] == "dead letter: /user/bob is stopped"
        assert [r.entry.pid for r in await b.twin.entries("message.sent")] == [0]  # bob has said nothing

    on_pair(tmp_path, body)


def test_an_ask_times_out_and_its_late_answer_is_refused(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        at = await ada_asks(a, "bob@b")
        got = await b.twin.delivery()
        await until(lambda: balance(a) == (2, 1, 0, 0, 1))
        attempt = a.twin.kernel.tool_calls._attempts.get(at.turn, "0.0")
        assert attempt is not None
        go_off(attempt.timer)
        outcome = await a.twin.result()
        assert outcome["status"] == "timeout"
        assert not a.twin.kernel.state.in_transit.questions
        b.twin.finish(got, "late")
        await until(lambda: balance(b)[4] == 0)
        assert balance(b)[2] == 1
        a.twin.finish(at)
        assert balance(a) == (2, 2, 0, 0, 0)

    on_pair(tmp_path, body)


def test_an_ask_that_would_come_back_to_its_asker_is_refused_by_the_chain_of_causes(tmp_path: Path) -> None:
    """ada@a asks bob@b, who asks carol@b, who asks ada@a."""

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await b.twin.spawn("carol")
        await ada_asks(a, "bob@b")
        bob = await b.twin.delivery()
        b.twin.ask_tool(bob, "ask", {"to": "carol", "text": "?"})
        carol = await b.twin.delivery()
        for target in ("ada@a", "/user/ada@a"):
            outcome = await b.twin.call_tool(
                carol, "ask", {"to": target, "text": "?"}, 0 if target == "ada@a" else 1
            )
            assert outcome["status"] == "error"
            assert "would wait for itself" in outcome["text"]
            assert (
                f"/user/ada@{a.origin} -> /user/bob@{b.origin} -> /user/carol@{b.origin}" in outcome["text"]
            )

    on_pair(tmp_path, body, tools=frozenset(("ask",)))


def test_an_ask_within_a_node_that_closes_a_circle_over_another_is_refused(tmp_path: Path) -> None:
    """ada@a asks bob@b, who asks dora@a, who asks ada."""

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        await a.twin.spawn("dora")
        await ada_asks(a, "bob@b")
        bob = await b.twin.delivery()
        b.twin.ask_tool(bob, "ask", {"to": "dora@a", "text": "?"})
        dora = await a.twin.delivery()
        outcome = await a.twin.call_tool(dora, "ask", {"to": "ada", "text": "?"})
        assert "would wait for itself" in outcome["text"]
        a.twin.finish(dora, "no")
        assert (await b.twin.result())["text"] == "no"
        b.twin.finish(bob, "yes")
        assert (await a.twin.result())["text"] == "yes"

    on_pair(tmp_path, body, tools=frozenset(("ask",)))


def test_a_rebooted_asker_still_gets_its_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(node_twin(tmp_path / "b", "b", 2))
            async with node_twin(tmp_path / "a", "a", 1, Bounds(turn_attempts=9)) as a:
                befriend(a, b)
                await b.twin.spawn("bob")
                first = await ada_asks(a, "bob@b")
                got = await b.twin.delivery()
                await until(lambda: balance(a) == (2, 1, 0, 0, 1))
                await a.twin.kernel.remote.close()
                unlink(a.mesh, b.mesh)
            b.twin.finish(got, "it is this")
            async with node_twin(tmp_path / "a", "a", 1) as a:
                again = await a.twin.delivery()
                assert again.turn == first.turn
                a.twin.ask_tool(again, "ask", {"to": "bob@b", "text": "what is it"})
                a.mesh.add_peer(Peer("b", b.origin))
                link(a.mesh, b.mesh)
                assert (await a.twin.result())["text"] == "it is this"
            assert balance(b)[:2] == (2, 2)

    asyncio.run(run())
