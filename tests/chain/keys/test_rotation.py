"""A change of keys is four signatures of one statement, and a head is signed by the keys of its size."""

from typing import Any

import pytest

from chain.entry.kinds import KINDS
from chain.errors import RotationError, VerifierKeyError
from chain.keys.keys import Keys
from chain.keys.rotation import (
    KIND,
    KeyHistory,
    KeyPair,
    follow,
    origin_of,
    parse_vkeys,
    rotation_body,
    statement,
    vkeys_text,
)
from chain.notes.note import VerifierKey, verify_ed25519, verify_ml_dsa_65

FIRST = Keys(b"a" * 32, b"b" * 32)
ORIGIN = FIRST.origin
SECOND, THIRD = (Keys(seed * 32, seed.upper() * 32, [FIRST.pair]) for seed in (b"c", b"d"))
STRANGER = Keys(b"x" * 32, b"y" * 32)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        # sha256sum, its first 16 bytes, base32, lower case: by coreutils; the first is the key of RFC 8032, test 1
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "weftos-eh7ddx5bksrgcytl7bkai36se4",
        ),
        ("00" * 32, "weftos-mzuhvlpymk6xo3epygfy5h4oea"),
    ],
)
def test_an_origin_is_the_fingerprint_that_other_programs_come_to(key: str, name: str) -> None:
    assert origin_of(bytes.fromhex(key)) == name


def body(number: int = 1, old: Keys = FIRST, new: Keys = SECOND, **changed: Any) -> dict[str, Any]:
    return rotation_body(old, new, number, "yearly") | changed


def test_a_rotation_leads_from_pair_to_pair() -> None:
    assert follow(FIRST.pair, ORIGIN, 1, body()) == SECOND.pair
    assert SECOND.pair.ed25519.name == ORIGIN
    assert SECOND.pair.ed25519.key_id != FIRST.pair.ed25519.key_id


def test_the_body_is_that_of_its_kind() -> None:
    assert KINDS[KIND].check(body()) == []


def test_the_statement_is_what_the_format_says() -> None:
    keys = (FIRST.ed25519, FIRST.mldsa, SECOND.ed25519, SECOND.mldsa)
    said = "\n".join(["weftos/rotation/1", ORIGIN, "1", *(key.text for key in keys), ""]).encode()
    assert statement(ORIGIN, 1, FIRST.pair, SECOND.pair) == said
    made = body()
    assert verify_ed25519(FIRST.ed25519.public_key, said, made["old_ed25519"])
    assert verify_ed25519(SECOND.ed25519.public_key, said, made["new_ed25519"])
    context = b"weftos/rotation/1"
    assert verify_ml_dsa_65(FIRST.mldsa.public_key, said, made["old_ml_dsa_65"], context)
    assert verify_ml_dsa_65(SECOND.mldsa.public_key, said, made["new_ml_dsa_65"], context)


@pytest.mark.parametrize("field", ["old_ed25519", "old_ml_dsa_65", "new_ed25519", "new_ml_dsa_65"])
def test_each_of_the_four_signatures_counts(field: str) -> None:
    good = body()
    changed = bytearray(good[field])
    changed[-1] ^= 1
    for wrong in (bytes(changed), b"", "text", None, body(old=STRANGER, new=THIRD)[field]):
        with pytest.raises(RotationError, match=rf"rotation 1: {field} is no signature"):
            follow(FIRST.pair, ORIGIN, 1, good | {field: wrong})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (body(number=2), "rotation 1 says that it is number 2"),
        (body(number=True), "says that it is number True"),
        (body() | {"number": None}, "says that it is number None"),
        (body(old=SECOND, new=FIRST), "keeps an old key"),
        (body(new=Keys(b"a" * 32, b"z" * 32)), "keeps an old key"),
        (body(new=Keys(b"z" * 32, b"b" * 32, [FIRST.pair])), "keeps an old key"),
        (body(new=STRANGER), "ed25519 is not a verifier key of"),
        (body() | {"ed25519": 7}, "ed25519 is not a verifier key of"),
        (body() | {"ml_dsa_65": "nonsense"}, "ml_dsa_65: verifier key 'nonsense' is not"),
        (body() | {"ml_dsa_65": SECOND.ed25519.text}, "does not name an Ed25519 and an ML-DSA-65 key"),
        (body(old=STRANGER), "old_ed25519 is no signature"),
        (body(old=SECOND, new=THIRD), "old_ed25519 is no signature"),
        ({}, "says that it is number None"),
    ],
)
def test_what_does_not_follow_is_refused(made: dict[str, Any], words: str) -> None:
    with pytest.raises(RotationError, match=words):
        follow(FIRST.pair, ORIGIN, 1, made)


def test_a_head_is_signed_by_the_keys_of_its_size() -> None:
    history = KeyHistory(FIRST.pair)
    assert history.at(0) == history.at(99) == history.current == FIRST.pair
    history.rotated(4, body())
    history.rotated(9, body(2, SECOND, THIRD))
    assert [history.at(size) for size in (0, 4, 5, 9, 10, 99)] == [
        FIRST.pair, FIRST.pair, SECOND.pair, SECOND.pair, THIRD.pair, THIRD.pair,
    ]  # fmt: skip
    assert history.pairs == (FIRST.pair, SECOND.pair, THIRD.pair)
    assert (history.current, history.rotations, history.origin) == (THIRD.pair, 2, ORIGIN)


def test_a_history_that_begins_at_a_snapshot() -> None:
    history = KeyHistory(FIRST.pair, [SECOND.pair], size=7)
    with pytest.raises(ValueError, match="from size 7 on"):
        history.at(6)
    with pytest.raises(RotationError, match="at entry 6"):
        history.rotated(6, body(2, SECOND, THIRD))
    history.rotated(7, body(2, SECOND, THIRD))
    assert (history.at(7), history.at(8)) == (SECOND.pair, THIRD.pair)


def test_a_rotation_that_does_not_follow_changes_nothing() -> None:
    history = KeyHistory(FIRST.pair)
    history.rotated(4, body())
    for seq, wrong in [(5, body()), (4, body(2, SECOND, THIRD)), (5, body(2, FIRST, THIRD))]:
        with pytest.raises(RotationError):
            history.rotated(seq, wrong)
    assert history.pairs == (FIRST.pair, SECOND.pair)


def test_the_list_of_keys_comes_back() -> None:
    pairs = (FIRST.pair, SECOND.pair, THIRD.pair)
    for count in (1, 2, 3):
        assert parse_vkeys(vkeys_text(pairs[:count])) == pairs[:count]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "must hold one Ed25519 and one ML-DSA-65"),
        ([FIRST.ed25519], "must hold one Ed25519 and one ML-DSA-65"),
        ([*FIRST.pair.both, SECOND.ed25519], "must hold one Ed25519 and one ML-DSA-65"),
        ([FIRST.mldsa, FIRST.ed25519], "in this order"),
        ([*SECOND.pair.both, *FIRST.pair.both], "its Ed25519 key belongs to"),
        ([*FIRST.pair.both, *STRANGER.pair.both], "it names"),
    ],
)
def test_a_list_that_is_none_is_refused(lines: list[VerifierKey], words: str) -> None:
    data = "".join(f"{key.text}\n" for key in lines).encode()
    with pytest.raises(RotationError, match=words):
        parse_vkeys(data)


def test_a_damaged_list_is_refused() -> None:
    with pytest.raises(RotationError, match="not ASCII"):
        parse_vkeys("é".encode())
    with pytest.raises(VerifierKeyError):
        parse_vkeys(vkeys_text([FIRST.pair])[:-2])
    other = VerifierKey(ORIGIN, SECOND.ed25519.type, SECOND.ed25519.public_key)
    with pytest.raises(RotationError, match="belongs to"):
        parse_vkeys(vkeys_text([KeyPair(other, FIRST.mldsa)]))
