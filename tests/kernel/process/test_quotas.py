"""What agents and peers may make, and what is left for a person whatever they make."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.errors import Busy, KernelError, Refused
from kernel.model.spec import ProcessSpec
from kernel.operations.messages import Messages
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning
from kernel.peer.remote_calls import PeerAsked
from kernel.policy.asker import PERSON, Asker
from kernel.policy.proposal import SpawnProcess
from mesh.identity.peers import Peer
from tests.kernel.control.test_control import control_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin
from tests.mesh.twins.core_nodes import ALICE, BOB

AGENT = Asker("operator", "control", process="/user/boss", rights=frozenset())
Spawn = Callable[[Peer, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def peers_spawn(twin: Twin) -> Spawn:
    """What answers a peer that wants a process here."""
    control_of(twin)

    async def spawn(peer: Peer, op: Mapping[str, Any]) -> dict[str, Any]:
        begun: list[Coroutine[Any, Any, dict[str, Any]]] = []
        twin.say(PeerAsked(peer, {**op, "op": "spawn"}, begun.append))
        return await begun[0]

    return spawn


async def turn_of(twin: Twin, name: str) -> Delivery:
    await twin.send(name)
    return await twin.delivery()


async def made(twin: Twin, at: Delivery, count: int) -> list[dict[str, Any]]:
    """What ``spawn_agent`` says to ``count`` calls."""
    return [
        await twin.call_tool(at, "spawn_agent", {"name": f"k{number}", "tools": ["spawn_agent"]}, number)
        for number in range(count)
    ]


def may_spawn(twin: Twin, parent: str, asker: Asker) -> None:
    """Raises what policy has against a child of ``parent``."""
    twin.kernel.policy.require(asker, SpawnProcess(ProcessSpec("child", tools=()), parent))


def statuses(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["status"] for answer in answers]


def test_an_agent_has_so_many_children_and_a_person_may_add_more(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        answers = await made(twin, await turn_of(twin, "boss"), 4)
        assert statuses(answers) == ["ok"] * 3 + ["error"]
        assert "/user/boss has 3 children, the limit for an agent" in answers[-1]["text"]
        await twin.spawn("one-more", parent="/user/boss")

    on_twin(tmp_path, body, bounds=Bounds(agent_children=3))


def test_a_tree_of_agents_has_a_quota_however_deep_and_also_after_a_restart(tmp_path: Path) -> None:
    bounds = Bounds(agent_subtree=3)

    async def before(twin: Twin) -> None:
        await twin.spawn("team", type="supervisor")
        await twin.spawn("boss", parent="/user/team")
        assert statuses(await made(twin, await turn_of(twin, "boss"), 2)) == ["ok"] * 2
        answers = await made(twin, await turn_of(twin, "/user/team/boss/k0"), 2)
        assert statuses(answers) == ["ok", "error"]
        assert "3 processes are below /user/team/boss, the limit for what agents make" in answers[-1]["text"]
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        await twin.kernel.processes.when_started("/user/team/boss/k1")
        assert twin.kernel.state.slots.below("/user/team/boss") == 3
        for parent in ("/user/team/boss", "/user/team/boss/k0/k0"):
            with pytest.raises(Busy, match="3 processes are below /user/team/boss"):
                may_spawn(twin, parent, AGENT)
        may_spawn(twin, "/user/team/boss", PERSON)

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_one_message_from_outside_leads_to_so_many_processes_whoever_makes_them(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        await twin.spawn("other")
        at = await turn_of(twin, "boss")
        assert statuses(await made(twin, at, 2)) == ["ok"] * 2
        await twin.call_tool(at, "send_message", {"to": "other", "text": "make more"}, 2)
        theirs = await made(twin, await twin.delivery(), 2)
        assert statuses(theirs) == ["ok", "error"]
        assert "3 processes came of one message from outside, the limit" in theirs[-1]["text"]
        may_spawn(twin, "/user/boss", replace(AGENT, trace=b"another trace"))

    on_twin(tmp_path, body, bounds=Bounds(agent_spawns_per_trace=3))


def test_what_one_message_may_lead_to_is_not_forgotten_at_a_restart(tmp_path: Path) -> None:
    """Its turn goes on where it was: neither processes nor messages begin at nought again."""
    bounds = Bounds(agent_spawns_per_trace=2, messages_per_trace=1)

    async def before(twin: Twin) -> None:
        await twin.spawn("boss")
        at = await turn_of(twin, "boss")
        assert statuses(await made(twin, at, 2)) == ["ok"] * 2
        assert (await twin.call_tool(at, "send_message", {"to": "boss", "text": "again"}, 2))[
            "status"
        ] == "ok"
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        answers = await made(twin, at, 2)
        assert statuses(answers) == ["ok"] * 2  # as recorded
        await twin.call_tool(at, "send_message", {"to": "boss", "text": "again"}, 2)
        refused = [
            await twin.call_tool(at, "spawn_agent", {"name": "one-more"}, 3),
            await twin.call_tool(at, "send_message", {"to": "boss", "text": "once more"}, 4),
        ]
        assert statuses(refused) == ["error"] * 2
        assert "2 processes came of one message from outside, the limit" in refused[0]["text"]
        assert "more than 1 messages came of one message from outside" in refused[1]["text"]

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_agents_that_fill_the_node_leave_room_for_its_operator_also_after_a_restart(tmp_path: Path) -> None:
    bounds = Bounds(processes=10, operator_reserve=4)

    async def before(twin: Twin) -> None:
        await twin.spawn("boss")
        answers = await made(twin, await turn_of(twin, "boss"), 6)
        assert statuses(answers) == ["ok"] * 4 + ["error"] * 2
        assert "the node has 6 slots; the last 4 of 10 are for its operator" in answers[-1]["text"]
        await control_of(twin)(Spawning.spawn, "mine")
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        control = control_of(twin)
        await twin.kernel.processes.when_started("/user/boss")
        with pytest.raises(Busy, match="for its operator"):
            may_spawn(twin, "/user/boss", AGENT)
        for number in range(3):
            await control(Spawning.spawn, f"p{number}")
        with pytest.raises(Busy, match="the node has 10 slots, the limit; weftos rm"):
            await control(Spawning.spawn, "too-many")
        twin.finish(await twin.delivery())
        await control(Processes.stop, "boss")
        assert (await control(Processes.remove, "boss", recursive=True))["removed"] == 5
        await control(Spawning.spawn, "fits-again")

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_a_peer_is_no_operator(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        spawn = peers_spawn(twin)
        peer = Peer("n2", BOB.origin, "", frozenset({"spawn"}))
        for number in range(2):
            await spawn(peer, {"request": {"name": f"theirs{number}"}})
        with pytest.raises(Busy, match="/user has 2 children; the last 2 of 4 are for its operator"):
            await spawn(peer, {"request": {"name": "theirs2"}})
        for number in range(2):
            await control(Spawning.spawn, f"mine{number}")

    on_twin(tmp_path, body, bounds=Bounds(children=4, operator_reserve=2))


def test_what_a_peer_makes_counts_to_that_peer_with_all_below_it_also_after_a_restart(tmp_path: Path) -> None:
    bounds = Bounds(peer_processes=2)
    theirs = f"peer:{BOB.origin}"

    peer = Peer("n2", BOB.origin, "", frozenset({"spawn"}), tools=frozenset({"spawn_agent"}))
    other = Peer("n3", ALICE.origin, "", frozenset({"spawn"}))

    async def before(twin: Twin) -> None:
        spawn = peers_spawn(twin)
        await twin.spawn("mine")
        tools = {"tools": ["spawn_agent"]}
        await spawn(peer, {"request": {"name": "theirs", **tools}})
        answers = await made(twin, await turn_of(twin, "theirs"), 2)
        assert statuses(answers) == ["ok", "error"]
        assert f"2 processes here count to {theirs}, the limit for one peer" in answers[1]["text"]
        made_by = {placed.address: placed.made_by for placed in twin.cells.placed}
        assert made_by == {
            "/user/mine": "operator", "/user/theirs": theirs, "/user/theirs/k0": theirs,
        }  # fmt: skip
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        spawn = peers_spawn(twin)
        await twin.kernel.processes.when_started("/user/theirs/k0")
        with pytest.raises(Busy, match="the limit for one peer"):
            await spawn(peer, {"request": {"name": "more"}})
        await spawn(other, {"request": {"name": "others"}})
        assert twin.kernel.state.slots.maker("/user/theirs/k0") == theirs
        await control_of(twin)(Processes.stop, "/user/theirs/k0")
        await control_of(twin)(Processes.remove, "/user/theirs/k0")
        await spawn(peer, {"request": {"name": "more"}})

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_what_a_peer_makes_below_an_agent_uses_up_nothing_of_its_quota_also_after_a_restart(
    tmp_path: Path,
) -> None:
    bounds = Bounds(agent_children=3, agent_subtree=4)
    peer = Peer("n2", BOB.origin, "", frozenset({"spawn"}), tools=frozenset({"spawn_agent"}))

    async def before(twin: Twin) -> None:
        spawn = peers_spawn(twin)
        await twin.spawn("boss")
        for number in range(5):
            request = {"name": f"theirs{number}", "under": "/user/boss", "tools": ["spawn_agent"]}
            await spawn(peer, {"request": request})
        theirs = await made(twin, at := await turn_of(twin, "/user/boss/theirs0"), 4)
        twin.finish(at)
        assert statuses(theirs) == ["ok"] * 3 + ["error"]
        assert "/user/boss/theirs0 has 3 children, the limit for an agent" in theirs[-1]["text"]
        deeper = await made(twin, at := await turn_of(twin, "/user/boss/theirs0/k0"), 2)
        twin.finish(at)
        assert statuses(deeper) == ["ok", "error"]
        assert (
            "4 processes are below /user/boss/theirs0, the limit for what agents make" in deeper[-1]["text"]
        )
        own = await made(twin, at := await turn_of(twin, "boss"), 2)
        assert statuses(own) == ["ok"] * 2
        twin.finish(at)
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        slots = twin.kernel.state.slots
        await twin.kernel.processes.when_started("/user/boss/k1")
        may_spawn(twin, "/user/boss", AGENT)
        for parent, limit in (
            ("/user/boss/theirs0", "has 3 children"),
            ("/user/boss/theirs0/k0", "4 processes"),
        ):
            with pytest.raises(Busy, match=limit):
                may_spawn(twin, parent, AGENT)
        may_spawn(twin, "/user/boss/theirs1", AGENT)
        await control_of(twin)(Processes.stop, "/user/boss")
        await control_of(twin)(Processes.remove, "/user/boss", recursive=True)
        peers = f"peer:{BOB.origin}"
        assert (slots.below("/user"), slots.below("/user", peers), slots.count_of(peers)) == (0, 0, 0)
        assert slots.directly_below("/user") == slots.directly_below("/user/boss", peers) == 0

    on_twin(tmp_path, before, bounds=bounds)
    on_twin(tmp_path, after, bounds=bounds)


def test_the_reserve_is_at_most_half_so_that_a_small_node_has_agents_too(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("boss")
        answers = await made(twin, await turn_of(twin, "boss"), 3)
        assert statuses(answers) == ["ok"] * 2 + ["error"]
        assert "the node has 4 slots; the last 4 of 8 are for its operator" in answers[-1]["text"]

    on_twin(tmp_path, body, bounds=Bounds(processes=8))


def test_a_child_of_an_agent_takes_nothing_that_was_meant_for_another(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        resolve = twin.kernel.messaging.resolve
        await twin.spawn("ada")
        await twin.spawn("team", type="supervisor")
        await twin.spawn("carl", parent="/user/team")
        at = await turn_of(twin, "ada")
        for round_, name in enumerate(("ada", "carl", "bank", "dora")):
            await twin.call_tool(at, "spawn_agent", {"name": name}, round_)
        assert (resolve("ada"), resolve("carl")) == ("/user/ada", "/user/team/carl")
        assert resolve("dora") == "/user/ada/dora"
        with pytest.raises(KernelError, match="no process named ban"):
            await twin.send("ban")
        said = await twin.call_tool(at, "ask", {"to": "ban", "text": "?"}, 4)
        assert (said["status"], "no process named ban" in said["text"]) == ("error", True)
        assert resolve("ban", beginning=True) == "/user/ada/bank"
        await twin.spawn("bananas")
        assert resolve("ban", beginning=True) == "/user/bananas"
        await twin.spawn("carl", parent="/user/ada/dora", tools=())
        assert resolve("carl") == "/user/team/carl"
        await twin.spawn("dora", parent="/user/ada/carl", tools=())
        with pytest.raises(Refused, match="dora is not unique"):
            resolve("dora")
        await twin.spawn("dora")
        assert resolve("dora") == "/user/dora"

    on_twin(tmp_path, body)


def test_what_changes_something_takes_no_beginning_of_a_name(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("bank")
        assert (await control(Processes.inspect, "ban"))["address"] == "/user/bank"
        assert await control(Processes.logs, "ban", limit=5) == [{"address": "/user/bank"}]
        for call in (
            control(Processes.stop, "ban"),
            control(Processes.start, "ban"),
            control(Processes.kill, "ban", signal="kill"),
            control(Processes.cancel, "ban"),
            control(Processes.remove, "ban", recursive=True),
            control(Messages.send, "ban", "hi"),
        ):
            with pytest.raises(KernelError, match="no process named ban"):
                await call

    on_twin(tmp_path, body)
