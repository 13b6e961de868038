"""The mesh of a node: who comes in, what peers say and are shown, whose heads are kept."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from chain.merkle.head import TreeHead
from chain.notes.note import verify
from mesh.errors import LinkDown, LinkFull, PeersError
from mesh.files import write_private
from mesh.gossip import head_exchange, heads
from mesh.gossip.adverts import MAX_ADVERT_BYTES, ProcessAdvert, make_advert
from mesh.gossip.head_exchange import MAX_WAITING
from mesh.identity.known_keys import KnownKeys
from mesh.identity.peers import Peer
from mesh.identity.tokens import JoinToken
from mesh.membership.membership import PeerState
from tests.mesh.gossip.test_heads import LEAVES, OTHERS, note, of_tree
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY
from tests.mesh.twins.leaping_loop import run
from tests.mesh.twins.link_nodes import LIMIT_S, until
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.mesh_nodes import MeshNode, opened
from tests.mesh.twins.tcp_land import TcpLand

ROW = ProcessAdvert(7, "/user/boss", "boss", "running", "agent")
Two = Callable[[MeshNode, MeshNode], Awaitable[None]]


def two(place: Path, work: Two, *, land: MemoryNetwork | TcpLand | None = None) -> None:
    """Alice and Bob, who list each other; Bob calls."""

    async def main() -> None:
        network = land or MemoryNetwork()
        alice, bob = MeshNode(ALICE, place, network), MeshNode(BOB, place, network)
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer())
            bob.mesh.add_peer(alice.peer(alice.address))
            assert (await bob.told("up"))[0] == "alice"
            assert (await alice.told("up"))[0] == "bob"
            await work(alice, bob)

    run(main, leaping=not isinstance(land, TcpLand))


@pytest.mark.parametrize("land", [MemoryNetwork, TcpLand], ids=["memory", "zmq"])
def test_peers_exchange_ops_under_their_petnames(tmp_path: Path, land: type[MemoryNetwork | TcpLand]) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        op = {"op": "message", "body": b"\0x", "n": 2**40, "why": None, "list": [1, "two"]}
        bob.mesh.send_op(alice.origin, op)
        assert await alice.told("op") == ("bob", op)
        alice.mesh.send_op(bob.origin, {"op": "ack"})
        assert await bob.told("op") == ("alice", {"op": "ack"})
        (view,) = alice.mesh.peers()
        assert view.peer.name == "bob" and view.member.state is PeerState.UP and view.silence_s is not None
        assert view.member.boot == BOB.boot

    two(tmp_path, work, land=land())


def test_adverts_reach_peers_and_follow_changes(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        alice.rows = [ROW]
        alice.mesh.processes_changed()
        await until(lambda: _processes(bob) == (ROW,))
        alice.rows = []
        alice.mesh.processes_changed()
        await until(lambda: _processes(bob) == ())
        (view,) = bob.mesh.peers()
        assert view.advert is not None and view.advert.version == 2 and view.advert.name == "alice"

    two(tmp_path, work)


def _processes(node: MeshNode) -> tuple[ProcessAdvert, ...] | None:
    (view,) = node.mesh.peers()
    return view.advert.processes if view.advert is not None else None


def test_a_peer_without_the_right_ps_sees_the_node_and_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        alice.rows = [ROW]
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer(may=frozenset(("send",))))
            bob.mesh.add_peer(alice.peer(alice.address))
            alice.mesh.processes_changed()
            await until(lambda: _processes(bob) == ())
            assert bob.mesh.peers()[0].advert is not None
            await until(lambda: (advert := bob.mesh.peers()[0].advert) is not None and advert.version == 1)
            assert _processes(bob) == ()

    run(main, leaping=True)


def test_a_peer_that_is_added_again_with_other_rights_is_shown_what_these_grant(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        alice.rows = [ROW]
        alice.mesh.processes_changed()
        await until(lambda: _processes(bob) == (ROW,))
        alice.mesh.remove_peer("bob")
        alice.mesh.add_peer(bob.peer(may=frozenset(("send",))))
        await until(lambda: _processes(bob) == ())

    two(tmp_path, work)


def test_bad_adverts_and_heads_are_refused_by_name_and_the_link_stays(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        await until(lambda: _processes(alice) is not None)
        stolen = make_advert(ALICE.keys, ALICE.boot, 9, "alice", [ROW])
        old_boot = make_advert(BOB.keys, "0" * 16, 99, "bob", [ROW])
        for value, words in (
            (stolen, "not signed"),
            (old_boot, "of its boot"),
            (b"x", "bytes"),
            (7, "not bytes"),
        ):
            bob.mesh.send_op(alice.origin, {"op": "advert", "advert": value})
            who, why = await alice.told("refused")
            assert who == bob.origin and words in why
        bob.mesh.send_op(alice.origin, {"op": "head", "note": note(4, by=ALICE)})
        assert "not signed by" in (await alice.told("refused"))[1]
        filled = of_tree(4, by=BOB) + "— somebody AAAAAAAA\n".encode() * 4_000
        bob.mesh.send_op(alice.origin, {"op": "head", "note": filled})
        assert f"the limit is {heads.MAX_NOTE_BYTES}" in (await alice.told("refused"))[1]
        assert _processes(alice) == ()
        bob.mesh.send_op(alice.origin, {"op": "still there"})
        assert await alice.told("op") == ("bob", {"op": "still there"})

    two(tmp_path, work)


def test_of_adverts_that_come_at_once_a_few_are_read_and_the_last_one_counts(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        await until(lambda: _processes(alice) is not None)
        for _ in range(200):
            bob.mesh.send_op(alice.origin, {"op": "advert", "advert": b"x" * 100})
        newest = make_advert(BOB.keys, BOB.boot, 99, "bob", [ROW])
        bob.mesh.send_op(alice.origin, {"op": "advert", "advert": newest})
        await until(lambda: _processes(alice) == (ROW,))
        told = [alice.seen.get_nowait() for _ in range(alice.seen.qsize())]
        assert sum("not signed" in str(value) for kind, _, value in told if kind == "refused") <= 2

    two(tmp_path, work)


def test_an_advert_that_is_too_long_is_not_kept_for_later(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        for _ in range(2):
            bob.mesh.send_op(alice.origin, {"op": "advert", "advert": bytes(MAX_ADVERT_BYTES + 1)})
            assert "the limit is" in (await alice.told("refused"))[1]

    two(tmp_path, work)


def test_heads_are_kept_when_they_are_proved_and_a_fallen_size_is_for_a_person_to_decide(
    tmp_path: Path,
) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        for size in (5, 7):
            bob.mesh.publish_head(of_tree(size, by=BOB))
            who, head = await alice.told("head")
            assert (who, head.size) == ("bob", size)
        bob.mesh.publish_head(of_tree(4, by=BOB))
        assert "has size 4, it gave one of 7 before" in (await alice.told("refused"))[1]
        who, conflict = await alice.told("conflict")
        assert (who, conflict.shown) == ("bob", of_tree(4, by=BOB).decode())
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        alice.mesh.cut(bob.origin, "to see a new link")
        await bob.told("up")
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        bob.mesh.send_op(alice.origin, {"op": "after it"})
        await alice.told("op")
        (view,) = alice.mesh.peers()
        assert (view.head, view.conflict) == (head, conflict)
        assert (alice.place / "heads" / f"{BOB.origin}.note").read_bytes() == of_tree(7, by=BOB)
        alice.mesh.decide_head("bob", False, {"reason": "a copy"})
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        assert (await alice.told("head"))[1].size == 9

    two(tmp_path, work)


def test_a_head_that_a_person_has_decided_against_is_no_conflict_on_the_next_link(tmp_path: Path) -> None:
    """The peer shows it there again, as its newest."""

    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        bob.mesh.publish_head(of_tree(7, by=BOB))
        await alice.told("head")
        bob.mesh.publish_head(of_tree(4, by=BOB))
        await alice.told("conflict")
        alice.mesh.decide_head("bob", False, {"reason": "a copy"})
        alice.mesh.cut(bob.origin, "to see a new link")
        await bob.told("up")
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        assert (await alice.told("head"))[1].size == 9
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(5, by=BOB)})
        assert (await alice.told("conflict"))[1].shown_head.size == 5  # another one

    two(tmp_path, work)


def test_a_conflict_is_told_though_a_person_decides_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = heads.PeerHeads.take

    def decided(self: heads.PeerHeads, *args: Any) -> TreeHead | heads.Wanted | None:
        try:
            return take(self, *args)
        except heads.HeadConflictError:
            self.decide(BOB.origin, False, {})
            raise

    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        monkeypatch.setattr(heads.PeerHeads, "take", decided)
        for size in (7, 4, 9):
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(size, by=BOB)})
        assert (await alice.told("conflict"))[1].shown_head.size == 4
        assert (await alice.told("head"))[1].size == 9

    two(tmp_path, work)


def test_a_larger_head_without_its_proof_does_not_replace_the_one_kept(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES[:5]
        bob.mesh.publish_head(of_tree(5, by=BOB))
        await alice.told("head")
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        who, why = await alice.told("refused")
        assert who == BOB.origin
        assert "does not prove that its head of 9 continues that of 5: 'there are 5 entries'" in why
        bob.leaves = OTHERS
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(12, OTHERS, by=BOB)})
        assert "does not continue the head kept" in (await alice.told("refused"))[1]
        conflict = (await alice.told("conflict"))[1]
        assert (conflict.kept_head.size, conflict.shown_head.size) == (5, 9)

    two(tmp_path, work)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ({"op": "prove"}, "between sizes that are none"),
        ({"op": "prove", "size1": -1, "size2": 2}, "between sizes that are none"),
        ({"op": "prove", "size1": True, "size2": 2**63}, "between sizes that are none"),
        ({"op": "proof", "size1": 1, "size2": 2, "hashes": 7}, "no list of at most"),
        ({"op": "proof", "size1": 1, "size2": 2, "hashes": [b""] * 129}, "no list of at most"),
        ({"op": "proof", "size1": 1, "size2": 2, "hashes": ["x"]}, "something else than hashes"),
        ({"op": "proof", "size1": 1, "size2": 2, "hashes": [bytes(33)]}, "something else than hashes"),
    ],
)
def test_a_proof_of_another_form_is_refused_by_name(tmp_path: Path, op: dict[str, Any], words: str) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.mesh.send_op(alice.origin, op)
        assert words in (await alice.told("refused"))[1]

    two(tmp_path, work)


@pytest.mark.parametrize(
    "data", [b"\xc1", b"\x01", msgpack.packb([1]), msgpack.packb({"op": 7}), b"\xdd\xff\xff\xff\xff"]
)
def test_what_is_no_op_ends_the_link(tmp_path: Path, data: bytes) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.links.send(alice.origin, data)
        assert "an op that is no" in (await alice.told("refused"))[1]
        assert (await alice.told("down"))[0] == "bob"
        assert (await alice.told("up"))[0] == "bob"

    two(tmp_path, work)


def test_a_removed_peer_is_cut_and_stays_out_until_it_is_added_again(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        assert alice.mesh.remove_peer("bob").origin == bob.origin
        assert await alice.told("down") == ("bob", "no longer a peer")
        assert "not in the allow list" in (await bob.told("refused"))[1]
        with pytest.raises(LinkDown):
            alice.mesh.send_op(bob.origin, {"op": "x"})
        assert alice.mesh.peers() == () and alice.mesh.peer("bob") is None
        assert bob.mesh.peers()[0].member.state is PeerState.LOST
        with pytest.raises(PeersError, match="no peer 'bob'"):
            alice.mesh.remove_peer("bob")
        alice.mesh.add_peer(bob.peer(name="robert"))
        assert (await alice.told("up"))[0] == "robert"

    two(tmp_path, work)


def test_a_peer_is_removed_though_its_keys_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(keys: KnownKeys, origin: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    async def work(alice: MeshNode, bob: MeshNode) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(KnownKeys, "forget", refuse)
            alice.mesh.remove_peer("bob")
        assert "its keys are still on the disk" in (await alice.told("refused"))[1]
        assert await alice.told("down") == ("bob", "no longer a peer")

    two(tmp_path, work)


def test_the_list_is_there_after_a_restart_and_a_peer_with_an_address_is_called(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        await bob.mesh.close()
        await alice.told("down")
        again = MeshNode(BOB, tmp_path, network)
        async with opened(again):
            assert (await alice.told("up"))[0] == "bob"

    network = MemoryNetwork()
    two(tmp_path, work, land=network)


def test_a_configured_peer_keeps_its_rights_and_is_not_removed_here(tmp_path: Path) -> None:
    tables = {"carol": {"origin": BOB.origin, "may": ["ps"]}}
    alice = MeshNode(ALICE, tmp_path, MemoryNetwork(), tables)
    assert [peer.name for peer in (alice.mesh.peer("carol"),) if peer is not None] == ["carol"]
    with pytest.raises(PeersError, match="stands in the configuration"):
        alice.mesh.remove_peer("carol")
    with pytest.raises(PeersError, match="this node itself"):
        alice.mesh.add_peer(Peer("me", ALICE.origin))


def joining(place: Path, work: Two) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, place, network), MeshNode(BOB, place, network)
        async with opened(alice, bob):
            await work(alice, bob)

    run(main, leaping=True)


def test_a_join_token_makes_two_strangers_peers_for_good(tmp_path: Path) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        token = alice.mesh.tokens.create(alice.now_us, 60)
        bob.mesh.join(alice.address, JoinToken.parse(token.text))
        assert await alice.told("added") == ("bob", token.id)
        assert await bob.told("added") == ("alice", token.id)
        await bob.told("up")
        alice.mesh.cut(bob.origin, "a test")
        await bob.told("down")
        assert (await bob.told("up"))[0] == "alice"
        assert bob.mesh.peer("alice") == Peer("alice", alice.origin, alice.address)

    joining(tmp_path, work)


def test_who_joins_gets_neither_the_name_of_this_node_nor_does_anybody_who_is_added(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice = MeshNode(ALICE, tmp_path, network)
        (tmp_path / "other").mkdir()
        thief = MeshNode(replace(BOB, name="alice"), tmp_path / "other", network)
        async with opened(alice, thief):
            token = alice.mesh.tokens.create(alice.now_us, 60)
            thief.mesh.join(alice.address, JoinToken.parse(token.text))
            assert await alice.told("added") == ("alice-2", token.id)
            assert await thief.told("added") == ("alice-2", token.id)
            with pytest.raises(PeersError, match="this node itself is called alice"):
                alice.mesh.add_peer(Peer("alice", MALLORY.origin))

    run(main, leaping=True)


async def _spoil(alice: MeshNode, how: str) -> JoinToken:
    token = alice.mesh.tokens.create(alice.now_us, 60)
    if how == "revoked":
        alice.mesh.tokens.revoke(token.id, alice.now_us)
    elif how == "expired":
        alice.now_us += 3_600_000_000
    elif how == "proof":
        return JoinToken(token.issuer, token.id, bytes(32))
    elif how == "unknown":
        return JoinToken(token.issuer, "0" * 16, token.secret)
    return token


@pytest.mark.parametrize("how", ["revoked", "expired", "proof", "unknown"])
def test_a_token_that_is_not_good_makes_nobody_a_peer(tmp_path: Path, how: str) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.mesh.join(alice.address, await _spoil(alice, how))
        _, why = await bob.told("refused")
        assert f"join token refused: {how}" in why
        assert alice.mesh.peers() == bob.mesh.peers() == ()

    joining(tmp_path, work)


def test_a_used_token_is_of_no_use_to_another(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice, bob, mallory = (MeshNode(me, tmp_path, network) for me in (ALICE, BOB, MALLORY))
        async with opened(alice, bob, mallory):
            token = alice.mesh.tokens.create(alice.now_us, 60)
            bob.mesh.join(alice.address, token)
            await bob.told("up")
            mallory.mesh.join(alice.address, token)
            assert "join token refused: used" in (await mallory.told("refused"))[1]
            assert [view.peer.name for view in alice.mesh.peers()] == ["bob"]

    run(main, leaping=True)


def test_a_petname_is_ours_and_a_taken_one_is_not_given_twice(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        async with opened(alice, bob):
            alice.mesh.add_peer(Peer("bob", MALLORY.origin))
            bob.mesh.join(alice.address, alice.mesh.tokens.create(alice.now_us, 60))
            assert (await alice.told("added"))[0] == "bob-2"

    run(main, leaping=True)


def test_three_nodes_are_all_peers_and_half_a_mesh_may_go(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        nodes = [MeshNode(me, tmp_path, network) for me in (ALICE, BOB, MALLORY)]
        async with opened(*nodes):
            for node in nodes:
                for other in nodes:
                    if other is not node:
                        node.mesh.add_peer(other.peer(other.address))
            await until(lambda: all(_up(node) == 2 for node in nodes))
            await nodes[2].mesh.close()
            await until(lambda: _up(nodes[0]) == _up(nodes[1]) == 1)
            nodes[0].mesh.send_op(nodes[1].origin, {"op": "on we go"})
            assert await nodes[1].told("op") == ("alice", {"op": "on we go"})

    run(main, leaping=True)


def _up(node: MeshNode) -> int:
    return sum(view.member.state is PeerState.UP for view in node.mesh.peers())


def test_the_loop_does_not_wait_for_a_peers_head_to_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()

    def slowly(path: Path, content: bytes) -> None:
        assert disk.wait(LIMIT_S)
        write_private(path, content)

    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        monkeypatch.setattr(heads, "write_private", slowly)
        bob.mesh.publish_head(of_tree(5, by=BOB))
        bob.mesh.send_op(alice.origin, {"op": "meanwhile"})
        assert await alice.told("op") == ("bob", {"op": "meanwhile"})
        assert alice.mesh.peers()[0].head is None
        disk.set()
        assert (await alice.told("head"))[1].size == 5

    two(tmp_path, work)


def test_heads_of_a_link_that_is_lost_meanwhile_leave_nothing_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        bob.mesh.publish_head(of_tree(5, by=BOB))
        await alice.told("head")
        for _ in range(3 * MAX_WAITING):
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(7, by=BOB)})
        bob.mesh.send_op(alice.origin, {"op": "after them"})
        await alice.told("op")
        alice.mesh.cut(bob.origin, "in the middle")
        await bob.told("up")
        bob.mesh.publish_head(of_tree(9, by=BOB))
        assert (await alice.told("head"))[1].size in (7, 9)  # a proof is asked for anew, and given

    two(tmp_path, work)


def test_a_proof_that_was_lost_with_a_link_that_another_replaced_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the link comes up again without having gone down."""
    asked = asyncio.Event()

    async def never(size1: int, size2: int) -> list[bytes]:
        asked.set()
        await asyncio.Future()
        return []

    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer())
            bob.mesh.add_peer(alice.peer(alice.address))
            to_alice, to_bob = (await bob.told("up"))[1], (await alice.told("up"))[1]
            bob.leaves = LEAVES
            bob.mesh.publish_head(of_tree(5, by=BOB))
            await alice.told("head")
            with monkeypatch.context() as lost:
                lost.setattr(bob, "prove", never)
                bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(7, by=BOB)})
                await asked.wait()
            bob.mesh.on_up(to_alice, None)
            alice.mesh.on_up(to_bob, None)
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
            assert [(await alice.told("head"))[1].size for _ in range(2)] == [7, 9]

    run(main, leaping=True)


def test_a_proof_is_not_lost_for_the_heads_that_wait_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would make it good on this link."""
    asked, proves, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    looking, slow = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Any:
        looking.set()
        assert slow.wait(LIMIT_S)
        return verify(*args)

    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        prove, send = bob.prove, bob.links.send

        async def later(size1: int, size2: int) -> list[bytes]:
            asked.set()
            await proves.wait()
            return await prove(size1, size2)

        def sent(origin: str, message: bytes) -> None:
            send(origin, message)
            if msgpack.unpackb(message)["op"] == "proof":
                answered.set()

        monkeypatch.setattr(bob, "prove", later)
        monkeypatch.setattr(bob.links, "send", sent)
        for size in (5, 7):
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(size, by=BOB)})
        await asked.wait()
        monkeypatch.setattr(heads, "verify", slowly)
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        await until(looking.is_set)
        for _ in range(MAX_WAITING):
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        proves.set()
        await answered.wait()
        bob.mesh.send_op(alice.origin, {"op": "after it"})
        await alice.told("op")
        slow.set()
        await until(lambda: (head := alice.mesh.peers()[0].head) is not None and head.size == 9)

    two(tmp_path, work)


@pytest.mark.parametrize("op", ["prove", "proof"])
def test_a_proof_that_is_late_is_asked_for_again_with_the_next_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    async def work(alice: MeshNode, bob: MeshNode) -> None:
        bob.leaves = LEAVES
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(5, by=BOB)})
        await alice.told("head")
        loser = alice if op == "prove" else bob
        send = loser.links.send

        def full(origin: str, message: bytes) -> None:
            if msgpack.unpackb(message)["op"] == op:
                raise LinkFull("no room")
            send(origin, message)

        with monkeypatch.context() as lost:
            lost.setattr(loser.links, "send", full)
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(7, by=BOB)})
            assert "no room" in (await loser.told("refused"))[1]
        monkeypatch.setattr(head_exchange, "PROOF_LATE_S", 0.0)
        bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(9, by=BOB)})
        assert [(await alice.told("head"))[1].size for _ in range(2)] == [7, 9]

    two(tmp_path, work)


def test_who_replaces_its_link_again_and_again_is_asked_once_a_link_and_given_no_more_proofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links, asked, made = 5, 0, 0

    async def never(size1: int, size2: int) -> list[bytes]:
        await asyncio.Future()
        return []

    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        alice.leaves = LEAVES
        send, prove = alice.links.send, alice.prove

        def sent(origin: str, message: bytes) -> None:
            nonlocal asked
            asked += msgpack.unpackb(message)["op"] == "prove"
            send(origin, message)

        def has_asked(times: int) -> bool:
            return asked == times

        async def proved(size1: int, size2: int) -> list[bytes]:
            nonlocal made
            made += 1
            return await prove(size1, size2)

        monkeypatch.setattr(alice.links, "send", sent)
        monkeypatch.setattr(alice, "prove", proved)
        monkeypatch.setattr(bob, "prove", never)
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer())
            bob.mesh.add_peer(alice.peer(alice.address))
            to_bob = (await alice.told("up"))[1]
            await bob.told("up")
            bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(5, by=BOB)})
            await alice.told("head")
            bob.mesh.send_op(alice.origin, {"op": "prove", "size1": 1, "size2": 2})
            await until(lambda: made == 1)
            monkeypatch.setattr(head_exchange, "PROOF_EVERY_S", LIMIT_S)
            for link in range(links):
                for size in (7, 8, 9):
                    bob.mesh.send_op(alice.origin, {"op": "head", "note": of_tree(3 * link + size, by=BOB)})
                    bob.mesh.send_op(alice.origin, {"op": "prove", "size1": 1, "size2": 2})
                await until(partial(has_asked, link + 1))
                alice.mesh.on_up(to_bob, None)
            assert (asked, made) == (links, 1)

    run(main, leaping=True)
