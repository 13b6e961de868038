"""The token bucket: a burst at once, and a rate in the long run."""

from __future__ import annotations

from mesh.rate import Bucket


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    bucket = Bucket(3, 2.0)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(10.5), bucket.take(10.5)] == [True, False]
    assert not bucket.take(10.9)
    assert bucket.take(11.0)


def test_rest_gathers_no_more_than_a_burst() -> None:
    bucket = Bucket(2, 1.0)
    assert bucket.take(0.0)
    assert [bucket.take(1e6) for _ in range(3)] == [True, True, False]
