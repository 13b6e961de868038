"""What a process was handed down holds it, whatever it asks: tools, whom it speaks to, children, memory, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernel.abi import ToolDeclaration
from kernel.errors import CapabilityError, Invalid, NotFound, Refused
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.capabilities import Capabilities
from kernel.operations.rights.policy import Policy
from kernel.operations.spawning import Spawning, SpawnRequest
from kernel.policy.asker import PERSON, Asker
from kernel.policy.proposal import (
    Operation,
    Proposal,
    ReadMemory,
    SendMessage,
    SpawnProcess,
    UseTool,
    WatchProcess,
    WriteMemory,
)
from kernel.policy.scope import scope_gate
from tests.kernel.control.test_control import control_of
from tests.kernel.policy.test_gates import Told, facts
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import MEMORY, Twin

ADA = Asker("operator", "control", process="/user/ada", turn="t1", rights=frozenset({"file_read", "pay"}))


def file_read(path: str) -> UseTool:
    return UseTool(ToolDeclaration("file_read", "Read.", {}), {"path": path})


PAY = UseTool(ToolDeclaration("pay", "Pay.", {}), {})
CALC = UseTool(ToolDeclaration("calculator", "Count.", {}, network=()), {})
FETCH = UseTool(ToolDeclaration("fetch", "Fetch.", {}, network=("api.example.org", "*.example.net")), {})
KID = SpawnProcess(ProcessSpec("kid", tools=()), "/user/ada")


@pytest.mark.parametrize(
    ("held", "allowed", "refused", "words"),
    [
        (Capabilities(deny=("p*",)), file_read("a"), PAY, r"pay is denied to /user/ada \(deny p\*\)"),
        (
            Capabilities(paths=("docs",)),
            file_read("./docs/a"),
            file_read("a"),
            "may use docs of its workspace",
        ),
        (Capabilities(paths=("docs",)), PAY, file_read("docs/../a"), "not docs/../a"),
        (
            Capabilities(messages="subtree"),
            SendMessage("/user/ada/a/b", 1, 1),
            SendMessage("/user/eve", 1, 1),
            "may send messages to what is below it, not to /user/eve",
        ),
        (
            Capabilities(messages="children"),
            SendMessage("/user/ada/a", 1, 1),
            SendMessage("/user/ada/a/b", 1, 1),
            "its children",
        ),
        (Capabilities(messages="parent"), PAY, SendMessage("/user/ada/a", 1, 1), "to its parent, not to"),
        (
            Capabilities(messages="subtree"),
            SendMessage("/user/ada/a", 1, 1),
            SendMessage("/user/ada/a", 1, 1, "n2", "o"),
            "not to /user/ada/a@n2",
        ),
        (
            Capabilities(messages="listed", listed=("/user/eve", "*@n2")),
            SendMessage("bob", 1, 1, "n2", "o"),
            SendMessage("bob", 1, 1, "n3", "o"),
            "to /user/eve, \\*@n2, not to bob@n3",
        ),
        (
            Capabilities(messages="listed", listed=("/user/*",)),
            SendMessage("/user/eve", 1, 1),
            SendMessage("/user/eve", 1, 1, "n2", "o"),
            "not to /user/eve@n2",
        ),
        (
            Capabilities(messages="none"),
            SendMessage("/user/eve", 1, 1, "n2", "o", answers=True),
            SendMessage("/user/eve", 1, 1),
            "may send messages to nobody",
        ),
        (Capabilities(messages="none"), PAY, WatchProcess("/user/eve"), "may watch nobody, not /user/eve"),
        (Capabilities(messages="all", spawn=False), SendMessage("/user/eve", 1, 1), KID, "may not spawn"),
        (
            Capabilities(memory=("own",)),
            WriteMemory("/user/ada", 1, "own"),
            WriteMemory("/user/ada", 1, "shared"),
            "may use own memory, and this is shared",
        ),
        (Capabilities(memory=()), PAY, ReadMemory(query="x"), "may use no memory"),
        (
            Capabilities(network=()),
            CALC,
            FETCH,
            r"/user/ada may use no network, and fetch declares that it uses api.example.org, \*.example.net$",
        ),
        (
            Capabilities(network=("*.example.org", "*.net")),
            FETCH,
            PAY,
            r"of the network \*.example.org, \*.net, and pay declares that it uses any host",
        ),
        (
            Capabilities(network=("*.example.org",)),
            CALC,
            FETCH,
            "fetch declares that it uses api.example.org",
        ),
    ],
)
def test_what_is_held_passes_and_the_rest_is_refused_in_words(
    held: Capabilities, allowed: Operation, refused: Operation, words: str
) -> None:
    state = Told()
    state.spawned("/user/ada", capabilities=held)
    assert scope_gate(Proposal(ADA, allowed), facts(state)) is None
    verdict = scope_gate(Proposal(ADA, refused), facts(state))
    assert verdict is not None and verdict.decision == "deny" and verdict.error is CapabilityError
    with pytest.raises(CapabilityError, match=words):
        raise verdict.error(verdict.reasons[0])
    for nobody in (PERSON, replace(ADA, process="/user/eve")):
        assert scope_gate(Proposal(nobody, refused), facts(state)) is None


def test_what_an_agent_makes_has_its_limits_and_no_more_of_its_tools_than_it_has(tmp_path: Path) -> None:
    held = Capabilities(deny=("pay",), messages="subtree", memory=("own",))

    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await control(
            Spawning.spawn, "boss", tools=("spawn_agent", "send_message", "file_*", "pay"), capabilities=held
        )
        await twin.send("boss")
        boss = await twin.delivery()
        assert boss.tools == ["file_list", "file_read", "file_write", "send_message", "spawn_agent"]
        made = await twin.call_tool(
            boss, "spawn_agent", {"name": "kid", "tools": ["file_r*", "send_message"]}
        )
        assert made["status"] == "ok"
        kid = twin.kernel.state.slots["/user/boss/kid"].spec
        assert (kid.tools, kid.capabilities) == (("file_read", "send_message"), held)
        beyond = await twin.call_tool(boss, "spawn_agent", {"name": "two", "tools": ["pay"]}, 1)
        assert (beyond["status"], "pay" in beyond["text"]) == ("error", True)
        refused = await twin.call_tool(boss, "send_message", {"to": "boss", "text": "hi"}, 2)
        assert (refused["status"], "what is below it" in refused["text"]) == ("error", True)
        await twin.call_tool(boss, "send_message", {"to": "kid", "text": "hi"}, 3)
        at = await twin.delivery()
        up = await twin.call_tool(at, "send_message", {"to": "/user/boss", "text": "hi"})
        assert "may send messages to what is below it" in up["text"]

    on_twin(tmp_path, body)


def test_a_person_can_give_a_child_less_and_never_more_than_the_agent_above_has(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        held = Capabilities(messages="children", spawn=False, paths=("docs",))
        await control(Spawning.spawn, "boss", tools=("file_*",), capabilities=held)
        less = Capabilities(messages="none", paths=("docs/a",))
        await control(Spawning.spawn, "kid", under="/user/boss", tools=("file_read",), capabilities=less)
        kid = twin.kernel.state.slots["/user/boss/kid"].spec.capabilities
        assert kid == replace(less, spawn=False)
        for wanted, words in (
            (Capabilities(messages="all"), "messages all"),
            (Capabilities(paths=(".",)), "paths ."),
            (Capabilities(spawn=True), "does not have: spawn"),
        ):
            with pytest.raises(CapabilityError, match=words):
                await control(
                    Spawning.spawn, "two", under="/user/boss", tools=("file_read",), capabilities=wanted
                )
        with pytest.raises(CapabilityError, match=r"does not have: f\*"):
            await control(Spawning.spawn, "two", under="/user/boss", tools=("f*",))
        with pytest.raises(Invalid, match=r"no tool file_x\*"):
            await control(Spawning.spawn, "two", tools=("file_x*",))
        of_none = SpawnRequest("two", supervisor=True, capabilities=Capabilities(spawn=False))
        assert of_none.check() == ["a supervisor runs no behaviour: leave out capabilities"]

    on_twin(tmp_path, body)


def test_a_process_without_the_network_has_the_tools_that_use_none_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        tools = ("spawn_agent", "file_*", "pay")
        await twin.spawn("ada", tools=tools, capabilities=Capabilities(network=()))
        await twin.send("ada")
        ada = await twin.delivery()
        assert ada.tools == ["file_list", "file_read", "file_write", "spawn_agent"]
        refused = await twin.call_tool(ada, "pay", {})
        assert refused["status"] == "denied", refused
        assert "may use no network, and pay declares that it uses any host" in refused["text"]
        more = {"name": "kid", "tools": ["file_read"], "capabilities": {"network": ["*"]}}
        beyond = await twin.call_tool(ada, "spawn_agent", more, 1)
        assert (beyond["status"], "network *" in beyond["text"]) == ("error", True)
        await twin.call_tool(ada, "spawn_agent", {"name": "kid", "tools": ["file_read"]}, 2)
        assert twin.kernel.state.slots["/user/ada/kid"].spec.capabilities.network == ()
        denied = await control(Policy.explain, "ada", tool="pay")
        assert denied["decision"] == "deny"
        [rule] = [rule for rule in denied["rules"] if rule["rule"] == "scope_gate"]
        assert rule["reasons"] == [
            "capability: /user/ada may use no network, and pay declares that it uses any host"
        ]
        await twin.spawn("eve", tools=tools)
        assert (await control(Policy.explain, "eve", tool="pay"))["decision"] == "allow"

    on_twin(tmp_path, body)


def test_a_search_shows_no_more_of_memory_than_may_be_read(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("eve", tools=MEMORY)
        await twin.send("eve")
        eve = await twin.delivery()
        await twin.call_tool(eve, "memory_write", {"text": "the code is shared", "shared": True})
        shared = (await twin.entries("memory.written"))[0].entry.seq
        await twin.spawn("ada", tools=MEMORY, capabilities=Capabilities(memory=("own",)))
        await twin.send("ada")
        ada = await twin.delivery()
        await twin.call_tool(ada, "memory_write", {"text": "the code is mine"})
        found = await twin.call_tool(ada, "memory_search", {"query": "code"}, 1)
        assert "the code is mine" in found["text"] and "the code is shared" not in found["text"]
        read = await twin.call_tool(ada, "memory_read", {"id": f"d{shared}"}, 2)
        assert read["status"] == "error" and "may use own memory, and this is shared" in read["text"]
        write = await twin.call_tool(ada, "memory_write", {"text": "for all", "shared": True}, 3)
        assert write["status"] == "error" and "this is shared" in write["text"]

    on_twin(tmp_path, body)


def test_policy_says_which_rule_allows_a_tool_or_denies_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=("file_*", "launch"), capabilities=Capabilities(deny=("file_w*",)))
        allowed = await control(Policy.explain, "ada", tool="file_read")
        assert (allowed["decision"], allowed["rules"]) == (
            "allow",
            [{"rule": "tools", "decision": "allow", "reasons": ["file_read is one of its tools by file_*"]}],
        )
        denied = await control(Policy.explain, "ada", tool="file_write")
        assert denied["decision"] == "deny"
        assert [rule["rule"] for rule in denied["rules"]] == ["tools", "capability_gate", "scope_gate"]
        assert "(deny file_w*)" in denied["rules"][2]["reasons"][0]
        none = await control(Policy.explain, "ada", tool="calculator")
        assert (none["decision"], none["rules"][0]["decision"]) == ("deny", "deny")
        assert (await control(Policy.explain, "ada", tool="launch"))["decision"] == "escalate"
        for name, paths, decision in (("some", ("docs",), "allow"), ("no", (), "deny")):
            await twin.spawn(name, tools=("file_read",), capabilities=Capabilities(paths=paths))
            assert (await control(Policy.explain, name, tool="file_read"))["decision"] == decision
        with pytest.raises(NotFound, match="no tool 'x'"):
            await control(Policy.explain, "ada", tool="x")
        await control(Spawning.spawn, "team", supervisor=True)
        with pytest.raises(Refused, match="it uses no tools"):
            await control(Policy.explain, "team", tool="ask")

    on_twin(tmp_path, body)
