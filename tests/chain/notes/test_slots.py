from __future__ import annotations

from pathlib import Path

import pytest

from chain.errors import DamageError, ForeignDataError
from chain.merkle.head import TreeHead
from chain.notes.note import join_note
from chain.notes.slots import HeadSlots
from tests.chain.twins.ledgers import KEYS, OTHER_KEYS
from tests.chain.twins.memory_disk import MemoryDisk, PowerCut

AT = Path("/heads")
VKEYS = (KEYS.ed25519, KEYS.mldsa)


def full_note(size: int) -> bytes:
    text = TreeHead(KEYS.origin, size, bytes(32)).text()
    return join_note(text, KEYS.ed25519_line(text), KEYS.mldsa_line(text))


NOTES = [full_note(size) for size in range(1, 5)]


def newest(disk: MemoryDisk) -> int:
    full = HeadSlots(AT, disk).load(VKEYS)
    return full.head.size if full else 0


def test_the_slots_hold_the_newest_head_and_the_one_before() -> None:
    disk = MemoryDisk()
    slots = HeadSlots(AT, disk)
    for note in NOTES[:3]:
        slots.store(note)
    assert sorted(slots.notes().values()) == sorted(NOTES[1:3])
    again = HeadSlots(AT, disk)
    loaded = again.load(VKEYS)
    assert loaded is not None and loaded.note == NOTES[2]
    again.store(NOTES[3])
    assert sorted(again.notes().values()) == sorted(NOTES[2:4])


def test_a_power_cut_at_any_operation_leaves_whole_notes_and_never_an_older_one_than_was_stored() -> None:
    whole = MemoryDisk()
    for note in NOTES:
        HeadSlots(AT, whole).store(note)
    for cut_at in range(whole.steps + 1):
        disk = MemoryDisk()
        disk.cut_at, disk.torn = cut_at, 1000
        stored = 0
        slots = HeadSlots(AT, disk)
        try:
            for stored, note in enumerate(NOTES):  # noqa: B007
                slots.store(note)
            stored = len(NOTES)
        except PowerCut:
            pass
        for kept_bytes in (0, 500):
            after = disk.crash(kept_bytes)
            assert set(HeadSlots(AT, after).notes().values()) <= set(NOTES)
            assert stored <= newest(after) <= stored + 1


def test_one_damaged_slot_is_passed_over_and_written_next_and_two_are_damage() -> None:
    disk = MemoryDisk()
    slots = HeadSlots(AT, disk)
    slots.store(NOTES[0])
    slots.store(NOTES[1])
    disk.names_now[AT / "b.note"].now[70] ^= 1
    again = HeadSlots(AT, disk)
    loaded = again.load(VKEYS)
    assert loaded is not None and loaded.head.size == 1
    again.store(NOTES[2])
    assert newest(disk) == 3 and set(again.notes().values()) == {NOTES[0], NOTES[2]}
    for name in ("a.note", "b.note"):
        disk.names_now[AT / name].now[70] ^= 1
    with pytest.raises(DamageError, match=r"heads/b\.note"):
        HeadSlots(AT, disk).load(VKEYS)


def test_heads_of_another_node_are_refused_by_name() -> None:
    disk = MemoryDisk()
    HeadSlots(AT, disk).store(NOTES[0])
    with pytest.raises(ForeignDataError, match=KEYS.origin):
        HeadSlots(AT, disk).load((OTHER_KEYS.ed25519, OTHER_KEYS.mldsa))
