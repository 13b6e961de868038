"""The public Noise vectors (cacophony): all twelve, on both sides.

``mesh.links.noise`` knows XX and no other pattern: the four XX vectors run through it, whatever their hash (the one
in use is SHA256). The four IK and four XXpsk3 vectors run through the library it wraps.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import pytest
from noise.connection import Keypair, NoiseConnection

from mesh.identity.identity import NoiseKey
from mesh.links.noise import PROTOCOL, NoiseXX
from tests.places import SHARED

FILE = SHARED / "vectors" / "noise" / "cacophony_xx_ik_25519.json"
if not FILE.is_file():
    pytest.skip(
        "the public Noise vectors are not beside this checkout (../shared/vectors)", allow_module_level=True
    )
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text())["vectors"]
HANDSHAKE_MESSAGES = {"IK": 2, "XX": 3, "XXpsk3": 3}


def pattern_of(vector: dict[str, Any]) -> str:
    return str(vector["protocol_name"]).split("_")[1]


def wrapped(vector: dict[str, Any], side: str) -> NoiseXX:
    return NoiseXX(
        side == "init",
        NoiseKey.from_secret(bytes.fromhex(vector[f"{side}_static"])),
        bytes.fromhex(vector[f"{side}_prologue"]),
        protocol=vector["protocol_name"].encode(),
        ephemeral=bytes.fromhex(vector[f"{side}_ephemeral"]),
    )


def bare(vector: dict[str, Any], side: str) -> Any:
    connection = NoiseConnection.from_name(vector["protocol_name"].encode())
    (connection.set_as_initiator if side == "init" else connection.set_as_responder)()
    connection.set_prologue(bytes.fromhex(vector[f"{side}_prologue"]))
    for keypair, field in ((Keypair.STATIC, "static"), (Keypair.EPHEMERAL, "ephemeral")):
        connection.set_keypair_from_private_bytes(keypair, bytes.fromhex(vector[f"{side}_{field}"]))
    if f"{side}_remote_static" in vector:
        remote = bytes.fromhex(vector[f"{side}_remote_static"])
        connection.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, remote)
    if f"{side}_psks" in vector:
        connection.set_psks(psks=[bytes.fromhex(psk) for psk in vector[f"{side}_psks"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connection.start_handshake()
    return connection


def walk(vector: dict[str, Any], sides: list[Any]) -> int:
    """Every message of the vector, sent and read; how many."""
    handshake = HANDSHAKE_MESSAGES[pattern_of(vector)]
    for number, message in enumerate(vector["messages"]):
        payload, expected = bytes.fromhex(message["payload"]), bytes.fromhex(message["ciphertext"])
        sender, receiver = sides[number % 2], sides[(number + 1) % 2]
        if number < handshake:
            assert bytes(sender.write_message(payload)) == expected
            assert bytes(receiver.read_message(expected)) == payload
        else:
            assert sender.encrypt(payload) == expected
            assert receiver.decrypt(expected) == payload
    return len(vector["messages"])


def test_the_file_holds_the_twelve_vectors_expected() -> None:
    counts = Counter(map(pattern_of, VECTORS))
    print(f"noise vectors: {len(VECTORS)} {dict(counts)}, {counts['XX']} of them through mesh.links.noise")
    assert counts == {"XX": 4, "IK": 4, "XXpsk3": 4}
    assert PROTOCOL.decode() in {vector["protocol_name"] for vector in VECTORS}


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if pattern_of(v) == "XX"], ids=lambda vector: vector["protocol_name"]
)
def test_the_wrapper_gives_the_known_answers(vector: dict[str, Any]) -> None:
    sides = [wrapped(vector, "init"), wrapped(vector, "resp")]
    assert walk(vector, sides) == 6
    for side, other in (sides, sides[::-1]):
        assert side.handshake_hash.hex() == vector["handshake_hash"]
        static = vector["resp_static" if side is sides[0] else "init_static"]
        assert side.remote_static == NoiseKey.from_secret(bytes.fromhex(static)).public
        assert side.finished and other.finished


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if pattern_of(v) != "XX"], ids=lambda vector: vector["protocol_name"]
)
def test_the_library_below_gives_the_known_answers(vector: dict[str, Any]) -> None:
    sides = [bare(vector, "init"), bare(vector, "resp")]
    assert walk(vector, sides) == 6
    assert {side.get_handshake_hash().hex() for side in sides} == {vector["handshake_hash"]}
