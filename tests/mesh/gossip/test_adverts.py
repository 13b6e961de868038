"""Adverts: signed, bounded, and never by another, of another boot, or older than what is known."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from mesh.errors import AdvertError
from mesh.gossip.adverts import (
    CONTEXT,
    MAX_ADVERT_BYTES,
    MAX_PROCESSES,
    AdvertTable,
    ProcessAdvert,
    make_advert,
    read_advert,
)
from tests.mesh.twins.core_nodes import ALICE, BOB

ROW = ProcessAdvert(7, "/user/boss", "boss", "running", "agent")


def made(version: int = 1, boot: str = "b1", rows: tuple[ProcessAdvert, ...] = (ROW,)) -> bytes:
    return make_advert(ALICE.keys, boot, version, "alice", rows)


def read(data: bytes) -> Any:
    return read_advert(data, ALICE.origin, ALICE.keys.ed25519.public_key)


def forged(change: dict[str, Any], *, by: Any = ALICE) -> bytes:
    """A true advert with ``change`` made and signed anew."""
    body: bytes = msgpack.packb(msgpack.unpackb(made()[64:]) | change)
    signature: bytes = by.keys.sign_ed25519(CONTEXT + body)
    return signature + body


def test_an_advert_says_what_was_put_in() -> None:
    advert = read(made(version=3))
    assert (advert.origin, advert.boot, advert.version, advert.name) == (ALICE.origin, "b1", 3, "alice")
    assert advert.processes == (ROW,) and advert.total == 1


def test_every_changed_byte_is_noticed() -> None:
    data = made()
    for at in range(len(data)):
        with pytest.raises(AdvertError):
            read(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])


def test_an_advert_for_another_node_is_refused() -> None:
    with pytest.raises(AdvertError, match="speaks for"):
        read(forged({"origin": BOB.origin}))
    with pytest.raises(AdvertError, match="not signed by that node's key"):
        read(forged({}, by=BOB))
    with pytest.raises(AdvertError, match="not signed"):
        read_advert(made(), BOB.origin, BOB.keys.ed25519.public_key)


@pytest.mark.parametrize(
    "change",
    [
        {"version": -1}, {"version": "1"}, {"version": True}, {"boot": 1}, {"name": "x" * 1201}, {"total": 0},
        {"more": 1}, {"processes": None}, {"processes": [[1, "/a", "", "running"]]}, {"processes": [7]},
        {"processes": [[-1, "/a", "", "running", "agent"]]}, {"processes": [[1, b"/a", "", "running", "agent"]]},
    ],
)  # fmt: skip
def test_a_malformed_advert_is_refused_though_it_is_signed(change: dict[str, Any]) -> None:
    with pytest.raises(AdvertError):
        read(forged(change))


def test_what_is_no_advert_at_all_is_refused() -> None:
    for data in (b"", bytes(64), made()[:64] + b"\xc1", bytes(MAX_ADVERT_BYTES + 1)):
        with pytest.raises(AdvertError):
            read(data)


def test_a_node_with_very_many_processes_shows_the_first_and_counts_all() -> None:
    rows = [
        ProcessAdvert(pid, "/user/" + "d/" * 100, "", "running", "agent") for pid in range(MAX_PROCESSES + 5)
    ]
    advert = read(make_advert(ALICE.keys, "b1", 1, "alice", rows))
    assert advert.processes == tuple(rows[: len(advert.processes)])
    assert 500 <= len(advert.processes) <= MAX_PROCESSES and advert.total == MAX_PROCESSES + 5


def test_an_older_version_is_ignored_and_an_earlier_boot_refused() -> None:
    table = AdvertTable()
    assert table.take(read(made(version=5)), "b1")
    assert not table.take(read(made(version=4)), "b1")
    assert not table.take(read(made(version=5)), "b1")
    newest = table.of(ALICE.origin)
    assert newest is not None and newest.version == 5
    with pytest.raises(AdvertError, match="of its boot b0"):
        table.take(read(made(version=99, boot="b0")), "b1")
    assert table.take(read(made(version=1, boot="b2")), "b2")
    with pytest.raises(AdvertError, match="of its boot b1"):
        table.take(read(made(version=99)), "b2")
    table.forget(ALICE.origin)
    assert table.of(ALICE.origin) is None
