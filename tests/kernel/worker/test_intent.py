"""No receipt, no run: the rules of the gate, one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.entry.entry import encode_body
from chain.proofs.receipt import Receipt
from kernel.worker.intent import IntentGate, IntentRefused, Spent, receipt_index

ARGUMENTS = '{"expression":"1"}'
SALT = b"s" * 32


def gate_of(mint: Any) -> IntentGate:
    return IntentGate(mint.keys.ed25519, int(mint.boot, 16))


def test_an_intent_for_exactly_this_call_is_admitted_once(mint: Any) -> None:
    gate = gate_of(mint)
    for seq in range(3):
        body = mint.body("calculator", ARGUMENTS)
        call = ("calculator", ARGUMENTS, mint.receipt(body), SALT, body)
        assert gate.admit(*call) == seq
        with pytest.raises(IntentRefused, match=f"intent {seq} was used already"):
            gate.admit(*call)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tool": "file_write"}, "is for tool 'file_write', this call has 'calculator'"),
        ({"arguments_hash": "00" * 32}, "is for arguments_hash '0000"),
        ({"arguments_hash": None}, "is for arguments_hash 'None'"),
        ({"boot": "123456789abcdef1"}, "is for boot '123456789abcdef1'"),
        ({"boot": 0x123456789ABCDEF0}, "is for boot '1311768467463790320'"),
    ],
    ids=str,
)
def test_an_intent_for_another_call_is_refused(mint: Any, changes: dict[str, Any], words: str) -> None:
    body = mint.body("calculator", ARGUMENTS, **changes)
    with pytest.raises(IntentRefused) as refusal:
        gate_of(mint).admit("calculator", ARGUMENTS, mint.receipt(body), SALT, body)
    assert words in str(refusal.value)


def test_a_body_without_the_fields_is_refused(mint: Any) -> None:
    body = encode_body({"x": 1})
    with pytest.raises(IntentRefused, match="is for tool 'None'"):
        gate_of(mint).admit("calculator", ARGUMENTS, mint.receipt(body), SALT, body)


def test_an_entry_of_another_kind_is_no_intent(mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    receipt = mint.receipt(body, kind="tool.proposed")
    with pytest.raises(IntentRefused, match=r"entry 0 is a tool\.proposed, not a tool\.intent"):
        gate_of(mint).admit("calculator", ARGUMENTS, receipt, SALT, body)


def test_a_body_or_salt_that_the_entry_does_not_commit_to_is_refused(mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    for salt, other in (
        (SALT, mint.body("calculator", ARGUMENTS, attempt=2)),
        (b"t" * 32, body),
        (b"", body),
    ):
        with pytest.raises(IntentRefused, match="not the one that entry"):
            gate_of(mint).admit("calculator", ARGUMENTS, mint.receipt(body), salt, other)


def test_a_ledger_of_somebody_else_proves_nothing_here(mint: Any, foreign_mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    with pytest.raises(IntentRefused, match=r"no valid receipt: note is not signed by weftos-"):
        gate_of(mint).admit("calculator", ARGUMENTS, foreign_mint.receipt(body), SALT, body)


def test_no_byte_of_a_receipt_can_be_changed(mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    for _ in range(3):
        mint.receipt(body)
    receipt = mint.receipt(body)
    gate = gate_of(mint)
    for at in range(len(receipt)):
        changed = receipt[:at] + bytes([receipt[at] ^ 1]) + receipt[at + 1 :]
        with pytest.raises(IntentRefused):
            gate.admit("calculator", ARGUMENTS, changed, SALT, body)
    assert gate.admit("calculator", ARGUMENTS, receipt, SALT, body) == 3


def test_an_unsigned_head_is_refused_even_with_a_right_proof(mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    receipt = Receipt.decode(mint.receipt(body))
    text = receipt.note.split(b"\n\n")[0] + b"\n\n"
    unsigned = Receipt(receipt.leaf, receipt.index, receipt.size, receipt.proof, text).encode()
    for forged in (b"", b"\xc0", unsigned):
        with pytest.raises(IntentRefused, match="no valid receipt"):
            gate_of(mint).admit("calculator", ARGUMENTS, forged, SALT, body)


def test_the_index_of_a_receipt_is_read_without_trust(mint: Any) -> None:
    body = mint.body("calculator", ARGUMENTS)
    mint.receipt(body)
    assert receipt_index(mint.receipt(body)) == 1
    for nonsense in (b"", b"\xc1", b"\x93\x01\x02\xa1x", b"\x80", b"\xd9"):
        assert receipt_index(nonsense) == -1


@given(st.lists(st.integers(0, 60), max_size=300))
def test_no_sequence_is_ever_claimed_twice_and_recent_ones_once(seqs: list[int]) -> None:
    spent, claimed = Spent(kept=8), set()
    for seq in seqs:
        new = spent.claim(seq)
        assert not (new and seq in claimed)
        if new:
            claimed.add(seq)
        assert not spent.claim(seq)


def test_rising_sequences_are_all_claimed_while_memory_stays_bounded() -> None:
    spent = Spent(kept=8)
    assert all(spent.claim(seq) for seq in range(1000))
    assert not any(spent.claim(seq) for seq in range(1000))
    assert spent.claim(1000)


def test_a_claim_that_comes_late_by_less_than_is_kept_succeeds() -> None:
    spent = Spent(kept=8)
    for seq in range(1, 9):
        assert spent.claim(seq)
    assert spent.claim(0)


def test_a_key_that_was_named_is_good_beside_the_first_and_no_other(mint: Any) -> None:
    gate = gate_of(mint)
    on_its_way = mint.body("calculator", ARGUMENTS)
    receipt = mint.receipt(on_its_way)
    mint.rotate()
    body = mint.body("calculator", ARGUMENTS)
    under_new = mint.receipt(body)
    with pytest.raises(IntentRefused, match="note is not signed by"):
        gate.admit("calculator", ARGUMENTS, under_new, SALT, body)
    gate.accept(mint.keys.ed25519)
    assert gate.admit("calculator", ARGUMENTS, under_new, SALT, body) == 1
    assert gate.admit("calculator", ARGUMENTS, receipt, SALT, on_its_way) == 0
    with pytest.raises(IntentRefused, match="intent 1 was used already"):
        gate.admit("calculator", ARGUMENTS, under_new, SALT, body)
    mint.rotate(70)
    third = mint.receipt(body)
    with pytest.raises(IntentRefused, match="note is not signed by"):
        gate.admit("calculator", ARGUMENTS, third, SALT, body)
