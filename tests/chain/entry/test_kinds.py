"""The table of kinds: what waits for the disk, and that no entry can differ from it unnoticed."""

import pytest

from chain.entry.entry import ZERO_HASH, Entry, decode_entry, encode_body, encode_entry
from chain.entry.kinds import KINDS, Kind


def test_what_must_be_on_disk_before_anything_follows() -> None:
    assert {name for name, kind in KINDS.items() if kind.durable} == {
        "node.booted",
        "node.stopped",
        "node.disk_full",
        "node.disk_free",
        "state.accepted",
        "process.spawned",
        "message.accepted",
        "message.sent",
        "message.dead",
        "message.replied",
        "message.replayed",
        "turn.ended",
        "turn.diverged",
        "turn.decided",
        "tool.intent",
        "tool.resolved",
        "memory.written",
        "memory.forgotten",
        "peer.added",
        "peer.conflict",
        "peer.decided",
        "peer.removed",
        "key.rotated",
        "erase",
    }


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_fits_an_entry_and_describes_its_fields(kind: Kind) -> None:
    entry = Entry(0, 0, "weftos-a", 0, 0, kind.name, "", b"", -1, ZERO_HASH, ZERO_HASH)
    assert decode_entry(encode_entry(entry)).kind == kind.name
    encode_body(dict(kind.fields))
    assert kind.meaning
    assert all(kind.fields.values())


def test_a_body_that_differs_from_its_kind_is_told_every_difference() -> None:
    kind = KINDS["message.dead"]
    assert kind.check({"id": "m-1", "to": "/user/a", "why": "expired"}) == []
    assert kind.check({"id": "m-1", "because": "expired"}) == [
        "message.dead lacks the field to",
        "message.dead lacks the field why",
        "message.dead has no field because",
    ]
    assert KINDS["message.replayed"].check({"id": "m-1", "as": "m-2"}) == []


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        KINDS["new.kind"] = KINDS["node.booted"]  # type: ignore[index]
    with pytest.raises(TypeError):
        KINDS["node.booted"].fields["more"] = "x"  # type: ignore[index]
