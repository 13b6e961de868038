"""Keys change on disk and in the ledger; a process that dies anywhere in between has its keys afterwards."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.reader import EntryRecord, JournalReader, Record
from chain.errors import DamageError, EntryError, KeyFileError, LedgerUnavailable
from chain.keys.key_change import adopt_keys, load_candidates, prepare_keys
from chain.keys.keys import (
    ED25519_FILE,
    ML_DSA_65_FILE,
    SUCCESSION_FILE,
    VKEYS_FILE,
    Keys,
    create_keys,
    load_keys,
    load_pairs,
    load_vkeys,
)
from chain.keys.rotation import KIND, MAX_ROTATIONS, KeyHistory, rotation_body
from chain.ledger.ledger import Ticket
from chain.merkle.head import parse_head
from chain.notes.note import verify
from chain.notes.slots import HeadSlots
from chain.verify.verify import verify as verify_directory
from tests.chain.twins.ledgers import draft, open_ledger
from tests.chain.twins.rotating_child import boot
from tests.patience import HANG_S
from tests.places import ROOT

DISK = Disk()
STATES = {
    frozenset(state.split())
    for state in ("keys", "keys keys.next.new", "keys keys.next", "keys.old keys.next", "keys keys.old")
}  # what a process that died in a change of keys may leave


@pytest.fixture
def data(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys")
    (tmp_path / "keys" / "noise.key").write_bytes(b"another key\n")
    return tmp_path


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.startswith("keys")}


async def rotate(data: Path, times: int = 1) -> Keys:
    """Change the keys of a ledger with a few entries before and behind each change."""
    ledger = boot(data, DISK)
    ledger.start(asyncio.get_running_loop())
    for _ in range(times):
        ledger.commit([draft(ledger.next_seq)])
        new = prepare_keys(data, ledger.keys, DISK)
        body = rotation_body(ledger.keys, new, len(ledger.keys.pairs), "a test")
        ticket = await ledger.rotate(new, body)
        behind = ledger.commit([draft(ledger.next_seq)], durable=True)
        await ticket.durable()
        assert ledger.keys is new
        adopt_keys(data, new, DISK)
        await behind.durable()
    await ledger.close()
    return ledger.keys


def groups(data: Path) -> Iterator[tuple[list[Record], bytes | None]]:
    for group in JournalReader(data / "journal", DISK).groups():
        yield list(group.records), group.note


def test_a_node_keeps_its_name_and_gets_other_keys(data: Path) -> None:
    first = load_keys(data / "keys")
    new = asyncio.run(rotate(data))
    loaded = load_keys(data / "keys")
    assert loaded.origin == first.origin == loaded.ed25519.name
    assert loaded.pairs == new.pairs == (first.pair, new.pair)
    assert load_pairs(data / "keys") == loaded.pairs
    assert load_vkeys(data / "keys") == new.pair.both
    assert {first.ed25519, first.mldsa}.isdisjoint(new.pair.both)


def test_keys_that_were_changed_as_often_as_they_can_be_are_read_again(data: Path) -> None:
    for number in range(1, MAX_ROTATIONS + 1):
        new = prepare_keys(data, load_keys(data / "keys"), DISK)
        assert [keys.pairs for keys in load_candidates(data)][1:] == [new.pairs], number
        adopt_keys(data, new, DISK)
    with pytest.raises(KeyFileError, match="changed 100 times, limit 100"):
        prepare_keys(data, load_keys(data / "keys"), DISK)


def test_the_old_seeds_are_gone_and_everything_else_is_private_and_kept(data: Path) -> None:
    seeds = [(data / "keys" / name).read_bytes() for name in (ED25519_FILE, ML_DSA_65_FILE)]
    asyncio.run(rotate(data))
    assert names(data) == {"keys"}
    files = list((data / "keys").iterdir())
    assert {path.name for path in files} == {
        ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE, SUCCESSION_FILE, "noise.key",
    }  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((data / "keys").stat().st_mode) == 0o700
    assert (data / "keys" / "noise.key").read_bytes() == b"another key\n"
    held = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert all(seed.strip() not in held for seed in seeds)


def test_the_entry_is_alone_in_its_group_and_heads_are_signed_by_the_keys_of_their_size(data: Path) -> None:
    history = KeyHistory(load_keys(data / "keys").pair)
    asyncio.run(rotate(data, times=3))
    size = 0
    for records, note in groups(data):
        entries = [record for record in records if isinstance(record, EntryRecord)]
        for record in entries:
            size += 1
            if record.entry.kind == KIND:
                assert len(entries) == 1
                history.rotated(record.entry.seq, record.body)
        if entries:
            assert note is not None
            assert parse_head(verify(note, [history.at(size).ed25519]).text).size == size
    assert history.pairs == load_pairs(data / "keys")
    full = HeadSlots(data / "heads", DISK).load(history.at(size).both)
    assert full is not None and full.head.size == size


@pytest.mark.parametrize("left", ["keys.next", "keys.old"])
def test_between_the_renames_a_verification_finds_the_keys_where_they_are(data: Path, left: str) -> None:
    asyncio.run(rotate(data))
    (data / "keys").rename(data / left)
    report = verify_directory(data)
    assert report.findings == [] and report.rotations == 1
    (data / left / VKEYS_FILE).unlink()
    assert [finding.where for finding in verify_directory(data).findings] == ["keys/vkeys.txt"]


def test_a_node_goes_on_with_its_new_keys(data: Path) -> None:
    new = asyncio.run(rotate(data))
    later = asyncio.run(rotate(data))
    assert later.pairs[:2] == new.pairs and len(later.pairs) == 3


def test_keys_that_the_journal_does_not_know_are_refused(data: Path, tmp_path: Path) -> None:
    old = {path.name: path.read_bytes() for path in (data / "keys").iterdir()}
    asyncio.run(rotate(data))
    for path in (data / "keys").iterdir():
        path.unlink()
    for name, content in old.items():
        (data / "keys" / name).write_bytes(content)
        (data / "keys" / name).chmod(0o600)
    # Which is seen first depends on when the signer stored its newest heads: by the new keys both, or one by the old.
    seen = r"changed 1 times in the journal, and 0 times in the files|and no other slot holds a good head"
    with pytest.raises((KeyFileError, DamageError), match=seen):
        boot(data, DISK)


def test_a_journal_that_does_not_know_the_keys_is_refused(data: Path) -> None:
    prepare_keys(data, load_keys(data / "keys"), DISK)
    (data / "keys").rename(data / "gone")
    (data / "keys.next").rename(data / "keys")
    with pytest.raises(KeyFileError, match=r"changed 0 times in the journal, and 1 times in the files"):
        boot(data, DISK)


def test_a_change_that_was_begun_is_not_begun_again(data: Path) -> None:
    keys = load_keys(data / "keys")
    prepare_keys(data, keys, DISK)
    with pytest.raises(KeyFileError, match=r"keys.next exists: a change of keys was begun"):
        prepare_keys(data, keys, DISK)
    boot(data, DISK)
    assert names(data) == {"keys"}


def test_a_change_cut_off_between_its_renames_is_named_and_finished(data: Path) -> None:
    keys = load_keys(data / "keys")
    prepare_keys(data, keys, DISK)
    (data / "keys").rename(data / "keys.old")
    with pytest.raises(KeyFileError, match="a change of keys was cut off: start the node"):
        load_pairs(data / "keys")
    assert boot(data, DISK).keys.pairs == keys.pairs, "the journal knows of no change"
    assert names(data) == {"keys"}


def test_no_keys_at_all_are_never_made_anew(data: Path) -> None:
    for path in (data / "keys").iterdir():
        path.unlink()
    (data / "keys").rmdir()
    with pytest.raises(KeyFileError, match="no new identity is made"):
        load_candidates(data)
    assert names(data) == set()


@pytest.mark.parametrize("wrong", [b"", b"AAAA\n", b"no base64\n"])
def test_a_succession_that_leads_nowhere_is_refused(data: Path, wrong: bytes) -> None:
    asyncio.run(rotate(data))
    (data / "keys" / SUCCESSION_FILE).write_bytes(wrong)
    with pytest.raises(KeyFileError, match=SUCCESSION_FILE):
        load_keys(data / "keys")


def test_the_ledger_hands_over_only_to_the_keys_that_its_entry_names(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = open_ledger(tmp_path)
        ledger.start(asyncio.get_running_loop())
        old = ledger.keys
        new, other = (Keys(seed * 32, seed * 32, [old.pair]) for seed in (b"n", b"o"))
        stranger = Keys(b"s" * 32, b"s" * 32)
        for keys, body, words in [
            (other, rotation_body(old, new, 1, "r"), "not those that the body names"),
            (stranger, rotation_body(old, stranger, 1, "r"), "not a verifier key of"),
            (new, rotation_body(old, new, 2, "r"), "says that it is number 2"),
            (new, rotation_body(new, new, 1, "r"), "no signature"),
        ]:
            with pytest.raises(EntryError, match=words):
                await ledger.rotate(keys, body)
        assert (ledger.next_seq, ledger.keys) == (0, old)
        ledger.commit([draft(0)])
        both = [ledger.rotate(keys, rotation_body(old, keys, 1, "r")) for keys in (new, other)]
        done, refused = await asyncio.gather(*both, return_exceptions=True)
        assert isinstance(refused, LedgerUnavailable) and "being changed already" in str(refused)
        assert isinstance(done, Ticket)
        await done.durable()
        assert ledger.keys is new and len(done.entries) == 1
        await ledger.close()

    asyncio.run(run())


def kill_everywhere(tmp_path: Path, side: str, step: int = 1) -> tuple[int, int, set[frozenset[str]]]:
    """How often the old and the new keys were in force afterwards, once without a kill, and what was left to find."""
    kept, changed, seen = 0, 0, set()
    for dies_at in range(0, 200, step):
        data = tmp_path / str(dies_at)
        data.mkdir()
        first = create_keys(data / "keys")
        command = [sys.executable, "-m", "tests.chain.twins.rotating_child", str(data), side, str(dies_at)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=HANG_S, check=False)
        assert child.returncode in (0, -signal.SIGKILL), child.stderr.decode()
        seen.add(frozenset(names(data)))
        after = asyncio.run(rotate(data))  # boots, and can change them again
        assert names(data) == {"keys"}
        assert after.pairs[0] == first.pair
        if len(after.pairs) == 2:
            kept += 1
            assert not child.stdout
        else:
            changed += 1
        if child.returncode == 0:
            break
    return kept, changed, seen


@pytest.mark.slow
def test_a_process_killed_at_any_operation_on_its_keys_has_them_afterwards(tmp_path: Path) -> None:
    kept, changed, seen = kill_everywhere(tmp_path, "keys")
    assert kept > 10 and changed > 10
    assert seen == STATES


def test_a_process_killed_while_the_ledger_writes_of_a_change_has_its_keys_afterwards(tmp_path: Path) -> None:
    kept, changed, seen = kill_everywhere(tmp_path, "ledger", step=5)
    assert kept and changed
    assert seen <= STATES
