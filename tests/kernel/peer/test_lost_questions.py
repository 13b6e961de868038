"""What people ask other nodes ends, also when the answer was lost: nobody waits for ever, and it can be erased."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kernel.errors import TimedOut
from kernel.operations.erasure import Erasure
from kernel.operations.messages import Messages
from kernel.operations.nodes.peers import Peers
from kernel.peer.lost_questions import WAITED_FOR_US
from kernel.state.state_snapshot import encode_state
from mesh.identity.peers import Peer
from tests.kernel.twins.kernel_twin import LIMIT_S
from tests.kernel.twins.mesh_twin import NodeTwin, befriend, link, node_twin, on_pair, unlink, until

SECRET = "the secret of the person"


async def taken(a: NodeTwin, b: NodeTwin) -> Any:
    """A person of a waits no longer for the answer to a question that b has taken: how b shows it to its agent."""
    await b.twin.spawn("bob")
    with pytest.raises(TimedOut):
        await a.control(Messages.send, "bob@b", SECRET, wait_s=0.01)
    await until(lambda: not len(a.twin.kernel.state.in_transit))
    assert len(a.twin.kernel.state.in_transit.questions) == 1
    return await b.twin.delivery()


async def unanswered(a: NodeTwin) -> list[str]:
    return [record.body["why"] for record in await a.twin.entries("message.unanswered")]


def test_what_a_person_asked_a_peer_ends_when_that_is_removed_and_who_waits_is_told(tmp_path: Path) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await taken(a, b)
        waiting = asyncio.ensure_future(a.control(Messages.send, "bob@b", "and this", wait_s=LIMIT_S))
        questions = a.twin.kernel.state.in_transit.questions
        await until(lambda: len(questions) == 2 and not len(a.twin.kernel.state.in_transit))
        unlink(a.mesh, b.mesh)
        assert len(questions) == 2  # it waits through a lost link
        await a.control(Peers.remove, "b")
        answer = await waiting
        assert (answer["status"], answer["turn"]) == ("error", "")
        assert answer["reply"] == "noconnection: b was lost (b is no longer a peer)"
        assert not questions and await unanswered(a) == [answer["reply"]] * 2
        assert a.twin.kernel.state.in_transit.bytes == 0

    on_pair(tmp_path, body)


def test_what_a_person_asked_ends_at_last_also_over_reboots_and_a_later_answer_is_refused(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(node_twin(tmp_path / "b", "b", 2))
            async with node_twin(tmp_path / "a", "a", 1) as a:
                befriend(a, b)
                got = await taken(a, b)
                [asked] = a.twin.kernel.state.in_transit.questions.values()
                unlink(a.mesh, b.mesh)
            last_us = asked.time_us + WAITED_FOR_US
            async with node_twin(tmp_path / "a", "a", 1, now_us=lambda: last_us - 1) as a:
                assert not await unanswered(a)
            async with node_twin(tmp_path / "a", "a", 1, now_us=lambda: last_us) as a:
                a.mesh.add_peer(Peer("b", b.origin))
                assert not a.twin.kernel.state.in_transit.questions
                assert await unanswered(a) == ["nobody waits for its answer"]
                link(a.mesh, b.mesh)
                b.twin.finish(got, "too late")
                await until(lambda: len(b.twin.kernel.state.dead) == 1)
                [letter] = b.twin.kernel.state.dead.values()
                assert "nobody waits for this answer" in letter.why

    asyncio.run(run())


def test_what_a_person_asked_can_be_erased_while_it_has_no_answer_and_who_waits_is_told(
    tmp_path: Path,
) -> None:
    async def body(a: NodeTwin, b: NodeTwin) -> None:
        got = await taken(a, b)
        state = a.twin.kernel.state
        [asked] = state.in_transit.questions.values()
        waiting = a.twin.kernel.watchers.wait(asked.id)
        assert SECRET.encode() in encode_state(state)
        await a.control(Erasure.erase, "asked for", seqs=[asked.seq])
        assert await waiting == {"status": "error", "reply": "erased", "turn": ""}
        assert SECRET.encode() not in encode_state(state) and await unanswered(a) == ["erased"]
        b.twin.finish(got, "what you asked was: " + SECRET)
        await until(lambda: len(b.twin.kernel.state.dead) == 1)
        assert not await a.twin.entries("message.replied")

    on_pair(tmp_path, body)
