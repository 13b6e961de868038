"""The Noise key's file, and hellos: which are believed, and each rule that one can break."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.keys.keys import create_keys, origin_of
from mesh.bounds import MAX_HELLO_BYTES
from mesh.errors import HelloError, MeshFileError
from mesh.identity.identity import BINDING_CONTEXT, NOISE_FILE, NoiseKey, binding_text, check_hello
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY, flipped

STATIC = ALICE.noise.public


def hello_with(**changes: Any) -> bytes:
    packed: bytes = msgpack.packb(msgpack.unpackb(ALICE.hello) | changes)
    return packed


def refused(payload: bytes, static: bytes = STATIC) -> str:
    with pytest.raises(HelloError) as caught:
        check_hello(payload, static)
    return f"{caught.value.rule}: {caught.value}"


def test_a_true_hello_is_believed() -> None:
    peer = check_hello(ALICE.hello, STATIC)
    assert (peer.origin, peer.name, peer.boot) == (ALICE.origin, "alice", "0000000000000001")
    assert peer.vkeys == (ALICE.keys.ed25519, ALICE.keys.mldsa)
    assert len(ALICE.hello) < MAX_HELLO_BYTES


def test_what_is_signed_is_the_stated_text() -> None:
    text = binding_text(ALICE.origin, STATIC, ALICE.keys.mldsa.text)
    assert text.startswith(b"weftos/mesh/noise-static/1\n" + ALICE.origin.encode() + b"\n" + STATIC)
    assert len(text) == len(BINDING_CONTEXT) + len(ALICE.origin) + 1 + 32 + 32


def test_a_binding_for_another_noise_key_is_refused() -> None:
    assert refused(ALICE.hello, MALLORY.noise.public).startswith("binding: ")


def test_a_binding_under_another_context_or_without_one_is_refused() -> None:
    text = binding_text(ALICE.origin, STATIC, ALICE.keys.mldsa.text)
    for other in (text[len(BINDING_CONTEXT) :], text.replace(b"noise-static/1", b"noise-static/2")):
        assert refused(hello_with(binding=ALICE.keys.sign_ed25519(other))).startswith("binding: ")


def test_anothers_origin_is_refused_whoever_signs() -> None:
    text = binding_text(BOB.origin, STATIC, ALICE.keys.mldsa.text)
    forged = hello_with(origin=BOB.origin, binding=ALICE.keys.sign_ed25519(text))
    assert refused(forged).startswith("origin: ") and BOB.origin in refused(forged)
    stolen_key = hello_with(origin=BOB.origin, ed25519=BOB.keys.ed25519.public_key)
    assert refused(stolen_key).startswith("ml_dsa: ")
    whole = hello_with(
        origin=BOB.origin, ed25519=BOB.keys.ed25519.public_key, ml_dsa=BOB.keys.mldsa.text,
        binding=ALICE.keys.sign_ed25519(binding_text(BOB.origin, STATIC, BOB.keys.mldsa.text)),
    )  # fmt: skip
    assert refused(whole).startswith("binding: ")


def test_another_ml_dsa_key_needs_the_ed25519_keys_word() -> None:
    assert refused(hello_with(ml_dsa=BOB.keys.mldsa.text)).startswith("ml_dsa: ")
    assert refused(hello_with(ml_dsa=ALICE.keys.ed25519.text)).startswith("ml_dsa: ")
    assert refused(hello_with(ml_dsa="no vkey")).startswith("ml_dsa: ")
    other = type(ALICE.keys.mldsa)(ALICE.origin, ALICE.keys.mldsa.type, BOB.keys.mldsa.public_key)
    assert refused(hello_with(ml_dsa=other.text)).startswith("binding: ")


def test_an_all_zero_signing_key_is_refused() -> None:
    assert refused(hello_with(ed25519=bytes(32))).startswith("origin: ")
    zero = hello_with(
        origin=origin_of(bytes(32)), ed25519=bytes(32), binding=bytes(64),
        ml_dsa=type(ALICE.keys.mldsa)(origin_of(bytes(32)), ALICE.keys.mldsa.type, bytes(1952)).text,
    )  # fmt: skip
    assert refused(zero).startswith("binding: ")


def test_a_newer_hello_is_refused_as_such() -> None:
    assert (
        refused(hello_with(v=2)) == "version: hello refused (version): hello of version 2, this node knows 1"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"v": True},
        {"v": None},
        {"origin": b"x"},
        {"binding": "text"},
        {"boot": 7},
        {"name": None},
    ],
)
def test_fields_of_other_names_or_types_are_refused(changes: dict[str, Any]) -> None:
    assert refused(hello_with(**changes)).startswith("form: ")


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x80", b"\x90", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x81\x90\x01",
     bytes(MAX_HELLO_BYTES + 1), ALICE.hello + b"\x00", ALICE.hello[:-1], b"\x81" * 5000],
    ids=lambda payload: f"{len(payload)}-{payload[:4].hex()}",
)  # fmt: skip
def test_what_is_no_map_is_refused(payload: bytes) -> None:
    assert refused(payload).startswith("form: ")


@pytest.mark.parametrize("name", ["", "a b", "\x1b[31m", "x" * 64, "n2@n1", "\u202eevil", "-x"])
def test_a_name_that_is_none_is_refused_and_shown_harmless(name: str) -> None:
    words = refused(hello_with(name=name))
    assert words.startswith("name: ") and words.isprintable()


def test_a_boot_that_is_none_is_refused() -> None:
    assert refused(hello_with(boot="0" * 15)).startswith("boot: ")


@given(st.integers(0, 8 * len(ALICE.hello) - 1))
def test_any_changed_bit_is_refused_but_in_the_name_and_boot(bit: int) -> None:
    changed = flipped(ALICE.hello, bit)
    try:
        peer = check_hello(changed, STATIC)
    except HelloError:
        return
    assert peer.vkeys == (ALICE.keys.ed25519, ALICE.keys.mldsa) and peer.origin == ALICE.origin


@given(st.binary(max_size=4000))
def test_garbage_is_a_hello_error(payload: bytes) -> None:
    refused(payload)


def test_the_noise_key_is_made_once_beside_the_others(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    made = NoiseKey.create_or_load(tmp_path / "keys")
    assert NoiseKey.create_or_load(tmp_path / "keys") == made
    file = tmp_path / "keys" / NOISE_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.secret.hex() not in repr(made) and str(made.secret) not in repr(made)
    file.unlink()
    assert NoiseKey.create_or_load(tmp_path / "keys") != made
    assert sorted(os.listdir(tmp_path / "keys")) == ["ed25519.key", "ml-dsa-65.key", "noise.key", "vkeys.txt"]


def test_no_noise_key_is_made_where_there_is_no_node(tmp_path: Path) -> None:
    with pytest.raises(MeshFileError, match=r"holds no ed25519\.key"):
        NoiseKey.create_or_load(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    NoiseKey.create_or_load(tmp_path / "keys")
    (tmp_path / "keys" / NOISE_FILE).chmod(0o644)
    with pytest.raises(MeshFileError, match="mode 0644, must be 0600"):
        NoiseKey.create_or_load(tmp_path / "keys")


@pytest.mark.parametrize("content", [b"", b"AAAA\n", b"!" * 45, b"A" * 44])
def test_a_damaged_key_file_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    create_keys(tmp_path / "keys")
    file = tmp_path / "keys" / NOISE_FILE
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(MeshFileError, match="does not hold a key"):
        NoiseKey.create_or_load(tmp_path / "keys")
    assert file.read_bytes() == content


def test_a_link_or_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    file = tmp_path / "keys" / NOISE_FILE
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MeshFileError, match="cannot read"):
        NoiseKey.create_or_load(tmp_path / "keys")
    file.unlink()
    file.mkdir()
    with pytest.raises(MeshFileError, match="not a regular file"):
        NoiseKey.create_or_load(tmp_path / "keys")
