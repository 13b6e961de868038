"""What is random comes from the machine's source, a lot of it at a time, and no byte of it twice."""

from __future__ import annotations

import pytest

from kernel.chance import FETCHED_BYTES, Chance


class Source:
    """Counts up, two bytes a number."""

    def __init__(self) -> None:
        self.fetched: list[int] = []
        self._next = 0

    def __call__(self, size: int) -> bytes:
        self.fetched.append(size)
        count = (size + 1) // 2
        found = b"".join((self._next + each).to_bytes(2, "big") for each in range(count))
        self._next += count
        return found[:size]


def test_no_byte_is_given_out_twice_and_a_fetch_is_rare() -> None:
    source = Source()
    chance = Chance(source)
    numbers = [chance.getrandbits(16) for _ in range(FETCHED_BYTES)]
    assert len(set(numbers)) == len(numbers)
    assert len(source.fetched) == 2


def test_as_many_as_are_wanted_at_once() -> None:
    source = Source()
    assert len(Chance(source).randbytes(3 * FETCHED_BYTES)) == 3 * FETCHED_BYTES
    assert source.fetched == [4 * FETCHED_BYTES]


def test_numbers_have_the_bits_that_were_asked_for() -> None:
    ones = Chance(lambda size: b"\xff" * size)
    assert [ones.getrandbits(bits) for bits in (0, 1, 7, 8, 9, 128)] == [0, 1, 127, 255, 511, 2**128 - 1]
    with pytest.raises(ValueError, match="-1 is no number of bits"):
        ones.getrandbits(-1)


def test_a_share_is_below_one() -> None:
    assert Chance(lambda size: b"\xff" * size).random() == 1 - 2**-53
    assert Chance(bytes).random() == 0.0


def test_by_itself_it_asks_the_machine_and_cannot_be_sown() -> None:
    one, other = Chance(), Chance()
    assert one.randbytes(32) != other.randbytes(32)
    one.seed(1)
    other.seed(1)
    assert one.getrandbits(128) != other.getrandbits(128)
    assert one.choice(range(10)) in range(10)
    assert 0 <= one.uniform(0, 1) <= 1
