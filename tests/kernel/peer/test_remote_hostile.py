"""A trusted peer that was taken over: what it may it gets, and nothing else, whatever its ops say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgpack
import pytest

from kernel.bounds import Bounds
from kernel.message.wire_message import WireMessage, channel_rights, read_wire_message
from kernel.operations.messages import Messages
from kernel.operations.nodes.peers import Peers
from kernel.process.slots import specs
from mesh.delivery.delivery import MAX_OPEN
from mesh.identity.peers import RIGHTS, AllowList, Peer
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin
from tests.kernel.twins.mesh_twin import NodeTwin, balance, befriend, node_twin, on_pair, unlink, until

LETTER: dict[str, Any] = {
    "to": "bob",
    "sender": "/user/eve",
    "text": "hi",
    "session": "s",
    "wants_reply": False,
    "ttl_us": 0,
    "waiting": [],
    "trace": bytes(16),
    "answers": "",
    "status": "",
    "rights": None,
}


def message(number: int = 1, ident: str = "", **letter: Any) -> dict[str, Any]:
    body = msgpack.packb({**LETTER, **letter})
    return {"op": "message", "n": number, "id": ident or f"m{number}", "settled": number - 1, "body": body}


async def refusal(eve: NodeTwin) -> str:
    """The reason of the next refusal that is sent to eve."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [op["why"] for op in _said_to(eve) if op["op"] == "refused"]
        return bool(found)

    await until(look)
    return found[-1]


def _said_to(eve: NodeTwin) -> list[dict[str, Any]]:
    return [op for other in eve.mesh.links.values() for op in other.said]


@pytest.mark.parametrize(
    ("letter", "words"),
    [
        ({"to": "/kernel"}, "no process at /kernel"),
        ({"to": "/kernel/archive"}, "no process at /kernel/archive"),
        ({"to": "/"}, "no process at /"),
        ({"to": "/user"}, "is a supervisor"),
        ({"to": "1"}, "no process 1"),
        ({"to": "bob@c"}, "nothing is relayed"),
        ({"to": ""}, "names a process"),
        ({"to": 5}, "to of the message is int"),
        ({"sender": "/user/eve@c"}, "the sender is no address"),
        ({"sender": "root"}, "the sender is no address"),
        ({"sender": ""}, "the sender is no address"),
        ({"text": b"bytes"}, "text of the message is bytes"),
        ({"text": "x" * 300_000}, "message of 300000 bytes, limit 262144"),
        ({"session": "a\nb"}, "printable"),
        ({"session": "s" * 2000}, "printable"),
        ({"rights": "everything"}, "rights of the message is not a list"),
        ({"rights": [1]}, "rights of the message holds something that is no text"),
        ({"rights": ["calculator"] * 1001}, "rights of the message is not a list of at most 1000"),
        ({"rights": [[]] * 1100}, "no bounded msgpack: more than"),
        ({"waiting": ["x"] * 33}, "waiting of the message is not a list of at most 32"),
        ({"waiting": ["\U0001f600" * 1100]}, "who waits for the answer is no process"),
        ({"waiting": ["/user/a"]}, "who waits for the answer is no process"),
        ({"waiting": [f"/user/{'é' * 64}@weftos-{'a' * 26}"]}, "who waits for the answer is no process"),
        ({"waiting": ["/user/a@"]}, "who waits for the answer is on no node: ''"),
        ({"waiting": [f"/user/a@weftos-{'é' * 26}"]}, "who waits for the answer is on no node"),
        ({"ttl_us": -1}, "out of range"),
        ({"ttl_us": 2**60}, "out of range"),
        ({"trace": b"short"}, "trace has 5 bytes"),
        ({"answers": "m1"}, "an answer has a status"),
        ({"answers": "m1", "status": "ok"}, "nobody waits for this answer"),
        ({"answers": "m1", "status": "done"}, "not readable"),
        ({"more": 1}, "does not have the fields"),
    ],
)
def test_a_message_with_a_false_word_is_refused_with_the_reason(
    tmp_path: Path, letter: dict[str, Any], words: str
) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, message(**letter))
        assert words in await refusal(eve)
        assert balance(node) == (0, 0, 0, 0, 0)

    on_pair(tmp_path, body)


@pytest.mark.parametrize(
    "op",
    [
        {"op": "message"},
        {"op": "message", "n": 1, "id": "m1", "settled": 0, "body": bytes(10 * 2**20)},
        {"op": "message", "n": -1, "id": "m1", "settled": -2, "body": b""},
        {"op": "message", "n": 1, "id": "x" * 65, "settled": 0, "body": b""},
        {"op": "ack", "n": "1", "id": "m1"},
        {"op": "refused", "n": 1, "id": "m1"},
        {"op": "spawn"},
        {"op": "kill", "ref": -1},
        {"op": "kill", "ref": True},
        {"op": "monitor", "ref": 1, "target": "bob@c"},
        {"op": "monitor", "ref": 1, "target": ["bob"]},
        {"op": "monitor", "target": "bob"},
        {"op": "shutdown"},
        {"op": "\x1b[2J" * 100},
    ],
)
def test_an_op_that_breaks_the_protocol_ends_the_link(tmp_path: Path, op: dict[str, Any]) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, op)
        assert len(node.mesh.cuts) == 1
        refused = (await node.twin.entries("peer.refused"))[0].body
        assert refused["who"] == eve.origin
        assert len(refused["why"]) <= 300
        assert balance(node) == (0, 0, 0, 0, 0)

    on_pair(tmp_path, body)


def test_a_peer_speaks_for_its_own_origin_whatever_it_writes(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, message(sender="/user/ada", session=f"/user/ada@{node.origin}"))
        got = await node.twin.delivery()
        assert got.message.sender == f"/user/ada@{eve.origin}"
        assert got.message.session == f"/user/ada@{node.origin}@{eve.origin}"

    on_pair(tmp_path, body)


def test_messages_that_name_no_trace_do_not_count_as_what_came_of_one(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        for number in range(1, 5):
            node.op(eve, message(number, trace=b""))
        assert balance(node) == (4, 0, 0, 0, 4)
        traces = {record.entry.trace for record in await node.twin.entries("message.accepted")}
        assert ({len(trace) for trace in traces}, len(traces)) == ({16}, 4)

    on_pair(tmp_path, body, bounds=Bounds(messages_per_trace=2))


def test_a_peer_without_send_sends_nothing_but_answers(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        await eve.twin.spawn("eve")
        node.op(eve, message())
        assert "may not send" in await refusal(eve)
        assert balance(node) == (0, 0, 0, 0, 0)

    on_pair(tmp_path, body, may=frozenset({"ps"}))


def test_rights_that_a_peer_claims_are_cut_to_the_tools_the_agent_and_the_channel(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob", tools=("calculator", "spawn_agent", "file_read"))
        node.op(eve, message(1, rights=["calculator", "spawn_agent", "pay", "no_such_tool"]))
        got = await node.twin.delivery()
        assert got.tools == ["calculator"]
        outcome = await node.twin.call_tool(got, "spawn_agent", {"name": "minion"})
        assert outcome["status"] == "denied"
        node.twin.finish(got)
        node.op(eve, message(2, rights=None))
        assert (await node.twin.delivery()).tools == ["calculator", "file_read"]
        accepted = (await node.twin.entries("message.accepted"))[1]
        assert accepted.body["rights"] is not None
        assert "spawn_agent" not in accepted.body["rights"]

    on_pair(tmp_path, body)


EVERY_TOOL = (
    "calculator",
    "file_read",
    "file_write",
    "send_message",
    "ask",
    "memory_write",
    "spawn_agent",
    "pay",
)


def test_send_alone_drives_no_tool_with_effects_unless_the_configuration_says_so(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob", tools=EVERY_TOOL)
        for number, claim in enumerate((None, list(EVERY_TOOL)), 1):
            node.op(eve, message(number, rights=claim))
            got = await node.twin.delivery()
            assert got.tools == ["calculator", "file_read"]
            assert (await node.twin.call_tool(got, "pay", {}))["status"] == "denied"
            node.twin.finish(got)
        for number, (tools, left) in enumerate(
            ((["pay", "no_such_tool"], ["pay"]), ([], []), (["*"], sorted({*EVERY_TOOL} - {"spawn_agent"}))),
            3,
        ):
            node.mesh.list = node.mesh.list.without(eve.origin).with_peer(
                Peer("b", eve.origin, tools=frozenset(tools))
            )
            node.op(eve, message(number, rights=None))
            got = await node.twin.delivery()
            assert got.tools == left
            node.twin.finish(got)

    on_pair(tmp_path, body)


async def has_no_more_than(twin: Twin, at: Delivery, tools: frozenset[str]) -> None:
    process = twin.kernel.live.get(at.pid)
    assert process is not None and process.rights == tools
    assert (await twin.call_tool(at, "memory_write", {"text": "x"}))["status"] == "denied"


@pytest.mark.parametrize("tools", [frozenset[str](), frozenset(("calculator",)), None])
def test_a_message_that_waits_or_is_replayed_has_no_more_than_its_peer_has_by_then(
    tmp_path: Path, tools: frozenset[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tools`` None: the node is no peer any more."""
    monkeypatch.setattr(specs, "TERM_S", 0.05)  # for a turn that nobody ends

    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        kernel = node.twin.kernel
        await node.twin.spawn("bob", tools=EVERY_TOOL)
        node.op(eve, message(1))
        first = await node.twin.delivery()
        node.op(eve, message(2))
        await until(lambda: len(kernel.state.mail["/user/bob"]) == 2)
        unlink(node.mesh, eve.mesh, "away")
        node.mesh.list = AllowList() if tools is None else AllowList((Peer("b", eve.origin, tools=tools),))
        node.twin.finish(first)
        waited = await node.twin.delivery()
        await has_no_more_than(node.twin, waited, tools or frozenset())
        kernel.processes.stop("/user/bob")
        await until(lambda: bool(kernel.state.dead) and kernel.live.at("/user/bob") is None)
        kernel.processes.start("/user/bob")
        await kernel.router.replay(waited.message.id, 0)
        await has_no_more_than(node.twin, await node.twin.delivery(), tools or frozenset())

    on_pair(tmp_path, body, tools=frozenset(("*",)))


def test_a_turn_that_is_open_for_a_peer_has_no_tool_left_when_that_is_removed(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob", tools=EVERY_TOOL)
        await node.twin.spawn("ada", tools=EVERY_TOOL)
        node.op(eve, message(1))
        await node.twin.send("ada")
        for_peer, for_operator = await node.twin.delivery(), await node.twin.delivery()
        assert (await node.twin.call_tool(for_peer, "memory_write", {"text": "x"}))["status"] == "ok"
        await node.control(Peers.remove, "b")
        assert (await node.twin.call_tool(for_peer, "memory_write", {"text": "y"}, 1))["status"] == "denied"
        assert (await node.twin.call_tool(for_operator, "memory_write", {"text": "z"}))["status"] == "ok"

    on_pair(tmp_path, body, tools=frozenset(("*",)))


def test_what_an_agent_asks_others_for_a_peer_stays_below_the_peers_ceiling(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob", tools=EVERY_TOOL)
        await node.twin.spawn("ada", tools=EVERY_TOOL)
        node.mesh.list = AllowList((Peer("b", eve.origin, tools=frozenset(("ask", "calculator"))),))
        node.op(eve, message(1, to="bob"))
        at = await node.twin.delivery()
        node.twin.ask_tool(at, "ask", {"to": "ada", "text": "pay for me"})
        asked = await node.twin.delivery()
        assert (asked.message.text, asked.tools) == ("pay for me", ["ask", "calculator"])

    on_pair(tmp_path, body)


def test_a_process_that_a_peer_starts_holds_no_tool_over_its_ceiling(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        node.op(eve, {"op": "spawn", "ref": 1, "request": {"name": "minion", "tools": ["calculator", "pay"]}})
        await until(lambda: any(said["op"] == "result" for said in node.mesh.said))
        answer = node.mesh.said[-1]
        assert answer["code"] == "refused" and answer["why"].endswith("not pay")
        assert "/user/minion" not in node.twin.kernel.state.slots
        node.mesh.list = AllowList((Peer("b", eve.origin, may=RIGHTS, tools=frozenset(("calculator",))),))
        node.op(eve, {"op": "spawn", "ref": 2, "request": {"name": "minion"}})
        await until(lambda: "/user/minion" in node.twin.kernel.state.slots)
        assert node.twin.kernel.state.slots["/user/minion"].spec.tools == ("calculator",)

    on_pair(tmp_path, body, may=RIGHTS)


def test_the_channel_leaves_what_was_claimed_and_fails_closed() -> None:
    tools = frozenset(("calculator", "spawn_agent", "pay"))
    assert channel_rights({"send"}, None, tools) == {"calculator", "pay"}
    assert channel_rights({"send", "spawn"}, None, tools) == set(tools)
    assert channel_rights({"send", "spawn"}, frozenset(), tools) == set()
    assert channel_rights(set(), frozenset({"spawn_agent", "other"}), tools) == set()
    letter = read_wire_message(msgpack.packb({**LETTER, "rights": []}), 1000)
    assert isinstance(letter, WireMessage)
    assert letter.rights == frozenset()


def test_only_the_node_that_was_asked_can_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            node_twin(tmp_path / "a", "a", 1) as a,
            node_twin(tmp_path / "b", "b", 2) as b,
            node_twin(tmp_path / "c", "c", 3) as eve,
        ):
            befriend(a, b)
            befriend(a, eve)
            await b.twin.spawn("bob")
            waiting = asyncio.ensure_future(a.control(Messages.send, "bob@b", "what is it", wait_s=LIMIT_S))
            got = await b.twin.delivery()
            question = next(iter(a.twin.kernel.state.in_transit.questions))
            a.op(eve, message(text="a lie", answers=question, status="ok"))
            assert "nobody waits" in await refusal(eve)
            a.op(eve, {"op": "ack", "n": int(question[1:]), "id": question})
            b.twin.finish(got, "the truth")
            assert (await waiting)["reply"] == "the truth"

    asyncio.run(run())


def test_a_replayed_message_is_not_accepted_twice_and_another_under_its_number_not_at_all(
    tmp_path: Path,
) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, message(7))
        await node.twin.delivery()
        node.op(eve, message(7))
        node.op(eve, message(7, "m7b", text="another"))
        node.op(eve, message(3))
        assert "was used before" in await refusal(eve)
        assert balance(node)[0] == 1

    on_pair(tmp_path, body)


def test_what_is_asked_again_and_again_while_the_disk_refuses_is_answered_once_more(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, message(1))
        await until(lambda: len(_said_to(eve)) == 1)
        disk.full = True
        node.op(eve, message(2))
        await until(lambda: node.twin.ledger.refusal is not None)
        for _ in range(100):
            node.op(eve, message(1))
        assert len(_said_to(eve)) == 1
        disk.full = False
        await until(lambda: len(_said_to(eve)) == 3)
        node.op(eve, message(1))
        assert [op["n"] for op in _said_to(eve)] == [1, 2, 1, 1]

    on_pair(tmp_path, body, disk=disk)


def test_made_up_numbers_while_the_disk_refuses_end_the_link(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.op(eve, message(10_000))
        await until(lambda: len(_said_to(eve)) == 1)
        disk.full = True
        node.op(eve, message(10_001))
        await until(lambda: node.twin.ledger.refusal is not None)
        for number in range(1, MAX_OPEN + 2):
            assert not node.mesh.cuts
            node.op(eve, message(number))
        assert "wait for the disk" in node.mesh.cuts[0]
        disk.full = False
        await until(lambda: node.twin.ledger.refusal is None)

    on_pair(tmp_path, body, disk=disk)


def test_a_flood_into_a_mailbox_is_refused_and_an_endless_one_ends_the_link(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        for number in range(1, 60):
            if node.mesh.cuts:
                break
            node.op(eve, message(number))
        assert balance(node)[0] == 5
        assert "again and again" in node.mesh.cuts[0]
        assert len(await node.twin.entries("message.refused")) == 10
        assert len(node.twin.kernel.state.in_transit.inbox[eve.origin]) <= 16

    bounds = Bounds(mailbox_messages=5, peer_refusals=10, peer_refusals_per_s=0.001)
    on_pair(tmp_path, body, bounds=bounds)


def test_refusals_are_written_at_most_once_a_second_and_counted(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        for _ in range(500):
            node.twin.kernel.remote.on_refused("tcp://1.2.3.4:5", "a stranger")
        assert len(await node.twin.entries("peer.refused")) <= 2

    on_pair(tmp_path, body)


@pytest.mark.parametrize(
    ("op", "right"),
    [
        ({"op": "spawn", "request": {"name": "minion"}}, "spawn"),
        ({"op": "kill", "target": "bob", "signal": "kill"}, "kill"),
    ],
)
def test_a_call_without_its_grant_is_refused_and_does_nothing(
    tmp_path: Path, op: dict[str, Any], right: str
) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        pid = await node.twin.spawn("bob")
        node.op(eve, {**op, "ref": 1})
        await until(lambda: any(said["op"] == "result" for said in node.mesh.said))
        answer = node.mesh.said[-1]
        assert (answer["code"], answer["why"]) == ("refused", f"your node may not {right} here")
        process = node.twin.kernel.live.get(pid)
        assert process is not None
        assert process.state == "running"
        assert len(node.twin.kernel.live) == 3
        assert await node.twin.entries("peer.command") == []

    on_pair(tmp_path, body)


@pytest.mark.parametrize(
    "request_",
    [
        None,
        {"name": "minion", "workspace": "/etc"},
        {"name": "minion", "under": "/kernel"},
        {"name": "minion", "under": "/"},
        {"name": "../minion"},
        {"name": "minion", "behaviour": "no_such"},
        {"name": "minion", "tools": ["no_such_tool"]},
        {"name": "minion", "tools": "calculator"},
        {"name": "minion", "restart": "always"},
        {"name": "minion", "provider": "no_such"},
        {"name": "minion", "intensity": [1]},
        {"name": "minion", "supervisor": True, "strategy": "one_for_none"},
        {"name": "minion", "supervisor": True, "strategy": 5},
        {"name": "minion", "system_prompt": "x" * 100_000},
        {"name": 5},
        {"name": "minion", "principal": "operator"},
    ],
)
def test_a_granted_spawn_takes_no_more_than_it_may_say(tmp_path: Path, request_: Any) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        node.op(eve, {"op": "spawn", "ref": 1, "request": request_})
        await until(lambda: any(said["op"] == "result" for said in node.mesh.said))
        assert "code" in node.mesh.said[-1]
        assert len(node.twin.kernel.live) == 2

    on_pair(tmp_path, body, may=frozenset({"spawn"}))


def test_a_granted_kill_does_not_reach_the_top(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        for number, target in enumerate(("/", "/user", "/kernel", "0", "1")):
            node.op(eve, {"op": "kill", "ref": number, "target": target, "signal": "kill"})
        await until(lambda: sum(said["op"] == "result" for said in node.mesh.said) == 5)
        assert all("code" in said for said in node.mesh.said if said["op"] == "result")
        assert len(node.twin.kernel.live) == 2

    on_pair(tmp_path, body, may=frozenset({"kill"}))


def test_calls_and_monitors_of_one_peer_are_bounded(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        await node.twin.spawn("bob")
        node.twin.cells.refuse = lambda placement: ""
        for ref in range(10):
            node.op(eve, {"op": "spawn", "ref": ref, "request": {"name": f"minion{ref}"}})
        await until(lambda: sum(said["op"] == "result" for said in node.mesh.said) == 10)
        busy = [said for said in node.mesh.said if said.get("code") == "busy"]
        assert len(busy) == 8
        for ref in range(100, 110):
            node.op(eve, {"op": "monitor", "ref": ref, "target": "bob"})
        assert sum(said.get("reason") == "refused" for said in node.mesh.said) == 7

    on_pair(tmp_path, body, may=frozenset({"spawn", "ps"}), bounds=Bounds(peer_calls=2, peer_monitors=3))


def test_an_answer_to_a_call_of_another_peer_is_ignored(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            node_twin(tmp_path / "a", "a", 1) as a,
            node_twin(tmp_path / "b", "b", 2) as b,
            node_twin(tmp_path / "c", "c", 3) as eve,
        ):
            befriend(a, b)
            befriend(a, eve)
            a.mesh.lose = lambda op: op["op"] == "spawn"
            peer = a.mesh.peer("b")
            assert isinstance(peer, Peer)
            call = asyncio.ensure_future(a.twin.kernel.remote.calls.call(peer, "spawn", {"request": {}}))
            await until(lambda: any(op["op"] == "spawn" for op in a.mesh.said))
            [ref] = [op["ref"] for op in a.mesh.said if op["op"] == "spawn"]
            a.op(eve, {"op": "result", "ref": ref, "ok": {"address": "/user/x", "pid": 4}})
            a.op(b, {"op": "result", "ref": [ref], "ok": {}})
            a.op(b, {"op": "result", "ref": ref, "code": "busy", "why": "no room"})
            with pytest.raises(Exception, match="b says: no room"):
                await call

    asyncio.run(run())
