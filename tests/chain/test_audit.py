"""Verification follows what entries say of each other: calls and their ends, changes of keys, heads seen before."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from chain.audit import Audit
from chain.draft import Draft
from chain.keys import create_keys, load_pairs
from chain.record import RawEntry
from chain.rotation import KeyPair
from chain.sequencer import Sequencer
from chain.verify import verify
from chain.verify_tiles import verify_tiles
from tests.chain.test_key_change import rotate

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
    assert (audit.findings, audit.erased) == ([], 1)
    assert list(audit.open_calls.values()) == [1]


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
