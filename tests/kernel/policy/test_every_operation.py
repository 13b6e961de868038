"""Whatever is asked of a node, by whatever door, is asked of the gates first, with who asks and in which turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.errors import KernelError, Refused
from kernel.operations.memory import Memory
from kernel.operations.messages import Messages
from kernel.operations.nodes.cluster import Cluster
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning
from kernel.policy.proposal import (
    AskModel,
    CallNode,
    Facts,
    Proposal,
    ReadMemory,
    SendMessage,
    SpawnProcess,
    UseTool,
    Verdict,
    WriteMemory,
    deny,
)
from tests.kernel.control.test_control import control_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin
from tests.kernel.twins.mesh_twin import NodeTwin, on_pair, until
from weftos.node.gates import GATES

ALL = frozenset({"send", "ps", "spawn", "kill"})
TOOLS = ("calculator", "send_message", "spawn_agent", "memory_write", "memory_search", "memory_read")


class Watching:
    """A gate that keeps what it is shown, and denies what ``against`` says."""

    def __init__(self) -> None:
        self.seen: list[Proposal] = []
        self.against: Callable[[Proposal], bool] = lambda proposal: False

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        self.seen.append(proposal)
        return deny("the watching gate is against it") if self.against(proposal) else None

    def operations(self) -> set[str]:
        return {type(proposal.operation).__name__ for proposal in self.seen}


CALLS = [
    ("calculator", {"expression": "1+1"}, UseTool),
    ("send_message", {"to": "ada", "text": "hi"}, SendMessage),
    ("spawn_agent", {"name": "kid"}, SpawnProcess),
    ("memory_write", {"text": "remember"}, WriteMemory),
    ("memory_search", {"query": "what"}, ReadMemory),
    ("memory_read", {"id": "d1"}, ReadMemory),
]


async def turn_of(twin: Twin, name: str) -> Delivery:
    await twin.send(name)
    return await twin.delivery()


@pytest.mark.parametrize(("name", "arguments", "kind"), CALLS)
def test_what_an_agent_asks_is_judged_as_a_tool_and_as_what_it_does(
    tmp_path: Path, name: str, arguments: dict[str, str], kind: type
) -> None:
    gate = Watching()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=TOOLS)
        at = await turn_of(twin, "ada")
        gate.seen.clear()
        gate.against = lambda proposal: isinstance(proposal.operation, kind)
        outcome = await twin.call_tool(at, name, arguments)
        assert outcome["text"] == "the watching gate is against it"
        assert outcome["status"] == ("denied" if kind is UseTool else "error")
        assert [type(proposal.operation) for proposal in gate.seen] == [*dict.fromkeys((UseTool, kind))]
        for proposal in gate.seen:
            asker = proposal.asker
            assert (asker.principal, asker.channel) == ("operator", "control")
            assert (asker.process, asker.turn) == ("/user/ada", at.turn)
            assert asker.rights == frozenset(TOOLS)

    on_twin(tmp_path, body, gates=(*GATES, gate))


def test_a_question_to_a_model_is_judged_and_its_refusal_is_an_answer(tmp_path: Path) -> None:
    gate = Watching()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=("calculator",))
        at = await turn_of(twin, "ada")
        gate.against = lambda proposal: isinstance(proposal.operation, AskModel)
        twin.ask_model(at, [{"role": "user", "content": "hi"}], tools=["calculator", "pay"])
        answer = await twin.result()
        assert (answer["status"], answer["text"]) == ("error", "the watching gate is against it")
        assert twin.gateway.asked == []
        asked = gate.seen[-1]
        assert isinstance(asked.operation, AskModel)
        assert (asked.operation.provider, asked.operation.model) == ("twin", "twin-1")
        assert asked.operation.tools == ("calculator",)
        assert asked.asker.turn == at.turn

    on_twin(tmp_path, body, gates=(*GATES, gate))


def test_a_turn_that_another_agent_asked_for_has_that_one_as_its_principal(tmp_path: Path) -> None:
    gate = Watching()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=TOOLS)
        await twin.spawn("bob", tools=TOOLS)
        await twin.call_tool(await turn_of(twin, "ada"), "send_message", {"to": "bob", "text": "hi"})
        await twin.call_tool(await twin.delivery(), "calculator", {"expression": "1"})
        asker = gate.seen[-1].asker
        assert (asker.principal, asker.channel, asker.process) == ("/user/ada", "process", "/user/bob")

    on_twin(tmp_path, body, gates=(*GATES, gate))


def test_what_a_person_asks_is_judged_too(tmp_path: Path) -> None:
    gate = Watching()

    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "hi")
        await control(Memory.add, "a text")
        await control(Memory.search, "text")
        assert gate.operations() == {"SpawnProcess", "SendMessage", "WriteMemory", "ReadMemory"}
        assert {(one.asker.principal, one.asker.channel) for one in gate.seen} == {("operator", "control")}
        gate.against = lambda proposal: True
        for asked in (
            control(Spawning.spawn, "eve"),
            control(Messages.send, "ada", "hi"),
            control(Memory.add, "another"),
            control(Memory.search, "text"),
            control(Memory.show, "d1"),
        ):
            with pytest.raises(Refused, match="the watching gate is against it"):
                await asked
        kinds = [record.entry.kind for record in await twin.entries("process.spawned", "memory.written")]
        assert kinds.count("memory.written") == 1

    on_twin(tmp_path, body, gates=(*GATES, gate))


def test_what_another_node_asks_is_judged_as_a_call_and_as_what_it_does(tmp_path: Path) -> None:
    gate = Watching()

    async def body(a: NodeTwin, b: NodeTwin) -> None:
        await a.control(Spawning.spawn, "minion", on="b", tools=())
        assert gate.operations() == {"CallNode", "SpawnProcess"}
        await a.control(Messages.send, "minion@b", "hi")
        await b.twin.delivery()
        assert gate.operations() == {"CallNode", "SpawnProcess", "SendMessage"}
        await a.control(Processes.kill, "minion@b", signal="kill")
        calls = [one.operation.op for one in gate.seen if isinstance(one.operation, CallNode)]
        assert calls == ["spawn", "message", "kill"]
        assert {one.asker.channel for one in gate.seen} == {"mesh"}
        whom = {one.asker.principal for one in gate.seen if isinstance(one.operation, CallNode)}
        assert whom == {f"peer:{a.origin}"}
        gate.against = lambda proposal: isinstance(proposal.operation, CallNode)
        for asked in (
            a.control(Spawning.spawn, "another", on="b"),
            a.control(Processes.kill, "minion@b", signal="kill"),
        ):
            with pytest.raises(KernelError, match="b says: the watching gate is against it"):
                await asked
        assert (await a.control(Cluster.monitor, "minion@b", wait_s=LIMIT_S))["reason"] == "refused"
        await a.control(Messages.send, "minion@b", "again")
        await until(lambda: bool(a.twin.kernel.state.dead), "the refusal")

    on_pair(tmp_path, body, may=ALL, gates=(*GATES, gate))
