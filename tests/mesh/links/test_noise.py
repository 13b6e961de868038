"""The Noise wrapper on hostile input: one error, always."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.errors import NoiseError
from mesh.links.noise import KEY_BYTES, MAX_NOISE_BYTES, TAG_BYTES, NoiseXX
from tests.mesh.twins.core_nodes import ALICE, BOB, flipped

# The public keys of low order on Curve25519 (https://cr.yp.to/ecdh.html), some with the ignored top bit set:
# whoever computes a secret with one of them gets zero, whatever the own key.
LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes(31) + bytes([0x80]),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
]


def sides(prologue: bytes = b"p", other: bytes = b"p") -> tuple[NoiseXX, NoiseXX]:
    return NoiseXX(True, ALICE.noise, prologue), NoiseXX(False, BOB.noise, other)


def finished() -> tuple[NoiseXX, NoiseXX]:
    first, second = sides()
    second.read_message(first.write_message())
    first.read_message(second.write_message(b"two"))
    second.read_message(first.write_message(b"three"))
    return first, second


def test_both_sides_share_the_hash_and_know_the_other_static_key() -> None:
    first, second = finished()
    assert first.handshake_hash == second.handshake_hash
    assert (first.remote_static, second.remote_static) == (BOB.noise.public, ALICE.noise.public)
    assert finished()[0].handshake_hash != first.handshake_hash


@pytest.mark.parametrize("key", LOW_ORDER, ids=bytes.hex)
def test_a_low_order_ephemeral_key_is_refused_by_the_responder(key: bytes) -> None:
    _, second = sides()
    second.read_message(key)
    with pytest.raises(NoiseError, match="cannot write a handshake message"):
        second.write_message(b"hello")


@pytest.mark.parametrize("key", LOW_ORDER, ids=bytes.hex)
def test_a_low_order_ephemeral_key_is_refused_by_the_initiator(key: bytes) -> None:
    first, second = sides()
    second.read_message(first.write_message())
    with pytest.raises(NoiseError, match="not of this handshake"):
        first.read_message(key + second.write_message(b"hello")[KEY_BYTES:])


def test_another_prologue_is_another_handshake() -> None:
    first, second = sides(b"weftos/mesh/1\n", b"weftos/mesh/2\n")
    second.read_message(first.write_message())
    with pytest.raises(NoiseError, match="not of this handshake"):
        first.read_message(second.write_message())


@given(st.data())
def test_any_changed_bit_of_the_second_and_third_message_is_noticed(data: st.DataObject) -> None:
    first, second = sides()
    second.read_message(first.write_message())
    message = second.write_message(b"two")
    if data.draw(st.booleans()):
        # X25519 ignores the top bit of a key, but the handshake hash does not.
        with pytest.raises(NoiseError):
            first.read_message(flipped(message, data.draw(st.integers(0, 8 * len(message) - 1))))
        return
    first.read_message(message)
    message = first.write_message(b"three")
    with pytest.raises(NoiseError):
        second.read_message(flipped(message, data.draw(st.integers(0, 8 * len(message) - 1))))


@given(st.binary(max_size=300))
def test_garbage_is_one_error_at_every_step(garbage: bytes) -> None:
    for steps in range(3):
        first, second = sides()
        try:
            if steps == 0:
                second.read_message(garbage)
                first.read_message(second.write_message())
            second = sides()[1]
            second.read_message(first.write_message())
            answer = second.write_message()
            with pytest.raises(NoiseError):
                first.read_message(garbage if steps == 1 else answer[:-1])
            with pytest.raises(NoiseError):
                second.read_message(garbage)
        except NoiseError:
            assert steps == 0


def test_calls_out_of_turn_are_refused() -> None:
    first, second = sides()
    with pytest.raises(NoiseError):
        second.write_message()
    with pytest.raises(NoiseError, match="not finished"):
        first.encrypt(b"early")
    with pytest.raises(NoiseError, match="known only when"):
        _ = first.handshake_hash
    with pytest.raises(NoiseError, match="not known yet"):
        _ = first.remote_static
    first, second = finished()
    with pytest.raises(NoiseError):
        first.write_message()
    with pytest.raises(NoiseError):
        second.read_message(b"")


def test_a_transport_message_is_read_once_and_in_its_place() -> None:
    first, second = finished()
    one, two = first.encrypt(b"1"), first.encrypt(b"2")
    with pytest.raises(NoiseError, match="or were changed"):
        second.decrypt(two)
    assert second.decrypt(one) == b"1"
    with pytest.raises(NoiseError):
        second.decrypt(one)
    with pytest.raises(NoiseError):
        first.decrypt(two)


def test_sizes_end_where_noise_says() -> None:
    first, second = finished()
    longest = bytes(MAX_NOISE_BYTES - TAG_BYTES)
    assert second.decrypt(first.encrypt(longest)) == longest
    with pytest.raises(NoiseError, match="plaintext of 65520 bytes, limit 65519"):
        first.encrypt(longest + b"x")
    with pytest.raises(NoiseError):
        second.decrypt(bytes(MAX_NOISE_BYTES + 1))
