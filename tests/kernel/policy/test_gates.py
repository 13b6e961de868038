"""Each gate by itself, with plain values: what a later line would catch too is still this gate's to refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

import pytest

from kernel.abi import Effects, Sandbox, ToolDeclaration
from kernel.bounds import Bounds
from kernel.errors import Busy, CapabilityError, Invalid, MailboxFull
from kernel.message.messaging import Outgoing
from kernel.model.spec import ProcessSpec
from kernel.policy.asker import PERSON, Asker, channel_of
from kernel.policy.capability import capability_gate
from kernel.policy.confirmation import confirmation_gate
from kernel.policy.journal import journal_gate
from kernel.policy.limits.calls import calls_gate
from kernel.policy.limits.causes import causes_gate
from kernel.policy.limits.doubts import doubts_gate
from kernel.policy.limits.mailboxes import mailboxes_gate
from kernel.policy.limits.memory import memory_gate
from kernel.policy.limits.processes import processes_gate
from kernel.policy.limits.sizes import sizes_gate
from kernel.policy.peers import NEEDED, peers_gate
from kernel.policy.pipeline import ALLOWED, judge
from kernel.policy.proposal import (
    AskModel,
    CallNode,
    Facts,
    Operation,
    Proposal,
    ReadMemory,
    SendMessage,
    SpawnProcess,
    UseTool,
    Verdict,
    WatchProcess,
    WriteMemory,
    deny,
)
from kernel.policy.roles import roles_gate
from kernel.state.state import State
from mesh.identity.peers import RIGHTS
from tests.kernel.twins.records import message
from tests.places import ROOT
from weftos.node.gates import GATES

HELD = frozenset({"pay", "other"})
AGENT = Asker("operator", "control", process="/user/boss", turn="t1", trace=b"t" * 16, rights=HELD)
ORIGIN = "weftos-" + "a" * 26
PEER = Asker(f"peer:{ORIGIN}", "mesh", rights=frozenset({"calculator"}), may=frozenset({"send"}), name="bob")


def facts(state: State | None = None, writable: bool = True, /, **bounds: int) -> Facts:
    return Facts(state or State(10, 1_000), Bounds(**bounds), writable)


def tool(
    *, effects: Effects = "external", sandbox: Sandbox = "thirdparty", confirmation: bool = False
) -> UseTool:
    schema = {"type": "object"}
    declared = ToolDeclaration(
        "pay", "Pay.", schema, effects=effects, sandbox=sandbox, confirmation=confirmation
    )
    return UseTool(declared, {"amount": 5})


class Told(State):
    """A state that has been told of a few entries."""

    def __init__(self) -> None:
        super().__init__(10, 1_000)
        self._seq = 0

    def tell(self, kind: str, body: Mapping[str, Any], trace: bytes = b"t" * 16) -> None:
        self._seq += 1
        self.apply_entry(kind, dict(body), self._seq, self._seq, trace)

    def spawned(
        self, address: str, made_by: str = "operator", tools: tuple[str, ...] = (), **fields: Any
    ) -> None:
        parent, _, name = address.rpartition("/")
        spec = ProcessSpec(name, tools=tools, **fields).to_json()
        self.tell("process.spawned", {"address": address, "parent": parent, "spec": spec, "made_by": made_by})

    def accepted(
        self, to: str, text: str = "hi", rights: list[str] | None = None, sender: str = "/user/boss"
    ) -> None:
        ident = f"m{self._seq + 1}"
        body = {
            "id": ident,
            "sender": sender,
            "to": to,
            "text": text,
            "session": "main",
            "reply_to": "",
        }
        self.tell(
            "message.accepted",
            {**body, "wants_reply": False, "deadline_us": 0, "rights": rights, "waiting": []},
        )

    def sent(self, peer: str, text: str = "hi", **more: Any) -> str:
        ident = f"m{self._seq + 1}"
        body = {"id": ident, "sender": "/user/boss", "to": f"bob@{peer}", "peer": peer, "text": text}
        rest = {"session": "main", "reply_to": "", "wants_reply": False, "deadline_us": 9, "answer_by_us": 0}
        told = {**body, **rest, "rights": [], "waiting": [], "answers": "", "status": "", **more}
        self.tell("message.sent", told)
        return ident


# -- tools -----------------------------------------------------------------------------------------------------------


def test_the_capability_gate_lets_pass_what_is_held_and_names_what_is_not() -> None:
    def says(rights: frozenset[str] | None) -> Verdict | None:
        return capability_gate(Proposal(replace(AGENT, rights=rights), tool()), facts())

    assert says(frozenset({"pay"})) is None
    assert says(None) is None
    assert says(frozenset({"ask", "other"})) == deny(
        "capability: pay is not among the rights of this turn (ask, other)"
    )
    assert says(frozenset()) == deny("capability: pay is not among the rights of this turn (none)")


@pytest.mark.parametrize(
    ("effects", "writable", "passes"),
    [
        ("none", True, True),
        ("none", False, True),
        ("local", True, True),
        ("local", False, False),
        ("external", True, True),
        ("external", False, False),
    ],
)
def test_the_journal_gate_stops_effects_while_nothing_can_be_recorded(
    effects: Effects, writable: bool, passes: bool
) -> None:
    verdict = journal_gate(Proposal(AGENT, tool(effects=effects)), facts(None, writable))
    words = "journal: the node is read-only, so tools with effects do not run"
    assert verdict == (None if passes else deny(words))


def test_the_confirmation_gate_escalates_what_wants_a_persons_word() -> None:
    assert confirmation_gate(Proposal(AGENT, tool()), facts()) is None
    verdict = confirmation_gate(Proposal(AGENT, tool(confirmation=True)), facts())
    assert verdict == Verdict("escalate", ("confirmation: pay wants a person's approval",))


@pytest.mark.parametrize(
    ("effects", "sandbox", "doubts", "passes"),
    [
        ("external", "thirdparty", 1, True),
        ("external", "thirdparty", 0, False),
        ("local", "builtin", 0, False),
        ("local", "node", 0, True),
        ("none", "thirdparty", 0, True),
    ],
)
def test_the_doubts_gate_stops_what_could_leave_another_doubt(
    effects: Effects, sandbox: Sandbox, doubts: int, passes: bool
) -> None:
    verdict = doubts_gate(Proposal(AGENT, tool(effects=effects, sandbox=sandbox)), facts(doubts=doubts))
    assert (verdict is None) == passes
    assert verdict is None or verdict.reasons[0].startswith("doubts: 0 calls, of 0 bytes, wait for a person")


# -- spawns ----------------------------------------------------------------------------------------------------------


def spawn(parent: str = "/user", tools: tuple[str, ...] = ()) -> SpawnProcess:
    return SpawnProcess(ProcessSpec("child", tools=tools), parent)


def test_a_child_gets_no_tool_that_who_asks_or_the_agent_above_does_not_hold() -> None:
    state = Told()
    state.spawned("/user", type="supervisor")
    state.spawned("/user/boss", tools=("pay",))
    state.spawned("/user/boss/team", type="supervisor")
    below = "/user/boss/team"
    assert capability_gate(Proposal(PERSON, spawn("/user", ("other",))), facts(state)) is None
    assert capability_gate(Proposal(AGENT, spawn(below, ("pay",))), facts(state)) is None
    assert capability_gate(Proposal(PERSON, spawn(below, ("other",))), facts(state)) == deny(
        "the parent cannot give what it does not have: other (it has: pay)", CapabilityError
    )
    assert capability_gate(Proposal(AGENT, spawn("/user", ("third",))), facts(state)) == deny(
        "the parent cannot give what it does not have: third (it has: other, pay)", CapabilityError
    )
    assert capability_gate(Proposal(PEER, spawn("/user", ("calculator", "pay"))), facts(state)) == deny(
        "bob may have used here: calculator; not pay", CapabilityError
    )


def test_the_processes_gate_keeps_a_reserve_for_the_operator_and_holds_agents_and_peers_to_quotas() -> None:
    state = Told()
    state.spawned("/user", type="supervisor")
    state.spawned("/user/boss")
    state.spawned("/user/boss/a", made_by="agent")
    state.spawned("/user/of-bob", made_by=PEER.principal)

    def says(asker: Asker, parent: str, **bounds: int) -> tuple[str, ...]:
        verdict = processes_gate(Proposal(asker, spawn(parent)), facts(state, **bounds))
        assert verdict is None or verdict.error is Busy
        return () if verdict is None else verdict.reasons

    assert says(PERSON, "/user", processes=5, operator_reserve=2) == ()
    assert says(AGENT, "/user/boss", processes=5, operator_reserve=2) == (
        "the node has 4 slots; the last 2 of 5 are for its operator; weftos rm takes away what is stopped",
    )
    assert says(PERSON, "/user", processes=4) == (
        "the node has 4 slots, the limit; weftos rm takes away what is stopped",
    )
    assert says(PERSON, "/user/boss", children=1) == (
        "/user/boss has 1 children, the limit; weftos rm takes away what is stopped",
    )
    assert says(AGENT, "/user/boss", agent_children=1) == (
        "/user/boss has 1 children, the limit for an agent",
    )
    assert says(AGENT, "/user/boss/a", agent_subtree=1) == (
        "1 processes are below /user/boss, the limit for what agents make",
    )
    share = (f"1 processes here count to {PEER.principal}, the limit for one peer",)
    assert says(PEER, "/user", peer_processes=1) == share
    assert says(replace(AGENT, process="/user/of-bob"), "/user/of-bob", peer_processes=1) == share
    assert says(PERSON, "/user/of-bob", peer_processes=1) == ()


def test_one_message_from_outside_leads_to_so_many_processes_and_messages_of_agents() -> None:
    state = Told()
    state.spawned("/user/boss/a", made_by="agent")
    state.accepted("/user/boss", rights=["pay"])
    held = facts(state, agent_spawns_per_trace=1, messages_per_trace=1)
    send = SendMessage("/user/boss", 2, 2)
    assert causes_gate(Proposal(AGENT, spawn("/user/boss")), held) == deny(
        "1 processes came of one message from outside, the limit; nobody asked for more"
    )
    assert causes_gate(Proposal(AGENT, send), held) == deny(
        "more than 1 messages came of one message from outside; nobody asked for more"
    )
    for asker in (PERSON, replace(PERSON, trace=AGENT.trace), replace(AGENT, trace=b"o" * 16)):
        assert causes_gate(Proposal(asker, spawn("/user/boss")), held) is None
        assert causes_gate(Proposal(asker, send), held) is None


# -- messages --------------------------------------------------------------------------------------------------------


def test_a_message_is_as_long_as_it_may_be_and_a_question_to_a_model_too() -> None:
    held = facts(message_bytes=10, model_request_bytes=20)
    assert sizes_gate(Proposal(AGENT, SendMessage("/user/a", 10, 99)), held) is None
    assert sizes_gate(Proposal(AGENT, SendMessage("/user/a", 11, 99)), held) == deny(
        "message of 11 bytes, limit 10", Invalid
    )
    assert sizes_gate(Proposal(AGENT, AskModel("p", "m", (), 20)), held) is None
    assert sizes_gate(Proposal(AGENT, AskModel("p", "m", (), 21)), held) == deny(
        "model request of 21 bytes, limit 20", Invalid
    )


def test_a_mailbox_holds_so_many_messages_and_bytes() -> None:
    state = Told()
    state.accepted("/user/a", "four")

    def says(**bounds: int) -> Verdict | None:
        return mailboxes_gate(Proposal(PERSON, SendMessage("/user/a", 4, 4)), facts(state, **bounds))

    held = state.mail.box_bytes["/user/a"]
    assert held > len("four/user/bossmain")
    assert says() is None
    assert says(mailbox_bytes=held + 4) is None
    assert says(mailbox_messages=1) == deny("mailbox of /user/a is full (1 messages, limit 1)", MailboxFull)
    assert says(mailbox_bytes=held + 3) == deny(
        f"mailbox of /user/a is full ({held} bytes, limit {held + 3})", MailboxFull
    )


def test_a_message_counts_with_all_that_it_holds_before_it_is_accepted_too() -> None:
    def held(**more: Any) -> int:
        told = {"text": "", "session": "", "sender": "", "reply_to": "", "waiting": [], "rights": [], **more}
        state = State(10, 1_000)
        state.apply_entry("message.accepted", message(1, "/user/a", **told), 1, 1, b"t" * 16)
        out = Outgoing(
            **{name: told[name] for name in ("sender", "text", "session", "reply_to")},
            target="/user/a",
            trace=b"",
            cause=1,
            rights=frozenset(told["rights"]),
            waiting=tuple(told["waiting"]),
        )
        assert out.size_bytes == state.mail_bytes
        return out.size_bytes

    bare = held()
    for name in ("text", "session", "sender", "reply_to"):
        assert held(**{name: "é" * 10}) == bare + 20
    for name in ("waiting", "rights"):
        assert held(**{name: ["é" * 5, "x" * 10]}) == bare + 20


def test_all_mail_is_bounded_and_the_last_of_it_is_for_people() -> None:
    state = Told()
    state.accepted("/user/a", "x" * 1_000)
    state.sent(ORIGIN, "x" * 1_000)
    held = state.mail_bytes
    here, there = SendMessage("/user/b", 4, 4), SendMessage("bob", 4, 4, "bob", "weftos-" + "b" * 26)

    def says(asker: Asker, send: SendMessage, limit: int) -> Verdict | None:
        return mailboxes_gate(Proposal(asker, send), facts(state, mail_bytes=limit))

    def full(limit: int) -> Verdict:
        return deny(f"{held} bytes of messages wait in this node, limit {limit}", Busy)

    for send in (here, there):
        assert says(PERSON, send, held + 4) is None
        assert says(PERSON, send, held + 3) == full(held + 3)
        assert says(AGENT, send, held + 4) == full(held + 4 - (held + 4) // 8)
        assert says(AGENT, send, held * 2) is None
    assert says(PERSON, replace(there, answers=True), 1) is None
    assert mailboxes_gate(Proposal(PERSON, here), facts(Told(), mail_bytes=1)) is None


def test_messages_of_a_peer_have_a_share_whoever_of_it_sends_them() -> None:
    state = Told()
    state.accepted("/user/a", "x" * 1_000, [], f"/user/eve@{ORIGIN}")
    held = state.mail_bytes

    def says(sender: str, limit: int, process: str = "") -> Verdict | None:
        asker = Asker(sender, channel_of(sender), process=process, rights=frozenset())
        send = SendMessage("/user/b", 4, 4)
        return mailboxes_gate(Proposal(asker, send), facts(state, peer_mail_bytes=limit))

    mallory = f"/user/mallory@{ORIGIN}"
    assert says(mallory, held + 4) is None
    why = f"{held} bytes of messages of your node wait here, limit {held + 3}"
    assert says(mallory, held + 3) == deny(why, Busy)
    assert says(mallory, held + 3, process="/user/a") is None
    for other in ("/user/boss", "operator", "/user/eve@weftos-" + "b" * 26):
        assert says(other, held + 3) is None
    state.tell("message.dead", {"id": "m1", "to": "/user/a", "why": "x"})
    assert says(mallory, 1) is None and not state.mail.origin_bytes and not state.mail.box_bytes


def test_a_question_counts_until_it_is_answered_and_once() -> None:
    state = Told()
    ident = state.sent(ORIGIN, wants_reply=True, reply_to="t1:1")
    held = state.mail_bytes
    assert held
    state.tell("message.acknowledged", {"id": ident})
    assert state.mail_bytes == held
    again = State(10, 1_000)
    again.in_transit.restore(state.in_transit.rows())
    assert again.mail_bytes == held
    for told in (state, again):
        told.apply_entry("message.replied", {"id": ident}, 9, 9, b"")
        assert told.mail_bytes == 0
    ident = state.sent(ORIGIN, wants_reply=True, reply_to="t1:1")
    state.tell("message.replied", {"id": ident})
    assert state.mail_bytes == held
    state.tell("message.acknowledged", {"id": ident})
    assert state.mail_bytes == 0


def test_an_outbox_takes_an_answer_when_it_takes_nothing_else() -> None:
    state = Told()
    state.sent(ORIGIN, "four")

    def says(*, answers: bool = False, **bounds: int) -> Verdict | None:
        send = SendMessage("bob", 4, 4, "bob", ORIGIN, answers)
        return mailboxes_gate(Proposal(PERSON, send), facts(state, **bounds))

    assert says() is None
    assert says(outbox_messages=1) == deny("1 messages wait for bob, limit 1", Busy)
    assert says(outbox_messages=1, answers=True) is None
    held = state.mail_bytes
    assert says(outbox_bytes=held + 3) == deny(f"{held} bytes wait for bob, limit {held + 3}", Busy)
    assert says(outbox_bytes=held + 3, answers=True) is None


# -- memory ----------------------------------------------------------------------------------------------------------


def test_memory_has_room_for_a_person_when_processes_have_filled_theirs() -> None:
    state = Told()
    for number in range(9):
        body = {"id": f"d{number}", "owner": "/user/a", "scope": "own", "bytes": 10}
        state.tell("memory.written", {**body, "text_hash": "", "title": "", "shown_hash": ""})

    def says(asker: Asker, owner: str = "/user/b", **bounds: int) -> Verdict | None:
        return memory_gate(Proposal(asker, WriteMemory(owner, 10)), facts(state, **bounds))

    full = "memory is full: this would make "
    assert says(AGENT) is None
    assert says(PERSON, documents=10) is None
    assert says(AGENT, documents=10) == deny(
        f"{full}10 documents of this node, limit 10 less 1 that are kept for persons; forget some first", Busy
    )
    assert says(AGENT, documents_bytes=100) == deny(
        f"{full}100 bytes of all documents, limit 100 less 10 that are kept for persons; forget some first",
        Busy,
    )
    assert says(PERSON, "/user/a", documents_per_owner=9) == deny(
        f"{full}10 documents of /user/a, limit 9; forget some first", Busy
    )


# -- other nodes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", NEEDED)
def test_a_peer_gets_what_it_is_granted_and_nothing_else(op: str) -> None:
    granted = replace(PEER, may=frozenset({NEEDED[op]}))
    assert peers_gate(Proposal(granted, CallNode(op)), facts()) is None
    verdict = peers_gate(Proposal(replace(PEER, may=RIGHTS - {NEEDED[op]}), CallNode(op)), facts())
    assert verdict == deny(
        "this node takes no messages from yours: it may not send"
        if op == "message"
        else f"your node may not {NEEDED[op]} here"
    )
    assert peers_gate(Proposal(PERSON, CallNode(op, to="bob")), facts()) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (CallNode("spawn", 1), ""),
        (CallNode("spawn", 2), "2 calls of your node are under way, the limit"),
        (CallNode("kill", 2, "bob"), "2 calls to bob are unanswered, the limit"),
        (CallNode("monitor", 2), ""),
        (CallNode("monitor", 3), "3 processes of this node are monitored, the limit"),
        (CallNode("monitor", 3, "bob"), "3 processes of bob are monitored, the limit"),
        (CallNode("message", 9), ""),
    ],
)
def test_so_many_calls_are_under_way_between_two_nodes(call: CallNode, words: str) -> None:
    verdict = calls_gate(Proposal(PEER, call), facts(peer_calls=2, peer_monitors=3))
    assert verdict == (deny(words, Busy) if words else None)


@pytest.mark.parametrize(
    ("tools", "process", "watch", "may"),
    [
        ({"send_message"}, "/user/a", WatchProcess("/user/b"), True),
        ({"ask"}, "/user/a", WatchProcess("b", "n2"), True),
        ({"pay"}, "/user/a", WatchProcess("/user/a/kid/kid"), True),
        ({"pay"}, "/user/a", WatchProcess("/user/ab"), False),
        ({"pay"}, "/user/a", WatchProcess("/user/a"), False),
        ({"pay"}, "/user/a", WatchProcess("/user/a/kid", "n2"), False),
        ({"pay"}, "/user/a", WatchProcess("kid"), False),
        (set(), "", WatchProcess("/user/a"), False),
    ],
)
def test_who_may_speak_may_watch_and_others_only_what_is_below_them(
    tools: set[str], process: str, watch: WatchProcess, may: bool
) -> None:
    asker = replace(AGENT, rights=frozenset(tools), process=process)
    verdict = capability_gate(Proposal(asker, watch), facts())
    assert (verdict is None) is may
    assert verdict is None or (verdict.decision, verdict.error) == ("deny", CapabilityError)
    assert capability_gate(Proposal(PERSON, watch), facts()) is None


# -- all of them -----------------------------------------------------------------------------------------------------


def test_every_gate_that_there_is_is_in_force() -> None:
    files = (ROOT / "kernel" / "policy").rglob("*.py")
    written = {
        name for file in files for name in re.findall(r"^def (\w+_gate)\(", file.read_text(), re.MULTILINE)
    }
    assert {gate.__name__ for gate in GATES if isinstance(gate, FunctionType)} == written
    assert written


@pytest.mark.parametrize(
    "operation",
    [
        tool(effects="none"),
        AskModel("p", "m", (), 1),
        SendMessage("/user/a", 1, 1),
        SpawnProcess(ProcessSpec("a", tools=()), "/user"),
        WriteMemory("/user/a", 1),
        ReadMemory(query="x"),
        ReadMemory(document="d1"),
        CallNode("kill", to="bob"),
    ],
)
def test_on_an_empty_node_nothing_is_said_against_what_somebody_may(operation: Operation) -> None:
    state = Told()
    state.spawned("/user", type="supervisor")
    for asker in (PERSON, replace(AGENT, process="")):
        assert judge(GATES, Proposal(asker, operation), facts(state)) is ALLOWED


def test_all_that_stands_against_a_call_is_said() -> None:
    call = tool(confirmation=True)
    verdict = judge(GATES, Proposal(replace(AGENT, rights=frozenset()), call), facts(None, False))
    assert verdict.decision == "deny"
    assert [reason.partition(":")[0] for reason in verdict.reasons] == [
        "capability",
        "journal",
        "confirmation",
    ]


def test_who_asks_is_known_by_how_a_sender_is_written() -> None:
    senders = ("operator", "/user/a", f"/user/a@{ORIGIN}")
    assert [channel_of(sender) for sender in senders] == ["control", "process", "mesh"]
    assert [asker.maker for asker in (PERSON, AGENT, PEER)] == ["operator", "agent", PEER.principal]


@pytest.mark.parametrize(
    ("roles", "sender", "why"),
    [
        ((), "operator", ""),
        (("operator",), "operator", ""),
        (("agent", "operator"), "/user/ada", ""),
        (("peer",), f"/user/ada@{ORIGIN}", ""),
        (("operator",), "/user/ada", "roles: pay is called for operator, and this is for agent"),
        (("operator", "agent"), f"/user/ada@{ORIGIN}", "called for operator or agent, and this is for peer"),
        (("peer",), "operator", "called for peer, and this is for operator"),
    ],
)
def test_a_tool_with_roles_is_called_for_who_has_one_of_them(
    roles: tuple[str, ...], sender: str, why: str
) -> None:
    asker = replace(AGENT, principal=sender, channel=channel_of(sender))
    used = UseTool(ToolDeclaration("pay", "Pay.", {"type": "object"}, roles=roles), {})
    verdict = roles_gate(Proposal(asker, used), facts())
    assert (verdict is None) == (not why)
    assert verdict is None or why in verdict.reasons[0]


def test_the_node_itself_has_no_role() -> None:
    used = UseTool(ToolDeclaration("pay", "Pay.", {"type": "object"}, roles=("operator",)), {})
    verdict = roles_gate(Proposal(replace(AGENT, channel="node"), used), facts())
    assert verdict is not None and verdict.decision == "deny"
