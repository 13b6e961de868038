"""Verification follows what entries say of each other: calls and their ends, changes of keys, heads seen before."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from chain.audit.audit import Audit
from chain.audit.findings import Finding
from chain.audit.journal_audit import JournalAudit
from chain.entry.draft import Draft
from chain.entry.record import RawEntry, encode_entry_record, encode_head_record, encode_payload
from chain.journal.sequencer import Sequencer, Written
from chain.keys.keys import VKEYS_FILE, create_keys, load_pairs
from chain.keys.rotation import KeyPair
from chain.merkle.head import TreeHead
from chain.merkle.merkle import root as merkle_root
from chain.notes.note import join_note
from chain.verify.verify import verify
from chain.verify.verify_tiles import verify_tiles
from tests.chain.keys.test_key_change import rotate
from tests.chain.twins.ledgers import KEYS, open_ledger

ORIGIN = "weftos-aaaaaaaaaaaaaaaaaaaaaaaaaa"


def call(kind: str, cause: int, turn: str) -> Draft:
    return Draft(kind, {"turn": turn, "ordinal": "1.0"}, 8, "pay", bytes(16), cause)


@pytest.mark.parametrize("damaged", [False, True], ids=["quick way", "slow way"])
def test_a_call_whose_outcome_was_erased_is_not_open(damaged: bool) -> None:
    drafts = [
        call("tool.intent", -1, "t1"),
        call("tool.intent", -1, "t2"),
        call("tool.outcome", 0, "t1"),
        Draft("erase", {"ranges": [[2, 2]], "by": "operator", "reason": "asked"}),
    ]
    entries = Sequencer(ORIGIN).take(drafts, 1, bytes(32 * len(drafts))).entries
    audit = Audit(ORIGIN)
    for at, written in enumerate(entries):
        kept = (None, None) if at == 2 else (written.salt, written.body)
        audit.record(RawEntry(written.leaf, *kept), "here", suspect=damaged)
    audit.finish()
    assert (audit.findings.kept, audit.meaning.erased) == ([], 1)
    assert list(audit.meaning.open_calls.values()) == [1]


@pytest.mark.parametrize(
    "ranges",
    [None, 7, "0-1", {"0": 1}, [[0]], [[0, "1"]], [[False, 1]], [[1, 0]], [[-1, 0]], [[0, 2]], [0, 1], [[]]],
)
@pytest.mark.parametrize("damaged", [False, True], ids=["quick way", "slow way"])
def test_an_erasure_that_names_no_entries_before_it_is_a_finding_and_explains_nothing(
    ranges: object, damaged: bool
) -> None:
    drafts = [note(0), note(1), Draft("erase", {"ranges": ranges, "by": "operator", "reason": "asked"})]
    entries = Sequencer(ORIGIN).take(drafts, 1, bytes(32 * len(drafts))).entries
    audit = Audit(ORIGIN)
    for at, written in enumerate(entries):
        kept = (None, None) if at == 1 else (written.salt, written.body)
        audit.record(RawEntry(written.leaf, *kept), "here", suspect=damaged)
    audit.finish()
    assert {(found.seq, found.kind) for found in audit.findings.kept} == {(2, "body"), (1, "erased")}


def test_verification_of_a_whole_ledger_says_which_field_of_which_entry_has_another_type(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        create_keys(tmp_path / "keys")
        ledger = open_ledger(tmp_path, keys=KEYS)
        ledger.start(asyncio.get_running_loop())
        ledger.commit([note(0), Draft("turn.ended", {"turn": "t1", "status": 7}), note(2)])
        await ledger.close()

    asyncio.run(run())
    (tmp_path / "keys" / VKEYS_FILE).write_text(f"{KEYS.ed25519.text}\n{KEYS.mldsa.text}\n")
    for found in (verify(tmp_path).findings, verify_tiles(tmp_path / "ledger").findings):
        said = [(each.seq, each.kind, each.expected, each.found) for each in found]
        assert said == [(1, "body", "fields of their types", "turn.ended: status is int, must be text")]


def note(number: int) -> Draft:
    return Draft("message.refused", {"to": "/user/a", "sender": "operator", "why": f"w{number}"})


def head(entries: Sequence[Written], size: int, root: bytes = b"") -> bytes:
    """A head over the first entries; its signature is looked at by nobody here."""
    text = TreeHead(KEYS.origin, size, root or merkle_root(each.leaf_hash for each in entries[:size])).text()
    return join_note(text, KEYS.ed25519_line(text))


def lost_in_the_middle(other: bytes = b"") -> list[Finding]:
    """What is found when the one entry of the second of three groups cannot be read, and its head can."""
    entries = Sequencer(KEYS.origin).take([note(number) for number in range(4)], 1, bytes(32 * 4)).entries
    records = [encode_entry_record(each.leaf, each.salt, each.body) for each in entries]
    over_three = head(entries, 3, other)
    journal = JournalAudit(KEYS.origin, watched=frozenset({3}))
    journal.frame("first", encode_payload(records[:2], head(entries, 2)), "")
    lost = encode_payload([b"\xc1" + records[2][1:]], over_three)
    journal.frame("second", lost, "another checksum")
    full = encode_head_record(head(entries, 3), False)
    journal.frame("third", encode_payload([records[3], full], head(entries, 4)), "")
    journal.finish()
    audit = journal.audit
    assert audit.entries == 4
    assert audit.roots == {3: merkle_root(each.leaf_hash for each in entries[:3])}
    return audit.findings.kept


def test_a_head_exactly_where_one_entry_is_lost_is_compared_with_the_hash_that_its_successor_holds() -> None:
    assert [(found.seq, found.kind) for found in lost_in_the_middle()] == [(2, "entry")]
    entries = Sequencer(KEYS.origin).take([note(number) for number in range(4)], 1, bytes(32 * 4)).entries
    right = merkle_root(each.leaf_hash for each in entries[:3])
    changed = bytes([right[0] ^ 1]) + right[1:]
    found = lost_in_the_middle(changed)
    assert (found[1].kind, found[1].expected, found[1].found) == ("head", right.hex(), changed.hex())


@pytest.fixture(scope="module")
def rotated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger whose keys were changed twice; ``before`` beside it is what was published before the second change."""
    data = tmp_path_factory.mktemp("rotated")
    create_keys(data / "keys")
    asyncio.run(rotate(data))
    shutil.copytree(data / "ledger", data / "before")
    asyncio.run(rotate(data))
    return data


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_pair_of_keys_that_the_ledger_had_may_be_pinned(rotated: Path, which: int) -> None:
    pair: KeyPair = load_pairs(rotated / "keys")[which]
    assert verify(rotated, pair.text.split()).findings == []
    assert verify_tiles(rotated / "ledger", pair.text.split()).findings == []


def test_all_pairs_may_be_pinned_and_no_other(rotated: Path, tmp_path: Path) -> None:
    text = "".join(pair.text for pair in load_pairs(rotated / "keys"))
    assert verify(rotated, text.split()).findings == []
    other = create_keys(tmp_path / "keys").pair.text
    assert {finding.kind for finding in verify(rotated, (text + other).split()).findings} == {"keys"}


def test_a_copy_from_before_a_change_of_keys_is_called_rolled_back(rotated: Path) -> None:
    seen = (rotated / "ledger" / "checkpoint").read_bytes()
    assert verify_tiles(rotated / "before").findings == []
    [finding] = verify_tiles(rotated / "before", seen=[seen]).findings
    assert finding.kind == "rolled back"


def test_a_file_beside_a_published_ledger_is_named_in_a_data_directory_alone(
    rotated: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(rotated, tmp_path / "data")
    (data / "ledger" / "index.html").write_text("served")
    assert verify_tiles(data / "ledger").findings == []
    [finding] = verify(data).findings
    assert finding.where == "ledger/index.html"
