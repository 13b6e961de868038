"""Which signatures hold, where verifiers of Ed25519 differ, and what is none: by us and by the sceptic's script alike.

The cases were computed by the curve's own arithmetic, with a point of order 8: no published vector beside us is one.
"""

from __future__ import annotations

from typing import Any

import pytest

from chain.keys.keys import Keys
from chain.notes.note import ED25519, HEAD_CONTEXT, VerifierKey, verify_ed25519, verify_ml_dsa_65
from tools import verify_weftos

KEYS = Keys(b"e" * 32, b"m" * 32)
CASES = [
    (
        "a key with a part of small order, which h makes vanish",
        "271f79b79294466785a5fce97fe77fdb55a33aee608ae450c941eaeb3689bbdd",
        "0100",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86eb09a3d9c89ed22ad61fc819cbf1632b71b3bc828fea00bf6b8e7bec58582cc409",
        True,
    ),
    (
        "with the cofactor alone: the key's part of small order stays",
        "271f79b79294466785a5fce97fe77fdb55a33aee608ae450c941eaeb3689bbdd",
        "0000",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86ebc77ea4c9b27ccdca98b15aa3a736325ce9761f07bde9d6239b60e97c0b80530b",
        False,
    ),
    (
        "with the cofactor alone: R has a part of small order",
        "cf5f3049c01f02b9e090f7145fa4099e8c93cfc26e22cad71ebb322190c14dc1",
        "71",
        "dfd3145e691e9b998cb20bd6e1790ccfbd79f23e01dc20a7349e3aec7193acf6db422d20198ee144ffcefcff7b7fa2631c6147a9ca224facf8ed310962fb640f",
        False,
    ),
    (
        "a key of small order",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "0000",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86ebb112f47e5fdab40d000000000000000000000000000000000000000000000000",
        False,
    ),
    (
        "R of small order",
        "cf5f3049c01f02b9e090f7145fa4099e8c93cfc26e22cad71ebb322190c14dc1",
        "7a",
        "01000000000000000000000000000000000000000000000000000000000000003455eba5b9d5ed037adfb805f2e80928182e4e3799cf15e2a494c7816a871b00",
        False,
    ),
    (
        "as it should be",
        "cf5f3049c01f02b9e090f7145fa4099e8c93cfc26e22cad71ebb322190c14dc1",
        "6d",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86eb7b80dba0d7f640dc655cae644c76f1fa7d8507c95e22892913bc9b5197c23c0a",
        True,
    ),
    (
        "S with the group's order added",
        "cf5f3049c01f02b9e090f7145fa4099e8c93cfc26e22cad71ebb322190c14dc1",
        "6d",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86eb6854d1fdf15953343cf9a5072b70d00f7e8507c95e22892913bc9b5197c23c1a",
        False,
    ),
    (
        "a key that is not canonical",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "6e",
        "684c0d53ab44de46d526ab4d33b5947bab9d77af687fe0a09518a5f6df4a86ebb112f47e5fdab40d000000000000000000000000000000000000000000000000",
        False,
    ),
    (
        "R that is not canonical",
        "cf5f3049c01f02b9e090f7145fa4099e8c93cfc26e22cad71ebb322190c14dc1",
        "6e",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7fad1bc2d3804467a2e09128e7a4cd025d2f9e5784b456fd914cacaf3e7ecaec03",
        False,
    ),
]


@pytest.mark.parametrize(("name", "key", "message", "signature", "holds"), CASES, ids=[c[0] for c in CASES])
def test_ed25519_is_without_cofactor_canonical_and_never_of_small_order(
    name: str, key: str, message: str, signature: str, holds: bool
) -> None:
    public, text, signed = (bytes.fromhex(part) for part in (key, message, signature))
    assert verify_ed25519(public, text, signed) is holds
    theirs = verify_weftos.Key.read(VerifierKey("some.log", ED25519, public).text)
    assert theirs.signed(text, signed, "") is holds


@pytest.mark.parametrize("text", [b"", b"some.log\n"])
def test_a_right_signature_holds_over_any_text(text: bytes) -> None:
    for ours, signature in ((KEYS.ed25519, KEYS.sign_ed25519(text)), (KEYS.mldsa, KEYS.sign_mldsa(text))):
        theirs = verify_weftos.Key.read(ours.text)
        assert ours.verify(text, signature)
        assert theirs.signed(text, signature, HEAD_CONTEXT.decode())


def test_what_is_no_signature_is_none() -> None:
    """A text that begins with a signature of its rest, above all: some libraries look for it there."""
    signature = KEYS.sign_ed25519(b"rest")
    text = signature + b"rest"
    wrong: list[Any] = [None, 64, "", b"", [*signature], signature[:-1], signature + b"\0", text]
    for none in wrong:
        assert not verify_ed25519(KEYS.ed25519.public_key, text, none)
        assert not verify_ml_dsa_65(KEYS.mldsa.public_key, text, none, HEAD_CONTEXT)
        for key in (KEYS.ed25519, KEYS.mldsa):
            assert not verify_weftos.Key.read(key.text).signed(text, none, HEAD_CONTEXT.decode())


def test_what_is_no_public_key_has_signed_nothing() -> None:
    wrong: list[Any] = [None, "", b"", bytes(31), bytes(33), [*KEYS.ed25519.public_key]]
    for none in wrong:
        assert not verify_ed25519(none, b"text", KEYS.sign_ed25519(b"text"))
