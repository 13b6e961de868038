"""The node's keys sign one history: a batch that claims another tree makes the ledger read-only."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import chain.ledger.ledger
from chain.errors import LedgerUnavailable, UnsoundHead
from chain.journal.group import head_text
from chain.journal.sequencer import Batch, Sequencer
from chain.merkle.merkle import CompactRange, leaf_hash
from chain.merkle.signed_tree import SignedTree
from chain.notes.note import parse
from tests.chain.twins.ledgers import draft, open_ledger

LEAVES = [leaf_hash(bytes((number,))) for number in range(9)]


def text(leaves: list[bytes], origin: str = "weftos-a") -> bytes:
    tree = CompactRange()
    for leaf in leaves:
        tree.append(leaf)
    return head_text(origin, tree.size, tree.nodes)


def test_what_continues_is_signed() -> None:
    tree = SignedTree("weftos-a")
    for end in (1, 4, 9):
        tree.extend(LEAVES[tree.size : end])
        assert tree.sign_text(text(LEAVES[:end])) == text(LEAVES[:end])
    assert SignedTree("weftos-a", tree.size, tree.nodes).sign_text(text(LEAVES)) == text(LEAVES)


@pytest.mark.parametrize(
    "claimed",
    [
        text(LEAVES[:4]),
        text(LEAVES[:6]),
        text(LEAVES[1:6]),
        text([*LEAVES[:4], LEAVES[8]]),
        text(LEAVES[:5], "weftos-b"),
    ],
)
def test_what_does_not_continue_is_refused(claimed: bytes) -> None:
    tree = SignedTree("weftos-a")
    tree.extend(LEAVES[:3])
    tree.sign_text(text(LEAVES[:3]))
    tree.extend(LEAVES[3:5])
    with pytest.raises(UnsoundHead, match=r"refused to sign the head weftos-. \d .*lead to weftos-a 5"):
        tree.sign_text(claimed)


def lie_about_the_nodes(batch: Batch) -> None:
    batch.nodes[-1] = bytes(32)


def lie_about_the_size(batch: Batch) -> None:
    batch.size += 1
    batch.nodes = [bytes(32)] * batch.size.bit_count()


def lie_without_an_entry(batch: Batch) -> None:
    batch.entries.clear()


def swap_an_entry(batch: Batch) -> None:
    batch.entries[0].leaf_hash = bytes(32)


@pytest.mark.parametrize(
    "lie", [lie_about_the_nodes, lie_about_the_size, lie_without_an_entry, swap_an_entry]
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_claims_another_tree_is_never_signed_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[Batch], None], restarted: bool
) -> None:
    monkeypatch.setattr(
        chain.ledger.ledger, "HEAD_RECORD_S", math.nan
    )  # no head is recorded in the same group

    async def run() -> None:
        ledger = open_ledger(tmp_path)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0), draft(1), draft(2)], durable=True).durable()
        if restarted:
            await ledger.close()
            ledger = open_ledger(tmp_path)
            ledger.start(asyncio.get_running_loop())
        before = ledger.head_note
        with monkeypatch.context() as patch:
            patch.setattr(Sequencer, "take", _lying(lie))
            with pytest.raises(LedgerUnavailable, match="refused to sign the head"):
                await ledger.commit([draft(3)], durable=True).durable()
        assert "restart it" in (ledger.read_only or "")
        with pytest.raises(LedgerUnavailable, match="refused to sign"):
            ledger.commit([draft(4)])
        assert parse(ledger.head_note).text == parse(before).text and ledger.size == 3
        with pytest.raises(LedgerUnavailable):
            await ledger.close()

    asyncio.run(run())
    again = open_ledger(tmp_path)
    assert again.size == 3 and again.read_only is None


def _lying(lie: Callable[[Batch], None]) -> Callable[..., Batch]:
    true = Sequencer.take

    def take(*args: object) -> Batch:
        batch = true(*args)  # type: ignore[arg-type]  # passed on as it came
        lie(batch)
        return batch

    return take


def test_the_second_signature_is_refused_too_and_the_ledger_becomes_read_only(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = open_ledger(tmp_path)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0)], durable=True).durable()
        ledger._signer._tree.extend([bytes(32)])  # what the signer has seen is not what the writer signs
        with contextlib.suppress(LedgerUnavailable):  # the writer may hear of it before it has said "written"
            await ledger.commit([draft(1)], durable=True).durable()
        while ledger.read_only is None:
            await asyncio.sleep(0.01)
        assert "refused to sign the head" in ledger.read_only and ledger.head_fault == ledger.read_only
        assert ledger.full_size < 2
        with pytest.raises(LedgerUnavailable, match="refused to sign"):
            ledger.commit([draft(2)])
        with pytest.raises(LedgerUnavailable):
            await ledger.close()

    asyncio.run(run())
