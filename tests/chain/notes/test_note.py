"""Notes and verifier keys: what must never be accepted (published answers: ``test_known_answers``)."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.errors import NoteError, VerifierKeyError
from chain.keys.keys import Keys
from chain.notes.note import (
    COSIGNATURE_ED25519,
    COSIGNATURE_ML_DSA_44,
    ED25519,
    HEAD_CONTEXT,
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    ML_DSA_65,
    VerifierKey,
    join_note,
    parse,
    signature_line,
    verify,
    verify_ml_dsa_65,
)

KEYS = Keys(b"e" * 32, b"m" * 32)
OTHER = Keys(b"f" * 32, b"n" * 32)
TEXT = b"some.log\n12\nAAAA\n"
FULL = join_note(TEXT, KEYS.ed25519_line(TEXT), KEYS.mldsa_line(TEXT))


def test_an_ml_dsa_key_signs_under_the_context_of_heads_alone() -> None:
    signature = KEYS.sign_mldsa(TEXT)
    assert verify_ml_dsa_65(KEYS.mldsa.public_key, TEXT, signature, HEAD_CONTEXT)
    assert KEYS.mldsa.verify(TEXT, signature)
    for context in (b"", b"weftos/head/2"):
        assert not verify_ml_dsa_65(KEYS.mldsa.public_key, TEXT, signature, context)


CHECKED_KEYS = [KEYS.ed25519.text, KEYS.mldsa.text]


@pytest.mark.parametrize("vkey", CHECKED_KEYS, ids=lambda vkey: vkey[:30])
def test_every_proper_prefix_of_a_verifier_key_is_refused(vkey: str) -> None:
    for end in range(len(vkey)):
        with pytest.raises(VerifierKeyError):
            VerifierKey.parse(vkey[:end])


@pytest.mark.parametrize("vkey", CHECKED_KEYS, ids=lambda vkey: vkey[:30])
def test_every_changed_byte_of_a_verifier_key_is_refused(vkey: str) -> None:
    every = len(vkey) < 200  # of the long keys each place, of the short ones each place and each value
    for at, byte in enumerate(vkey.encode()):
        for other in range(256) if every else (byte ^ 1, byte ^ 32, 0x20, 0xFF):
            if other == byte:
                continue
            changed = vkey[:at] + chr(other) + vkey[at + 1 :]
            with pytest.raises(VerifierKeyError):
                VerifierKey.parse(changed)


@pytest.mark.parametrize("tail", ["\n", " ", "=", "+", "A", "AAAA"])
def test_a_verifier_key_with_something_after_it_is_refused(tail: str) -> None:
    with pytest.raises(VerifierKeyError):
        VerifierKey.parse(KEYS.ed25519.text + tail)


def test_a_verifier_key_says_what_is_wrong_with_it() -> None:
    changed = KEYS.ed25519.text.replace("weftos-", "weftoz-")
    with pytest.raises(VerifierKeyError, match=f"says id {KEYS.ed25519.key_id.hex()}.*mistyped or cut off"):
        VerifierKey.parse(changed)
    with pytest.raises(VerifierKeyError, match="limit 8192"):
        VerifierKey.parse("x" * 8193)


@pytest.mark.parametrize("key_type", [b"\x02", b"\xff", b"\xffweftos/ml-dsa-87", b""])
def test_a_key_of_unknown_type_is_refused(key_type: bytes) -> None:
    with pytest.raises(VerifierKeyError, match="no known type"):
        VerifierKey("some.log", key_type, bytes(1952))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\u2003b", "a\nb", "x" * 257, "\ud800"])
def test_a_key_name_with_spaces_or_plus_is_refused(name: str) -> None:
    with pytest.raises(VerifierKeyError, match="key name"):
        VerifierKey(name, ED25519, bytes(32))


def test_cosigner_keys_are_held_and_verify_nothing() -> None:
    for key in (
        VerifierKey("w", COSIGNATURE_ED25519, KEYS.ed25519.public_key),
        VerifierKey("w", COSIGNATURE_ML_DSA_44, bytes(1312)),  # as long as one of FIPS 204
    ):
        assert key.type in (COSIGNATURE_ED25519, COSIGNATURE_ML_DSA_44)
        line = signature_line(key.name, key.key_id, KEYS.sign_ed25519(TEXT))
        with pytest.raises(NoteError, match="does not match"):
            verify(join_note(TEXT, line), [key])


def test_a_full_note_is_verified_under_both_keys() -> None:
    note = verify(FULL, [KEYS.ed25519, KEYS.mldsa])
    assert note.text == TEXT
    assert [(line.name, line.key_id) for line in note.signatures] == [
        (KEYS.origin, KEYS.ed25519.key_id),
        (KEYS.origin, KEYS.mldsa.key_id),
    ]
    assert note == parse(FULL)


def test_key_ids_are_the_formula_of_the_specification() -> None:
    assert KEYS.mldsa.type == ML_DSA_65 == b"\xffweftos/ml-dsa-65"
    decoded = base64.b64decode(KEYS.mldsa.text.split("+", 2)[2])
    assert decoded == ML_DSA_65 + KEYS.mldsa.public_key
    assert VerifierKey.parse(KEYS.mldsa.text) == KEYS.mldsa
    assert VerifierKey.parse(KEYS.ed25519.text) == KEYS.ed25519


def test_every_given_key_must_have_signed() -> None:
    provisional = join_note(TEXT, KEYS.ed25519_line(TEXT))
    verify(provisional, [KEYS.ed25519])
    missing = rf"not signed by {KEYS.origin}\+{KEYS.mldsa.key_id.hex()}.*{KEYS.ed25519.key_id.hex()}"
    with pytest.raises(NoteError, match=missing):
        verify(provisional, [KEYS.ed25519, KEYS.mldsa])
    with pytest.raises(NoteError, match="not signed by"):
        verify(FULL, [OTHER.ed25519])
    with pytest.raises(NoteError, match="no verifier key was given"):
        verify(FULL, [])


def test_a_bad_signature_of_a_known_key_spoils_the_note() -> None:
    forged = signature_line(KEYS.origin, KEYS.ed25519.key_id, OTHER.sign_ed25519(TEXT))
    for lines in ([forged], [KEYS.ed25519_line(TEXT), forged], [forged, KEYS.ed25519_line(TEXT)]):
        with pytest.raises(NoteError, match="does not match the note's text"):
            verify(join_note(TEXT, *lines), [KEYS.ed25519])
    swapped = signature_line(KEYS.origin, KEYS.mldsa.key_id, KEYS.sign_ed25519(TEXT))
    with pytest.raises(NoteError, match="does not match the note's text"):
        verify(join_note(TEXT, KEYS.ed25519_line(TEXT), swapped), [KEYS.ed25519, KEYS.mldsa])


def test_lines_of_unknown_keys_are_ignored() -> None:
    same_name = signature_line(KEYS.origin, b"\x00\x00\x00\x01", b"nonsense")
    same_id = signature_line("another.log", KEYS.ed25519.key_id, b"nonsense")
    note = verify(join_note(TEXT, same_name, same_id, KEYS.ed25519_line(TEXT)), [KEYS.ed25519])
    assert len(note.signatures) == 3


@given(st.data())
@settings(max_examples=300)
def test_a_note_with_one_bit_changed_is_not_verified(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(FULL) - 1))
    changed = bytearray(FULL)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(NoteError):
        verify(bytes(changed), [KEYS.ed25519, KEYS.mldsa])


def test_no_prefix_of_a_note_is_verified() -> None:
    note = join_note(TEXT, KEYS.ed25519_line(TEXT))
    for end in range(len(note)):
        with pytest.raises(NoteError):
            verify(note[:end], [KEYS.ed25519])


LINE = signature_line("some.log", b"abcd", b"signature")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no empty line"),
        (b"text\n", "no empty line"),
        (b"text" + LINE, "no empty line"),
        (b"\n\n" + LINE, "no empty line"),
        (b"text\n\n", "no signature line"),
        (b"text\n\n" + LINE[:-1], "no newline"),
        (b"text\n\n" + LINE + b"\n", "no signature line"),
        (b"text\n\nnot a signature\n", "not a signature line"),
        (b"text\n\n-- some.log YWJjZHNpZw==\n", "not a signature line"),
        (b"text\n\n" + LINE.replace(b"some.log", b"some+log"), "dash, name, base64"),
        (b"text\n\n" + LINE.replace(b"some.log ", b""), "dash, name, base64"),
        (b"text\n\n" + LINE.replace(b"=", b""), "dash, name, base64"),
        (b"text\n\n" + LINE.replace(b"\n", b" \n"), "dash, name, base64"),
        (b"text\n\n" + signature_line("some.log", b"abcd", b""), "has 4 bytes, must have 5 to"),
        (b"text\n\n" + signature_line("some.log", b"abcd", bytes(8189)), "has 8193 bytes, must have 5 to"),
        (b"te\txt\n\n" + LINE, "control character"),
        (b"te\rxt\n\n" + LINE, "control character"),
        (b"te\xffxt\n\n" + LINE, "not UTF-8 at byte 2"),
        (b"text\n\n" + LINE * (MAX_SIGNATURES + 1), "33 signature lines, limit 32"),
        (b"x" * MAX_NOTE_BYTES + b"\n\n" + LINE, "limit 262144"),
    ],
)
def test_malformed_notes_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(NoteError, match=words):
        parse(data)


def test_a_text_may_hold_empty_lines_and_many_signatures() -> None:
    text = b"one\n\ntwo\n\n\nthree\n"
    note = parse(join_note(text, *[LINE] * MAX_SIGNATURES))
    assert note.text == text
    assert len(note.signatures) == MAX_SIGNATURES
    assert (note.signatures[0].key_id, note.signatures[0].signature) == (b"abcd", b"signature")
