"""A node that has changed its keys is the same node to its peers, and whoever has only its old ones is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from chain.keys.keys import Keys
from chain.keys.rotation import MAX_ROTATIONS, succession_text
from chain.notes.note import VerifierKey
from mesh.bounds import MAX_HELLO_BYTES
from mesh.errors import HelloError, MeshFileError, PeerKeysError
from mesh.gossip.adverts import ProcessAdvert
from mesh.identity.identity import Before, Identity, PeerIdentity, check_hello
from mesh.identity.known_keys import KnownKeys
from tests.mesh.gossip.test_heads import note
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY
from tests.mesh.twins.leaping_loop import run
from tests.mesh.twins.link_nodes import BOUNDS, LinkNode, running, until
from tests.mesh.twins.memory_transport import MemoryNetwork
from tests.mesh.twins.mesh_nodes import MeshNode, opened
from tests.mesh.twins.tcp_land import TcpLand

ROW = ProcessAdvert(7, "/user/boss", "boss", "running", "agent")


def rotated(me: Identity, seed: int = 200, times: int = 1) -> Identity:
    """``me`` with other keys, handed over ``times`` times."""
    for step in range(times):
        old = me.keys
        number = len(old.pairs)
        seeds = bytes([seed, step]) * 16, bytes([seed, step, 7, 7]) * 8
        public = Keys(*seeds).ed25519.public_key
        signature = old.sign_ed25519(succession_text(old.origin, number, old.ed25519.public_key, public))
        me = replace(me, keys=Keys(*seeds, old.pairs, (*old.succession, signature)))
    return me


def met(me: Identity) -> PeerIdentity:
    return check_hello(me.hello, me.noise.public)


def refused(hello: bytes) -> str:
    with pytest.raises(HelloError) as caught:
        check_hello(hello, ALICE.noise.public)
    return f"{caught.value.rule}: {caught.value}"


@pytest.mark.parametrize("times", [1, 2, MAX_ROTATIONS])
def test_a_peer_follows_the_keys_from_the_first_to_the_present_one(times: int) -> None:
    now = rotated(ALICE, times=times)
    peer = met(now)
    assert peer.origin == ALICE.origin and peer.vkeys == now.keys.pair.both
    assert peer.former == tuple(pair.ed25519.public_key for pair in now.keys.pairs[:-1])
    assert len(now.hello) < MAX_HELLO_BYTES


def test_changes_of_keys_that_were_seen_are_not_verified_again() -> None:
    """A hundred signatures: who may have them verified at will holds the node up."""
    asked: list[int] = []

    def affords(count: int) -> bool:
        asked.append(count)
        return True

    older, newer = rotated(ALICE, times=3), rotated(ALICE, times=5)
    check_hello(older.hello, ALICE.noise.public, Before(affords=affords))
    check_hello(ALICE.hello, ALICE.noise.public, Before(affords=affords))
    check_hello(newer.hello, ALICE.noise.public, Before(lambda origin: met(older).chain, affords))
    check_hello(older.hello, ALICE.noise.public, Before(lambda origin: met(newer).chain, affords))
    assert asked == [3, 2]


def test_changes_that_cannot_be_verified_now_are_refused_unread() -> None:
    hello = msgpack.unpackb(rotated(ALICE, times=3).hello)
    hello["rotations"] = [bytes(96)] * 3
    with pytest.raises(HelloError) as caught:
        check_hello(msgpack.packb(hello), ALICE.noise.public, Before(affords=lambda count: False))
    assert caught.value.rule == "busy" and "3 changes of keys" in str(caught.value)


def test_a_chain_that_differs_from_the_one_seen_is_refused_without_its_signatures() -> None:
    seen, other = rotated(ALICE, times=3), rotated(ALICE, seed=201, times=3)
    with pytest.raises(HelloError, match="another key after change 1"):
        check_hello(other.hello, ALICE.noise.public, Before(lambda origin: met(seen).chain))


def test_an_address_has_no_more_changes_of_keys_verified_than_its_share(tmp_path: Path) -> None:
    async def main() -> None:
        few = replace(BOUNDS, key_changes=3, key_changes_per_s=1e-9)
        network = MemoryNetwork()
        alice = LinkNode(ALICE, network.wire(few), few)
        met_before, stranger = rotated(BOB, times=3), rotated(MALLORY)
        bob, again = (LinkNode(replace(met_before, boot=f"{n:016x}"), network.wire(BOUNDS)) for n in (1, 2))
        mallory = LinkNode(stranger, network.wire(BOUNDS))
        async with running(*[await node.open() for node in (alice, bob, mallory, again)]):
            bob.call(alice)
            assert await alice.event("up") == BOB.origin
            mallory.call(alice)
            assert "1 changes of keys" in await alice.event("refused")
            again.call(alice)
            assert await alice.event("up") == BOB.origin
            assert MALLORY.origin not in alice.up

    run(main, leaping=True)


def test_a_hello_of_first_keys_is_what_it_always_was() -> None:
    assert "rotations" not in msgpack.unpackb(ALICE.hello)
    assert met(ALICE).former == ()


def test_every_broken_step_is_refused() -> None:
    twice = msgpack.unpackb(rotated(ALICE, times=2).hello)
    one, two = twice["rotations"]
    strangers = msgpack.unpackb(rotated(BOB).hello)["rotations"]
    for rotations, words in [
        ([two], "key 1 of"),
        ([two, one], "key 1 of"),
        ([one, one], "key 2 of"),
        ([one[:95], two], "96 bytes"),
        ([one, two, 7], "96 bytes"),
        ([one, bytes([two[0] ^ 1]) + two[1:]], "key 2 of"),
        ([one, two[:-1] + bytes([two[-1] ^ 1])], "key 2 of"),
        (strangers, "key 1 of"),
    ]:
        found = refused(msgpack.packb(twice | {"rotations": rotations}))
        assert found.startswith("rotations: ") and words in found
    assert refused(msgpack.packb(twice | {"rotations": [one]})).startswith("binding: ")
    assert refused(msgpack.packb(twice | {"rotations": []})).startswith("binding: ")
    assert refused(msgpack.packb(twice | {"rotations": "x"})).startswith("form: ")
    assert refused(msgpack.packb(twice | {"rotations": [one] * (MAX_ROTATIONS + 1)})).startswith("form: ")


def test_old_keys_and_another_continuation_are_refused_once_the_new_ones_were_seen(tmp_path: Path) -> None:
    known = KnownKeys(tmp_path)
    first, second, third = ALICE, rotated(ALICE), rotated(ALICE, times=2)
    for me in (first, second):
        known.take(met(me))
    for again in (known, KnownKeys(tmp_path)):
        with pytest.raises(PeerKeysError, match="shows its keys after 0 changes, it was seen after 1"):
            again.check(met(first))
        with pytest.raises(PeerKeysError, match="another key after change 1"):
            again.check(met(rotated(ALICE, seed=201)))
        with pytest.raises(PeerKeysError, match="another key after change 1"):
            again.take(met(rotated(ALICE, seed=201, times=2)))
        again.check(met(second))
        again.check(met(third))
        again.check(met(BOB))
    known.take(met(third))
    with pytest.raises(PeerKeysError, match="after 1 changes, it was seen after 2"):
        KnownKeys(tmp_path).check(met(second))
    known.forget(ALICE.origin)
    known.check(met(first))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_memory_lets_nobody_in(tmp_path: Path) -> None:
    KnownKeys(tmp_path).take(met(rotated(ALICE)))
    (file,) = tmp_path.iterdir()
    file.write_text("much\n")
    with pytest.raises(MeshFileError, match="damaged"):
        KnownKeys(tmp_path).check(met(rotated(ALICE)))


def signed(node: MeshNode) -> VerifierKey | None:
    """The key under which this node checks what Alice says now."""
    identity = node.mesh._presence.identity(ALICE.origin)
    return identity.ed25519 if identity is not None else None


@pytest.mark.parametrize("land", [MemoryNetwork, TcpLand], ids=["memory", "zmq"])
def test_a_change_of_keys_leaves_the_link_up_and_what_follows_is_checked_under_the_new_ones(
    tmp_path: Path, land: type[MemoryNetwork | TcpLand]
) -> None:
    async def main() -> None:
        network = land()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        now = rotated(ALICE)
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer())
            bob.mesh.add_peer(alice.peer(alice.address))
            await bob.told("up")
            await alice.told("up")
            alice.rows = [ROW]
            alice.mesh.rekey(now.keys)
            alice.mesh.publish_head(note(5, by=ALICE))
            alice.mesh.publish_head(note(6, by=now))
            assert (await bob.told("head"))[1].size == 6
            assert signed(bob) == now.keys.ed25519
            await until(
                lambda: (view := bob.mesh.peers()[0]).advert is not None and len(view.advert.processes) == 1
            )
            told = [bob.seen.get_nowait()[0] for _ in range(bob.seen.qsize())]
            assert "down" not in told and "refused" not in told
            bob.mesh.cut(ALICE.origin, "to see them again")
            assert (await bob.told("up"))[1].ed25519 == now.keys.ed25519

    run(main, leaping=land is MemoryNetwork)


def test_a_node_that_restarts_with_other_keys_is_the_peer_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        alice, bob = MeshNode(ALICE, tmp_path, network), MeshNode(BOB, tmp_path, network)
        async with opened(bob):
            bob.mesh.add_peer(alice.peer())
            async with opened(alice):
                alice.mesh.add_peer(bob.peer(bob.address))
                assert (await bob.told("up"))[0] == "alice"
            await bob.told("down")
            now = replace(rotated(ALICE), boot="a" * 16)
            async with opened(MeshNode(now, tmp_path, network)):
                assert (await bob.told("up"))[1].vkeys == now.keys.pair.both

    run(main, leaping=True)


@pytest.mark.parametrize("dialled", [False, True], ids=["calls", "is called"])
def test_who_has_only_the_old_keys_is_refused_by_a_peer_that_knows_the_new_ones(
    tmp_path: Path, dialled: bool
) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        now = rotated(ALICE)
        alice, bob = MeshNode(now, tmp_path / "a", network), MeshNode(BOB, tmp_path, network)
        stolen = Identity(ALICE.keys, MALLORY.noise, "alice", "b" * 16)
        thief = MeshNode(stolen, tmp_path / "m", network)
        async with opened(bob):
            bob.mesh.add_peer(alice.peer())
            async with opened(alice):
                alice.mesh.add_peer(bob.peer(bob.address))
                assert (await bob.told("up"))[0] == "alice"
            await bob.told("down")
            async with opened(thief):
                if dialled:
                    bob.mesh.remove_peer("alice")
                    KnownKeys(bob.place / "keys").take(met(now))
                    bob.mesh.add_peer(thief.peer(thief.address))
                    thief.mesh.add_peer(bob.peer())
                else:
                    thief.mesh.add_peer(bob.peer(bob.address))
                assert "it was seen after 1" in (await bob.told("refused"))[1]
                assert signed(bob) is None
                await asyncio.sleep(0)
                seen = [thief.seen.get_nowait() for _ in range(thief.seen.qsize())]
                assert not any(kind == "up" for kind, _, _ in seen)

    (tmp_path / "a").mkdir()
    (tmp_path / "m").mkdir()
    run(main, leaping=True)


def test_a_hello_within_a_session_may_only_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        now = rotated(ALICE)
        alice, bob = MeshNode(now, tmp_path, network), MeshNode(BOB, tmp_path, network)
        async with opened(alice, bob):
            alice.mesh.add_peer(bob.peer())
            bob.mesh.add_peer(alice.peer(alice.address))
            for hello, words in [
                (ALICE.hello, "it was seen after 1"),
                (rotated(ALICE, seed=9).hello, "another key after change 1"),
                (replace(now, boot="c" * 16).hello, "shows the hello of"),
                (MALLORY.hello, "has not signed for the Noise key"),
                (Identity(MALLORY.keys, ALICE.noise, "m", ALICE.boot).hello, "shows the hello of"),
                (b"nonsense", "hello refused"),
                (7, "not bytes"),
            ]:
                await bob.told("up")
                await alice.told("up")
                alice.mesh.send_op(BOB.origin, {"op": "hello", "hello": hello})
                assert words in (await bob.told("refused"))[1]
                await bob.told("down")

    run(main, leaping=True)
