"""The allow list: names, rights, the configuration over the file, and the file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from mesh.errors import MeshFileError, PeersError
from mesh.identity.peers import DEFAULT_MAY, AllowList, Peer, PeerStore
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY

BOB_PEER = Peer("n2", BOB.origin, "tcp://127.0.0.1:7400")
LIST = AllowList(
    (BOB_PEER, Peer("n3", MALLORY.origin, may=frozenset(("send",)), tools=frozenset(("calculator",))))
)


def test_a_peer_may_send_and_ps_unless_said_otherwise() -> None:
    assert BOB_PEER.may == DEFAULT_MAY == {"send", "ps"}


@pytest.mark.parametrize(
    ("name", "origin", "address", "may", "words"),
    [("7", BOB.origin, "", ["send"], "no name for a peer"), ("a@b", BOB.origin, "", [], "no name"),
     ("weftos-x", BOB.origin, "", [], "no name"), ("", BOB.origin, "", [], "no name"),
     ("\x1b[1m", BOB.origin, "", [], r"'\\x1b\[1m' is no name"), ("n" * 64, BOB.origin, "", [], "no name"),
     ("n", "weftos-short", "", [], "no origin"), ("n", BOB.origin.upper(), "", [], "no origin"),
     ("n", BOB.origin, "ipc:///etc/x", [], "no address"), ("n", BOB.origin, "tcp://*:1", [], "no address"),
     ("n", BOB.origin, "tcp://h:0", [], "no address"), ("n", BOB.origin, "tcp://h:65536", [], "no address"),
     ("n", BOB.origin, "tcp://h:1;x", [], "no address"), ("n", BOB.origin, "", ["root"], "no such right: 'root'")],
)  # fmt: skip
def test_a_peer_of_another_form_is_refused(
    name: str, origin: str, address: str, may: list[str], words: str
) -> None:
    with pytest.raises(PeersError, match=words):
        Peer(name, origin, address, frozenset(may))


EFFECTS = {"calculator": "none", "file_write": "local", "pay": "external"}


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        (None, {"calculator"}),
        ([], set()),
        (["pay"], {"pay"}),
        (["pay", "gone"], {"pay"}),
        (["*"], set(EFFECTS)),
    ],
)
def test_the_ceiling_holds_no_tool_with_effects_unless_it_is_named(
    tools: list[str] | None, left: set[str]
) -> None:
    peer = Peer("n", BOB.origin, tools=None if tools is None else frozenset(tools))
    assert peer.ceiling(EFFECTS) == left


def test_a_ceiling_of_another_form_is_refused() -> None:
    with pytest.raises(PeersError, match="no name of a tool"):
        Peer("n", BOB.origin, tools=frozenset(("a b",)))
    with pytest.raises(PeersError, match="1001 tools, limit 1000"):
        Peer("n", BOB.origin, tools=frozenset(map(str, range(1001))))


def test_a_list_of_before_there_were_ceilings_gives_none_with_effects(tmp_path: Path) -> None:
    store = PeerStore(tmp_path)
    store.add(BOB_PEER)
    file = tmp_path / "peers.json"
    file.write_text(file.read_text().replace('"tools": null', '"more": null'))
    assert list(PeerStore(tmp_path).load()) == [BOB_PEER]
    assert BOB_PEER.ceiling(EFFECTS) == {"calculator"}


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "tcp://[::1]:65535", "tcp://node-2.example.org:7400"]
)
def test_addresses_that_can_be_dialled_are_taken(address: str) -> None:
    assert Peer("n", BOB.origin, address).address == address


def test_a_stranger_is_nobody_whatever_it_calls_itself() -> None:
    assert LIST.get(ALICE.origin) is None and LIST.named("alice") is None
    assert (
        LIST.get(BOB.origin) is BOB_PEER
        and LIST.named("n2") is BOB_PEER
        and LIST.named(BOB.origin) is BOB_PEER
    )


def test_a_name_and_an_origin_belong_to_one_peer() -> None:
    for taken in (Peer("n2", ALICE.origin), Peer("other", BOB.origin)):
        with pytest.raises(PeersError, match="n2 is already a peer"):
            LIST.with_peer(taken)
    assert [peer.name for peer in LIST.without("n2")] == ["n3"]
    assert [peer.name for peer in LIST.without(BOB.origin)] == ["n3"]
    with pytest.raises(PeersError, match="no peer 'n9'"):
        LIST.without("n9")


def test_a_full_list_takes_no_more() -> None:
    with pytest.raises(PeersError, match="2 peers are listed, limit 2"):
        AllowList(LIST.peers, limit=2).with_peer(Peer("n4", ALICE.origin))


def test_the_configuration_counts_over_the_file() -> None:
    over = LIST.overlaid({"n2": {"may": ["send", "ps", "spawn"]}, "a": {"origin": ALICE.origin, "may": []}})
    assert over.named("n2") == Peer("n2", BOB.origin, BOB_PEER.address, frozenset(("send", "ps", "spawn")))
    assert over.get(ALICE.origin) == Peer("a", ALICE.origin, may=frozenset())
    renamed = LIST.overlaid({"bob": {"origin": BOB.origin}})
    assert (
        renamed.get(BOB.origin) == Peer("bob", BOB.origin, BOB_PEER.address) and renamed.named("n2") is None
    )
    raised = LIST.overlaid({"n2": {"tools": ["pay"]}})
    assert raised.named("n2") == Peer("n2", BOB.origin, BOB_PEER.address, tools=frozenset(("pay",)))
    moved = LIST.overlaid({"n2": {"address": "tcp://h:9"}})
    assert moved.get(BOB.origin) == Peer("n2", BOB.origin, "tcp://h:9")


@pytest.mark.parametrize(
    ("tables", "words"),
    [({"n9": {"may": []}}, r"\[peers.n9\] names no origin"), ({"n2": {"rights": []}}, "no such key 'rights'"),
     ({"n2": {"may": "send"}}, r"\[peers.n2\] may is 'send', it is a list"), ({"n2": {"may": [1]}}, "it is a list"),
     ({"n2": {"address": 7}}, r"\[peers.n2\] address is 7"), ({"n3": {"origin": BOB.origin}}, "n3 is already a peer"),
     ({"n2": {"tools": "*"}}, r"\[peers.n2\] tools is '\*', it is a list"),
     ({"n2": {"may": ["root"]}}, "no such right")],
)  # fmt: skip
def test_a_table_that_says_no_peer_is_refused_by_name(tables: dict[str, dict[str, Any]], words: str) -> None:
    with pytest.raises(PeersError, match=words):
        LIST.overlaid(tables)


def test_a_joiners_hint_becomes_a_free_name() -> None:
    joiner = MALLORY.origin, "here"
    assert LIST.petname("n4", *joiner) == "n4"
    assert LIST.petname("n2", *joiner) == "n2-2"
    assert LIST.with_peer(Peer("n2-2", ALICE.origin)).petname("n2", *joiner) == "n2-3"
    for hostile in ("", "\x1b[2J", "12", BOB.origin, "a@b", "x" * 100):
        assert LIST.petname(hostile, *joiner) == "peer"
    long = AllowList((Peer("y" * 63, BOB.origin),)).petname("y" * 63, *joiner)
    assert long == "y" * 55 + "-2"
    assert Peer(long, ALICE.origin).name == long


def test_a_joiner_gets_no_name_of_this_node() -> None:
    assert LIST.petname("here", MALLORY.origin, "here") == "here-2"
    of_default = LIST.petname("weftos", MALLORY.origin, "weftos")
    assert Peer(of_default, MALLORY.origin).name == "peer-2"


def test_the_name_of_a_removed_peer_is_kept_for_it_unless_a_person_gives_it_away(tmp_path: Path) -> None:
    store = PeerStore(tmp_path / "mesh")
    store.add(BOB_PEER)
    store.remove("n2")
    left = PeerStore(tmp_path / "mesh").load()
    assert left.petname("n2", MALLORY.origin, "here") == "n2-2"
    assert left.petname("n2", BOB.origin, "here") == "n2"
    given = left.with_peer(Peer("n2", MALLORY.origin)).without("n2")
    assert given.petname("n2", MALLORY.origin, "here") == "n2"
    assert given.petname("n2", BOB.origin, "here") == "n2-2"


def test_the_store_keeps_the_list(tmp_path: Path) -> None:
    store = PeerStore(tmp_path / "mesh")
    assert tuple(store.load()) == ()
    for peer in LIST:
        store.add(peer)
    assert PeerStore(tmp_path / "mesh").load() == LIST
    with pytest.raises(PeersError):
        store.add(BOB_PEER)
    assert store.remove("n2") == store.load() == LIST.without("n2")
    assert stat.S_IMODE((tmp_path / "mesh" / "peers.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "document",
    [[], {"version": 2, "peers": []}, {"version": 1, "peers": [{}]},
     {"version": 1, "peers": [{"name": "n", "origin": BOB.origin, "address": "", "may": "send"}]},
     {"version": 1, "peers": [{"name": "n", "origin": BOB.origin, "address": None, "may": []}]},
     {"version": 1, "peers": 2 * [{"name": "n", "origin": BOB.origin, "address": "", "may": []}]}],
    ids=range(6),
)  # fmt: skip
def test_a_damaged_file_is_said_and_not_replaced(tmp_path: Path, document: object) -> None:
    (tmp_path / "mesh").mkdir()
    file = tmp_path / "mesh" / "peers.json"
    file.write_text(json.dumps(document))
    file.chmod(0o600)
    with pytest.raises(MeshFileError, match="is damaged"):
        PeerStore(tmp_path / "mesh").add(BOB_PEER)
    assert json.loads(file.read_text()) == document


def test_a_list_that_others_can_write_is_refused(tmp_path: Path) -> None:
    store = PeerStore(tmp_path / "mesh")
    store.add(BOB_PEER)
    (tmp_path / "mesh" / "peers.json").chmod(0o666)
    with pytest.raises(MeshFileError, match="mode 0666"):
        store.load()
