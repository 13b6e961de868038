"""Sessions between agents: each of one life of an address, and of those for whom it acts, over nodes too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernel.message.session_names import MOST_NODES
from kernel.message.session_names import session_name as name_of
from kernel.message.wire_message import MAX_SESSION_CHARS
from kernel.model.address import MAX_DEPTH, MAX_NAME
from kernel.model.spec import ProcessSpec
from kernel.slices.mailboxes import Mail
from kernel.slices.tree.slots import Slot
from tests.kernel.peer.test_remote_hostile import message
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin
from tests.kernel.twins.mesh_twin import NodeTwin, on_pair, until

HERE, *NODES = (f"weftos-{letter * 26}" for letter in "abcdefghijk")


async def asked(twin: Twin, text: str, **mail: Any) -> Delivery:
    """What keeper is handed when bob, in a turn of its own, asks it; both remember that."""
    if mail:
        await twin.send("bob", text, **mail)
    bob = await twin.delivery()
    twin.ask_tool(bob, "ask", {"to": "keeper", "text": text})
    keeper = await twin.delivery()
    twin.finish(keeper, "noted", [{"said": text}])
    await twin.result()
    twin.finish(bob)
    return keeper


def test_a_new_process_of_a_name_does_not_go_on_with_the_conversations_of_the_old_one(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        for name in ("keeper", "bob"):
            await twin.spawn(name)
        assert (await asked(twin, "the code", session="main")).history == []
        await twin.ledger.barrier()

    async def after(twin: Twin) -> None:
        for name in ("keeper", "bob"):
            await twin.kernel.processes.when_started(f"/user/{name}")
        assert (await asked(twin, "and again", session="other")).history == [{"said": "the code"}]
        twin.kernel.processes.stop("/user/bob")
        await until(lambda: twin.kernel.live.at("/user/bob") is None)
        await twin.kernel.processes.remove("/user/bob", False)
        await twin.spawn("bob")
        assert (await asked(twin, "what was the code", session="main")).history == []

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_what_an_agent_asks_in_a_peers_turn_is_not_what_it_asks_in_its_operators(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        twin = node.twin
        for name in ("keeper", "bob"):
            await twin.spawn(name)
        mine = await asked(twin, "the code", session="main")
        node.op(eve, message())
        hers = await asked(twin, "what was the code")
        assert hers.history == []
        assert hers.message.session == f"{mine.message.session}~{eve.origin}"
        assert (await asked(twin, "go on", session=f"main~{eve.origin}")).history == [{"said": "the code"}]

    on_pair(tmp_path, body, tools=frozenset(("ask",)))


def test_a_peer_names_no_session_that_processes_of_this_node_have_for_it(tmp_path: Path) -> None:
    async def body(node: NodeTwin, eve: NodeTwin) -> None:
        twin = node.twin
        for name in ("keeper", "bob"):
            await twin.spawn(name)
        node.op(eve, message())
        hers = (await asked(twin, "told for her")).message.session
        for number, said in enumerate((hers, hers.partition("~")[0], hers.rpartition("~")[0] + "~"), 2):
            node.op(eve, message(number, to="keeper", session=said))
            got = await twin.delivery()
            assert got.history == [] and got.message.session == f"{said}@{eve.origin}"
            twin.finish(got)

    on_pair(tmp_path, body, tools=frozenset(("ask",)))


def slot(address: str = "/user/bob", seq: int = 7) -> Slot:
    return Slot(address, "/user", ProcessSpec("bob"), seq)


def mail(sender: str, session: str) -> Mail:
    return Mail("m1", 1, sender, "/user/bob", "hi", session, "", False, 0, b"", None, 0)


def session_name(of: Slot, handled: Mail, here: str, there: str) -> str:
    return name_of(of, handled, here, there, NODES.__contains__)


def test_agents_of_one_node_hand_on_for_whom_they_act() -> None:
    one, two = NODES[:2]
    assert session_name(slot(), mail("operator", f"x~{one}"), HERE, HERE) == "/user/bob#7"
    assert session_name(slot(), mail("/user/ada", "/user/ada#3"), HERE, HERE) == "/user/bob#7"
    assert (
        session_name(slot(), mail("/user/ada", "/user/ada"), HERE, HERE) == "/user/bob#7"
    )  # an older version's
    for sender, session in (
        ("/user/ada", f"/user/ada#3~{one}~{two}"),
        (f"/user/ada@{two}", f"/user/ada#3~{one}@{two}"),
        (f"operator@{two}", f"main~no node~{one}@{two}"),
    ):
        assert session_name(slot(), mail(sender, session), HERE, HERE) == f"/user/bob#7~{one}~{two}"


def test_a_peer_makes_up_no_nodes_that_its_messages_came_of() -> None:
    made_up = f"weftos-{'z' * 26}"
    for word in (made_up, "*", f"{NODES[0]}~{made_up}"):
        handled = mail(f"operator@{NODES[1]}", f"main~{word}@{NODES[1]}")
        assert session_name(slot(), handled, HERE, HERE) == f"/user/bob#7~*~{NODES[1]}"
    handled = mail("/user/ada", f"/user/ada#3~*~{NODES[1]}")
    assert session_name(slot(), handled, HERE, HERE) == f"/user/bob#7~*~{NODES[1]}"


def test_two_agents_of_two_nodes_that_answer_each_other_stay_in_one_session() -> None:
    there = NODES[0]
    session, sender, here, other = "main", "operator", HERE, there
    seen: dict[str, set[str]] = {HERE: set(), there: set()}
    for _ in range(6):
        session = session_name(slot(), mail(sender, session), here, other)
        seen[here].add(session)
        session, sender, here, other = f"{session}@{here}", f"/user/bob@{here}", other, here
    assert seen == {HERE: {"/user/bob#7"}, there: {"/user/bob#7"}}


def test_the_name_of_a_session_is_bounded_however_many_nodes_hand_it_on() -> None:
    nodes, session, sender, seen = [HERE, *NODES], "main", "operator", []
    longest = slot("/" + "/".join(["n" * MAX_NAME] * MAX_DEPTH), 2**62)
    for step in range(40):
        here, there = nodes[step % len(nodes)], nodes[(step + 1) % len(nodes)]
        seen.append(session := session_name(longest, mail(sender, session), here, there))
        assert len(session) <= MAX_SESSION_CHARS and session.count("~") <= MOST_NODES
        session, sender = f"{session}@{here}", f"/user/bob@{here}"
    assert seen[18:29] == seen[29:40]  # the same each time around
