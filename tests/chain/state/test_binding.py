"""What is bound to the node's keys, which record is named when it is not, and how a person takes it over."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.frame import UNSIGNED_FORMAT
from chain.entry.reader import Record, StateRecord
from chain.entry.record import decode_payload, encode_payload
from chain.errors import ContradictedState, LedgerUnavailable, UnboundState
from chain.keys.key_change import adopt_keys, load_candidates, prepare_keys
from chain.keys.keys import load_keys
from chain.keys.rotation import rotation_body
from chain.ledger.ledger import Draft, Ledger, Reader, StateChange
from chain.state.binding import Unbound
from chain.state.snapshot import is_note
from chain.verify.verify import verify
from tests.chain.twins.forged_state import LIMITS, encoded, make_story
from tests.chain.twins.forger import Sealed, put_together, rechained, taken_apart
from tests.chain.twins.ledgers import draft
from weftos.helpers.compact import compact

DISK = Disk()
FORGED = b"\x91\x81\xa7content\xa6forged"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("story")
    make_story(data)
    return data


@pytest.fixture
def data(story: Path, tmp_path: Path) -> Path:
    shutil.copytree(story, tmp_path / "data")
    return tmp_path / "data"


def opened(
    data: Path, *, accept: bool = False, records: list[Record] | None = None, disk: Disk = DISK
) -> Ledger:
    clock = iter(range(2_000_000_000_000_000, 2_100_000_000_000_000))
    keys, *others = load_candidates(data)
    return Ledger.open(
        data,
        keys,
        others=others,
        now_us=lambda: next(clock),
        reader=Reader((records if records is not None else []).append, accept=accept),
        disk=disk,
    )


def sessions(records: list[Record]) -> dict[str, bytes | None]:
    found = [record for record in records if isinstance(record, StateRecord) and record.table == "session"]
    return {record.key: record.value for record in found}


def forge(data: Path) -> tuple[Path, int, str]:
    """Give one session of the journal another value: in which segment, which group, which key."""
    for path in sorted((data / "journal").iterdir())[1:]:  # one may hold nothing but a head
        header, frames = taken_apart(path.read_bytes())
        for at, frame in enumerate(frames):
            records, note = decode_payload(frame.payload)
            keys = [item.key for item in records if isinstance(item, StateRecord) and item.table == "session"]
            if keys:
                forged = [
                    replace(item, value=FORGED)
                    if isinstance(item, StateRecord) and item.key == keys[0]
                    else item
                    for item in records
                ]
                frames[at] = frame.with_payload(encode_payload([*map(encoded, forged)], note))
                rechained(data / "journal", path, put_together(header, frames))
                return path, header.first_group + at, keys[0]
    raise AssertionError("no session behind the first segment")


def unsign(data: Path) -> None:
    """As a version of weftos left it that did not sign state."""
    for path in sorted((data / "journal").iterdir()):
        header, frames = taken_apart(path.read_bytes())
        old = [Sealed(frame.payload) for frame in frames]
        rechained(data / "journal", path, put_together(replace(header, format=UNSIGNED_FORMAT), old))
    for path in (data / "snapshot").iterdir():
        if is_note(path.name):
            path.unlink()


def pinned(data: Path) -> list[str]:
    return load_keys(data / "keys").pair.text.split()


def test_a_forged_record_is_named_with_its_table_key_group_and_segment(data: Path) -> None:
    path, group, key = forge(data)
    replayed: list[Record] = []
    with pytest.raises(UnboundState) as caught:
        opened(data, records=replayed)
    for word in (path.name, f"group {group}:", f"session {key!r}", "weftos up --accept-state REASON"):
        assert word in str(caught.value)
    assert replayed == [], "nothing that is not bound is replayed"
    [finding] = verify(data, pinned(data)).findings
    assert finding.kind == "state" and path.name in finding.where and f"session {key!r}" in finding.found


def test_what_a_person_has_accepted_is_on_record_and_bound_from_then_on(data: Path) -> None:
    forge(data)

    async def accept() -> None:
        replayed: list[Record] = []
        ledger = opened(data, accept=True, records=replayed)
        assert FORGED in sessions(replayed).values()
        assert [fault.group for fault in ledger.recovery.unbound] != [-1]
        ledger.start(asyncio.get_running_loop())
        body = {"reason": "my own repair", "uid": 0, "what": [], "contradicted": []}
        await ledger.commit([Draft("state.accepted", body)], durable=True).durable()
        await ledger.upkeep.sign_snapshot()
        await ledger.close()

    asyncio.run(accept())
    again = opened(data)
    assert again.recovery.unbound == ()
    again._writer._journal.close()
    report = verify(data, pinned(data))
    assert report.findings == [] and len(report.accepted) == 1


def test_a_start_that_is_refused_for_what_the_entries_say_leaves_ledger_and_state_as_they_were(
    data: Path,
) -> None:
    newest = max((data / "journal").iterdir())
    os.truncate(newest, newest.stat().st_size - 10)  # the frame of the clean stop, which has no entry
    before = kept(data)
    assert (data / "snapshot" / "state.ws") in before

    def disagree(unbound: tuple[Unbound, ...]) -> None:
        assert unbound == ()
        raise ContradictedState("process /user/p1 has other tools")

    keys, *others = load_candidates(data)
    words = r"says otherwise than its entries: process /user/p1 .* ledger and state are as they were\. .*--accept-state"
    with pytest.raises(ContradictedState, match=words):
        Ledger.open(data, keys, others=others, now_us=lambda: 0, reader=Reader(agree=disagree))
    assert kept(data) == before
    ledger = opened(data)
    assert ledger.recovery.torn_bytes > 0
    ledger._writer._journal.close()
    assert kept(data) != before


def kept(data: Path) -> dict[Path, bytes]:
    """What a refusal says to be as it was."""
    folders = [data / name for name in ("journal", "snapshot", "ledger", "heads", "keys")]
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def test_a_crash_before_the_word_was_on_the_disk_leaves_it_refused(data: Path) -> None:
    forge(data)
    opened(data, accept=True)._writer._journal.close()
    with pytest.raises(UnboundState):
        opened(data)


def test_an_older_directory_is_refused_in_words_and_can_be_accepted(data: Path) -> None:
    unsign(data)
    with pytest.raises(UnboundState, match="did not sign state") as caught:
        opened(data)
    assert "snapshot/state.ws" in str(caught.value) and "journal/" in str(caught.value)
    assert {finding.kind for finding in verify(data, pinned(data)).findings} == {"state"}

    async def accept() -> None:
        ledger = opened(data, accept=True)
        ledger.start(asyncio.get_running_loop())
        body = {"reason": "upgraded", "uid": 0, "what": [], "contradicted": []}
        await ledger.commit([Draft("state.accepted", body)], durable=True).durable()
        await ledger.upkeep.sign_snapshot()
        await ledger.close()

    asyncio.run(accept())
    opened(data)._writer._journal.close()
    assert verify(data, pinned(data)).findings == []


def test_an_empty_segment_of_an_older_version_is_not_written_on(data: Path) -> None:
    unsign(data)
    path = sorted((data / "journal").iterdir())[-1]
    header, frames = taken_apart(path.read_bytes())
    empty = replace(header, first_group=header.first_group + len(frames), previous=path.read_bytes()[-32:])
    new = path.with_name(f"{empty.first_group:016x}.wj")
    new.write_bytes(put_together(empty, []))
    opened(data, accept=True)._writer._journal.close()
    assert taken_apart(new.read_bytes()) == (replace(empty, format=2), [])


def test_the_snapshot_is_signed_by_the_keys_in_force_at_any_moment_of_a_change_of_keys(data: Path) -> None:
    """Before, at a crash in the middle, and after; and the keys before do not count any more."""

    async def rotate() -> None:
        ledger = opened(data)
        ledger.start(asyncio.get_running_loop())
        new = prepare_keys(data, ledger.keys, DISK)
        body = rotation_body(ledger.keys, new, 1, "a test")
        ticket = await ledger.rotate(new, body)
        shutil.copytree(data, data.with_name("crashed"))
        await ticket.durable()
        adopt_keys(data, new, DISK)
        await ledger.commit(
            [draft(ledger.next_seq), StateChange("session", "/user/p1\nmain", FORGED)]
        ).durable()
        await ledger.close()

    [before] = [path for path in (data / "snapshot").iterdir() if is_note(path.name)]
    old_note = before.read_bytes()
    asyncio.run(rotate())
    for place in (data, data.with_name("crashed")):
        opened(place)._writer._journal.close()
    assert verify(data).findings == []
    before.write_bytes(old_note)
    with pytest.raises(UnboundState, match=r"snapshot/state\.ws: it is not signed by the keys in force"):
        opened(data)
    assert [finding.kind for finding in verify(data).findings] == ["state"]


class FailingDisk(Disk):
    """``failing``: the directory whose next sync behind a rename to ``state.ws`` fails, once; nothing in it can be read
    from then on, until it is not ``blind`` any more.
    """

    def __init__(self, failing: Path) -> None:
        self._failing = failing
        self._due = self.blind = False

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._due = target.name == "state.ws"

    def sync_directory(self, directory: Path) -> None:
        if self._due and directory == self._failing:
            self._due, self.blind = False, True
            raise OSError(errno.EIO, "fails on purpose")
        super().sync_directory(directory)

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        if self.blind and path.parent == self._failing:
            raise OSError(errno.EMFILE, "fails on purpose")
        return super().read_at(path, offset, length)


def test_a_snapshot_that_has_its_name_when_the_disk_fails_is_signed_by_the_next_keys_too(data: Path) -> None:
    async def run() -> None:
        disk = FailingDisk(data / "snapshot")
        ledger = opened(data, disk=disk)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([StateChange("session", "/user/p1\nmain", FORGED)], durable=True).durable()
        group = await ledger.upkeep.roll()
        await ledger.publish()
        made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
        with pytest.raises(LedgerUnavailable, match="cannot be put in its place"):
            await ledger.upkeep.place_snapshot(group, bytes.fromhex(made["digest"]))
        new = prepare_keys(data, ledger.keys, DISK)
        with pytest.raises(LedgerUnavailable, match="the snapshot cannot be signed"):
            await ledger.rotate(new, rotation_body(ledger.keys, new, 1, "a test"))
        disk.blind = False
        await (await ledger.rotate(new, rotation_body(ledger.keys, new, 1, "a test"))).durable()
        adopt_keys(data, new, DISK)
        await ledger.close()

    asyncio.run(run())
    opened(data)._writer._journal.close()
    assert verify(data).findings == []


def test_a_snapshot_that_was_changed_under_a_running_node_is_not_relied_on(data: Path) -> None:
    async def run() -> None:
        ledger = opened(data)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([StateChange("session", "/user/p1\nmain", FORGED)], durable=True).durable()
        group = await ledger.upkeep.roll()
        await ledger.publish()
        made = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
        await ledger.upkeep.place_snapshot(group, bytes.fromhex(made["digest"]))
        (data / "snapshot" / "state.ws").write_bytes((data / "older").read_bytes())
        with pytest.raises(LedgerUnavailable, match="not the one that the node has signed"):
            await ledger.upkeep.drop_before(group)
        new = prepare_keys(data, ledger.keys, DISK)
        with pytest.raises(LedgerUnavailable, match="not the one that the node has signed"):
            await ledger.rotate(new, rotation_body(ledger.keys, new, 1, "a test"))
        await ledger.close()

    shutil.copy(data / "snapshot" / "state.ws", data / "older")
    asyncio.run(run())
