"""Messages between nodes: carried, decided once, answered for; links that break and nodes that reboot between."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.errors import Busy, Invalid, NotFound
from kernel.operations.messages import Messages
from kernel.operations.nodes.peers import Peers
from kernel.peer.outboxes import EFFECTS_AT_ONCE
from kernel.state.in_transit_records import numbering_record
from mesh.identity.peers import AllowList, Peer
from tests.kernel.twins.kernel_twin import LIMIT_S
from tests.kernel.twins.mesh_twin import NodeTwin, balance, befriend, link, node_twin, on_pair, unlink, until


async def send_from_ada(a: NodeTwin, to: str, text: str = "hi", round_: int = 0, at: Any = None) -> Any:
    """Ada of node a sends by her tool; her delivery and the outcome."""
    if at is None:
        await a.twin.spawn("ada")
        await a.twin.send("ada")
        at = await a.twin.delivery()
    return at, await a.twin.call_tool(at, "send_message", {"to": to, "text": text}, round_)


def beside_bob(tmp_path: Path, body: Callable[[NodeTwin], Awaitable[None]]) -> None:
    """Runs ``body`` with a node b, on which bob is; the nodes that come and go beside it are its own."""

    async def run() -> None:
        async with node_twin(tmp_path / "b", "b", 2) as b:
            await b.twin.spawn("bob")
            await body(b)

    asyncio.run(run())


def meet_again(a: NodeTwin, b: NodeTwin) -> None:
    """A new life of a, or a copy of it, knows b as b knows it, and has a link."""
    a.mesh.add_peer(Peer("b", b.origin))
    link(a.mesh, b.mesh)


def test_a_message_crosses_and_is_counted_once_on_each_side(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob", tools=("calculator", "file_read"))
        at, outcome = await send_from_ada(a, "bob@b", "are you there")
        assert outcome["status"] == "ok"
        assert outcome["text"].endswith(f"for bob@{b.origin}")
        got = await b.twin.delivery()
        assert got.message.text == "are you there"
        assert got.message.sender == f"/user/ada@{a.origin}"
        spawned = a.twin.kernel.state.slots["/user/ada"].spawned_seq
        assert got.message.session == f"/user/ada#{spawned}@{a.origin}"
        assert got.tools == ["calculator", "file_read"]
        await until(lambda: balance(a) == (2, 1, 0, 0, 1))
        b.twin.finish(got)
        a.twin.finish(at)
        assert balance(a) == (2, 2, 0, 0, 0)
        assert balance(b) == (1, 1, 0, 0, 0)
        sent = (await a.twin.entries("message.sent"))[0]
        accepted = (await b.twin.entries("message.accepted"))[0]
        assert sent.entry.trace == accepted.entry.trace
        assert (await a.twin.entries("message.acknowledged"))[0].entry.cause == sent.entry.seq

    on_pair(tmp_path, body)


def test_a_name_that_is_this_nodes_and_a_peers_is_refused_and_never_the_other_nodes(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("ada")
        a.mesh.list = AllowList((Peer("a", b.origin),))
        at, outcome = await send_from_ada(a, "ada@a")
        assert outcome["status"] == "error"
        assert a.origin in outcome["text"] and b.origin in outcome["text"]
        _, own = await send_from_ada(a, f"ada@{a.origin}", round_=1, at=at)
        assert own["status"] == "ok" and not a.twin.kernel.state.in_transit.outbox

    on_pair(tmp_path, body)


@pytest.mark.parametrize("form", ["name", "pid", "address", "origin"])
def test_a_process_of_another_node_is_named_like_one_of_this(tmp_path: Path, form: str) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        pid = await b.twin.spawn("bob")
        target = {
            "name": "bob@b",
            "pid": f"{pid}@b",
            "address": "/user/bob@b",
            "origin": f"bob@{b.origin}",
        }[form]
        await a.control(Messages.send, target, "hi")
        assert (await b.twin.delivery()).pid == pid

    on_pair(tmp_path, body)


def test_a_target_on_this_very_node_stays_on_it(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.twin.spawn("ada")
        for node in ("a", a.origin):
            answer = await a.control(Messages.send, f"ada@{node}", "hi")
            assert answer["address"] == "/user/ada"
        assert a.mesh.said == []

    on_pair(tmp_path, body)


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ("bob@nobody", NotFound, "no peer 'nobody'"),
        ("-@b", Invalid, "is not allowed"),
        ("@b", Invalid, "name"),
    ],
)
def test_what_cannot_be_a_target_is_refused_at_once(
    tmp_path: Path, target: str, error: Any, words: str
) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        with pytest.raises(error, match=words):
            await a.control(Messages.send, target, "hi")
        assert balance(a) == (0, 0, 0, 0, 0)

    on_pair(tmp_path, body)


def test_order_is_kept_over_a_link_that_breaks_again_and_again(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        for number in range(60):
            await a.control(Messages.send, "bob@b", str(number))
            if number % 7 == 3:
                unlink(a.mesh, b.mesh)
                link(a.mesh, b.mesh)
            if number % 11 == 5:  # a new link in the old one's place, without a word
                link(a.mesh, b.mesh)
        for number in range(60):
            got = await b.twin.delivery()
            assert got.message.text == str(number)
            b.twin.finish(got)
        await until(lambda: balance(a) == (60, 60, 0, 0, 0))
        assert balance(b) == (60, 60, 0, 0, 0)

    on_pair(tmp_path, body)


def test_a_message_waits_for_the_link(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        unlink(a.mesh, b.mesh)
        await a.control(Messages.send, "bob@b", "later")
        assert balance(a) == (1, 0, 0, 0, 1)
        link(a.mesh, b.mesh)
        assert (await b.twin.delivery()).message.text == "later"
        await until(lambda: balance(a) == (1, 1, 0, 0, 0))

    on_pair(tmp_path, body)


def test_a_lost_answer_does_not_double_the_message(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        b.mesh.lose = lambda op: op["op"] == "ack"
        await a.control(Messages.send, "bob@b", "once")
        await b.twin.delivery()
        assert balance(a) == (1, 0, 0, 0, 1)
        b.mesh.lose = lambda op: False
        link(a.mesh, b.mesh)
        await until(lambda: balance(a) == (1, 1, 0, 0, 0))
        assert balance(b) == (1, 0, 0, 0, 1)

    on_pair(tmp_path, body)


def test_a_receiver_that_reboots_before_its_answer_arrives_accepts_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(node_twin(tmp_path / "a", "a", 1))
            async with node_twin(tmp_path / "b", "b", 2) as b:
                befriend(a, b)
                await b.twin.spawn("bob")
                b.mesh.lose = lambda op: op["op"] == "ack"
                await a.control(Messages.send, "bob@b", "once")
                await b.twin.delivery()
                unlink(a.mesh, b.mesh)
            async with node_twin(tmp_path / "b", "b", 2) as b:
                b.mesh.add_peer(Peer("a", a.origin))
                link(a.mesh, b.mesh)
                await until(lambda: balance(a) == (1, 1, 0, 0, 0))
                assert balance(b) == (1, 0, 0, 0, 1)
                got = await b.twin.delivery()
                b.twin.finish(got)
                assert balance(b) == (1, 1, 0, 0, 0)

    asyncio.run(run())


def test_a_sender_that_reboots_sends_again_and_the_receiver_knows_it(tmp_path: Path) -> None:
    async def body(b: NodeTwin) -> None:
        async with node_twin(tmp_path / "a", "a", 1) as a:
            befriend(a, b)
            b.mesh.lose = lambda op: op["op"] == "ack"
            await a.control(Messages.send, "bob@b", "once")
            await b.twin.delivery()
            unlink(a.mesh, b.mesh)
        b.mesh.lose = lambda op: False
        async with node_twin(tmp_path / "a", "a", 1) as a:
            assert balance(a) == (1, 0, 0, 0, 1)
            meet_again(a, b)
            await until(lambda: balance(a) == (1, 1, 0, 0, 0))
            await a.control(Messages.send, "bob@b", "twice")
            await until(lambda: balance(a) == (2, 2, 0, 0, 0))
        assert balance(b)[0] == 2

    beside_bob(tmp_path, body)


def test_a_sender_of_an_older_copy_is_told_that_its_new_message_was_not_taken(tmp_path: Path) -> None:
    """It has the number, and in its own node the id, of one that was taken and that the copy does not know of."""

    async def body(b: NodeTwin) -> None:
        async with node_twin(tmp_path / "a", "a", 1):
            pass
        shutil.copytree(tmp_path / "a", tmp_path / "copy")
        async with node_twin(tmp_path / "a", "a", 1) as a:
            befriend(a, b)
            first = await a.control(Messages.send, "bob@b", "pay the first bill")
            await until(lambda: balance(a) == (1, 1, 0, 0, 0))
            unlink(a.mesh, b.mesh)
        async with node_twin(tmp_path / "copy", "a", 1) as a:
            meet_again(a, b)
            second = await a.control(Messages.send, "bob@b", "pay the second bill")
            assert second["message"] == first["message"]
            await until(lambda: balance(a)[2] == 1)
            [letter] = await a.twin.entries("message.dead")
            assert letter.body["why"].endswith("the sender's data is older than what it sent")
        assert balance(b)[0] == 1

    beside_bob(tmp_path, body)


def test_a_sender_of_an_older_copy_goes_on_above_what_it_had_sent_also_after_a_reboot(tmp_path: Path) -> None:
    """Only what had its number before that was learnt is refused: the answers of its agents get through too."""

    async def body(b: NodeTwin) -> None:
        async with node_twin(tmp_path / "a", "a", 1) as a:
            await a.twin.spawn("ada")
        shutil.copytree(tmp_path / "a", tmp_path / "copy")
        async with node_twin(tmp_path / "a", "a", 1) as a:
            befriend(a, b)
            for _ in range(40):
                await a.control(Messages.send, "bob@b", "hi")
            await until(lambda: balance(a) == (40, 40, 0, 0, 0))
            unlink(a.mesh, b.mesh)
        async with node_twin(tmp_path / "copy", "a", 1) as a:
            a.mesh.add_peer(Peer("b", b.origin))
            for _ in range(3):
                await a.control(Messages.send, "bob@b", "it waits for the link")
            link(a.mesh, b.mesh)
            await until(lambda: balance(a) == (3, 0, 3, 0, 0))
            await a.control(Messages.send, "bob@b", "it goes out above")
            await until(lambda: balance(a) == (4, 1, 3, 0, 0))
            b.mesh.lose = lambda op: op["op"] == "ack"
            await a.control(Messages.send, "bob@b", "its answer is lost")
            await until(lambda: balance(b)[0] == 42)
            unlink(a.mesh, b.mesh)
        b.mesh.lose = lambda op: False
        async with node_twin(tmp_path / "copy", "a", 1) as a:
            meet_again(a, b)
            await until(lambda: balance(a) == (5, 2, 3, 0, 0))
            waiting = asyncio.ensure_future(b.control(Messages.send, "ada@a", "are you well", wait_s=LIMIT_S))
            a.twin.finish(await a.twin.delivery(), "I am")
            assert (await waiting)["reply"] == "I am"
        assert balance(b)[0] == 43

    beside_bob(tmp_path, body)


def test_a_question_whose_answer_overtakes_its_acknowledgement_has_left_the_outbox_under_its_number(
    tmp_path: Path,
) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        a.twin.kernel.recorder.commit([numbering_record(b.origin, 1000)])
        b.mesh.lose = lambda op: op["op"] == "ack"
        waiting = asyncio.ensure_future(a.control(Messages.send, "bob@b", "what is it", wait_s=LIMIT_S))
        b.twin.finish(await b.twin.delivery(), "it is this")
        assert (await waiting)["reply"] == "it is this"
        await a.control(Messages.send, "bob@b", "and more")
        await until(lambda: sum(op["op"] == "message" for op in a.mesh.said) == 2)
        first, second = (op for op in a.mesh.said if op["op"] == "message")
        assert first["n"] > 1000 and second["settled"] == second["n"] - 1

    on_pair(tmp_path, body)


def test_a_sender_of_an_older_copy_is_told_that_what_waits_in_it_was_maybe_delivered(tmp_path: Path) -> None:
    async def body(b: NodeTwin) -> None:
        async with node_twin(tmp_path / "a", "a", 1) as a:
            a.mesh.add_peer(Peer("b", b.origin))
            await a.control(Messages.send, "bob@b", "pay the bill")
        shutil.copytree(tmp_path / "a", tmp_path / "copy")
        async with node_twin(tmp_path / "a", "a", 1) as a:
            befriend(a, b)
            await until(lambda: balance(a) == (1, 1, 0, 0, 0))
            await a.control(Messages.send, "bob@b", "was it paid?")
            await until(lambda: balance(a) == (2, 2, 0, 0, 0))
            unlink(a.mesh, b.mesh)
        async with node_twin(tmp_path / "copy", "a", 1) as a:
            meet_again(a, b)
            await until(lambda: balance(a) == (1, 0, 1, 0, 0))
            [letter] = await a.twin.entries("message.dead")
            assert letter.body["why"].endswith("older than what it sent (maybe delivered)")
        assert balance(b)[0] == 2

    beside_bob(tmp_path, body)


@pytest.mark.parametrize("went_out", [False, True])
def test_what_is_not_taken_within_the_deadline_is_a_dead_letter_that_can_be_replayed(
    tmp_path: Path, went_out: bool
) -> None:
    ahead_us = 0

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        nonlocal ahead_us
        await b.twin.spawn("bob")
        a.mesh.lose = lambda op: op["op"] == "message"
        if not went_out:
            unlink(a.mesh, b.mesh)
        answer = await a.control(Messages.send, "bob@b", "hello")
        if went_out:
            await until(lambda: any(op["op"] == "message" for op in a.mesh.said))
        ahead_us = int(Bounds().carriage_s * 1e6)
        await until(lambda: bool(a.twin.kernel.state.dead))
        letter = (await a.control(Messages.deadletters))[0]
        assert letter["id"] == answer["message"]
        assert letter["why"] == ("deadline passed (maybe delivered)" if went_out else "deadline passed")
        assert balance(a) == (1, 0, 1, 0, 0)
        a.mesh.lose = lambda op: False
        if not went_out:
            link(a.mesh, b.mesh)
        await a.control(Messages.replay, letter["id"])
        assert (await b.twin.delivery()).message.text == "hello"
        assert await a.control(Messages.deadletters) == []

    on_pair(tmp_path, body, now_us=lambda: time.time_ns() // 1000 + ahead_us)


def test_what_the_other_node_refuses_is_a_dead_letter_with_its_words(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        for target in ("nobody@b", "/user@b", "/kernel@b"):
            answer = await a.control(Messages.send, target, "hi", wait_s=LIMIT_S)
            assert answer["status"] == "dead"
            assert answer["reply"].startswith("refused by b: ")
            assert "maybe" not in answer["reply"]
        refused = await b.twin.entries("message.refused")
        assert [record.body["sender"] for record in refused] == [f"@{a.origin}"] * 3
        assert balance(b) == (0, 0, 0, 0, 0)
        assert balance(a) == (3, 0, 3, 0, 0)

    on_pair(tmp_path, body)


def test_a_removed_peer_leaves_dead_letters(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        unlink(a.mesh, b.mesh)
        await a.control(Messages.send, "bob@b", "hi")
        await a.control(Peers.remove, "b")
        assert (await a.control(Messages.deadletters))[0]["why"] == "b is no longer a peer"
        assert balance(a) == (1, 0, 1, 0, 0)
        with pytest.raises(NotFound, match="no peer 'b'"):
            await a.control(Messages.send, "bob@b", "hi")

    on_pair(tmp_path, body)


def test_a_full_outbox_is_given_up_in_its_order_and_the_loop_goes_round_meanwhile(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        unlink(a.mesh, b.mesh)
        sent = [
            (await a.control(Messages.send, "bob@b", "hi"))["message"] for _ in range(2 * EFFECTS_AT_ONCE + 1)
        ]
        left = a.twin.kernel.state.in_transit
        a.twin.kernel.remote.outboxes.clear(b.origin, "the test said so")
        assert len(left) == EFFECTS_AT_ONCE + 1
        await until(lambda: not len(left))
        assert [record.body["id"] for record in await a.twin.entries("message.dead")] == sent

    on_pair(tmp_path, body)


def test_the_outbox_is_bounded(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        unlink(a.mesh, b.mesh)
        for _ in range(3):
            await a.control(Messages.send, "bob@b", "hi")
        with pytest.raises(Busy, match="3 messages wait for b"):
            await a.control(Messages.send, "bob@b", "hi")

    on_pair(tmp_path, body, bounds=Bounds(outbox_messages=3))


def test_a_person_waits_for_the_reply_of_another_node(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        waiting = asyncio.ensure_future(a.control(Messages.send, "bob@b", "what is it", wait_s=LIMIT_S))
        got = await b.twin.delivery()
        assert got.message.sender == f"operator@{a.origin}"
        assert got.message.session == f"main@{a.origin}"
        b.twin.finish(got, "it is this")
        answer = await waiting
        assert (answer["status"], answer["reply"]) == ("ok", "it is this")
        await until(lambda: balance(b) == (2, 2, 0, 0, 0))
        assert balance(a) == (1, 1, 0, 0, 0)
        replied = (await a.twin.entries("message.replied"))[0]
        assert replied.body["reply"] == "it is this"

    on_pair(tmp_path, body)


def test_sessions_of_a_peer_are_apart_and_bounded(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        for session in ("one", "two", "one"):
            await a.control(Messages.send, "bob@b", "hi", session=session)
        answer = await a.control(Messages.send, "bob@b", "hi", session="three", wait_s=LIMIT_S)
        assert answer["status"] == "dead"
        assert "2 sessions" in answer["reply"]

    on_pair(tmp_path, body, bounds=Bounds(peer_sessions=2))


def test_for_a_session_of_a_peer_that_is_too_many_the_oldest_goes_that_is_not_in_use(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")

        async def say(session: str) -> Any:
            waiting = asyncio.ensure_future(
                a.control(Messages.send, "bob@b", "hi", session=session, wait_s=LIMIT_S)
            )
            got = await b.twin.delivery()
            b.twin.finish(got, "hello", [{"said": session}])
            assert (await waiting)["status"] == "ok"
            return got.history

        sessions = b.twin.kernel.state.sessions
        for session, history in (("one", []), ("two", []), ("one", [{"said": "one"}]), ("three", [])):
            assert await say(session) == history
        assert [key[1] for key in sessions] == [f"one@{a.origin}", f"three@{a.origin}"]
        await a.control(Messages.send, "bob@b", "hi", session="one")
        held = await b.twin.delivery()
        await a.control(Messages.send, "bob@b", "hi", session="four")  # for three, as one is in use
        answer = await a.control(Messages.send, "bob@b", "hi", session="five", wait_s=LIMIT_S)
        assert "your node has 2 sessions in use here, the limit" in answer["reply"]
        b.twin.finish(held)
        b.twin.finish(await b.twin.delivery(), remember=[{"said": "four"}])
        await until(
            lambda: set(sessions) == {("/user/bob", f"{name}@{a.origin}") for name in ("one", "four")}
        )
        assert await say("one") == [{"said": "one"}] * 2

    on_pair(tmp_path, body, bounds=Bounds(peer_sessions=2))


def test_sessions_that_are_gone_take_no_place_of_a_peers(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await b.twin.spawn("bob")
        for session in ("one", "two"):
            waiting = asyncio.ensure_future(
                a.control(Messages.send, "bob@b", "hi", session=session, wait_s=LIMIT_S)
            )
            b.twin.finish(await b.twin.delivery(), "hello")
            assert (await waiting)["status"] == "ok"
        for key in list(b.twin.kernel.state.sessions):
            b.twin.kernel.state.apply_change("session", "\n".join(key), None)  # as erasure and eviction do
        waiting = asyncio.ensure_future(
            a.control(Messages.send, "bob@b", "hi", session="three", wait_s=LIMIT_S)
        )
        b.twin.finish(await b.twin.delivery(), "hello again")
        assert (await waiting)["reply"] == "hello again"

    on_pair(tmp_path, body, bounds=Bounds(peer_sessions=2))
