"""When a model server is asked again."""

from __future__ import annotations

from cognition.errors import ProviderError, TransientProviderError
from cognition.providers.served.retry import Failure, RetryPolicy, retry_delay_s

POLICY = RetryPolicy(attempts=4, base_s=1.0, max_s=3.0, retry_after_max_s=30.0)
BUSY = Failure(TransientProviderError("busy"), shown=False)
CUT = Failure(TransientProviderError("cut"), shown=True)


def wait(retry_after_s: float) -> Failure:
    return Failure(TransientProviderError("busy", retry_after_s), shown=False)


def test_waits_double_up_to_a_bound_and_end_with_the_attempts() -> None:
    delays = [retry_delay_s(POLICY, (BUSY,) * n, 0.0) for n in (1, 2, 3, 4)]
    assert delays == [1.0, 2.0, 3.0, None]


def test_jitter_takes_off_up_to_half() -> None:
    assert retry_delay_s(POLICY, (BUSY,), 0.5) == 0.75


def test_a_lasting_fault_is_not_retried() -> None:
    assert retry_delay_s(POLICY, (BUSY, Failure(ProviderError("bad request"), shown=False)), 0.0) is None


def test_after_text_was_shown_there_is_one_more_attempt_whatever_came_before() -> None:
    assert retry_delay_s(POLICY, (CUT,), 0.0) is not None
    assert retry_delay_s(POLICY, (BUSY, CUT), 0.0) is not None
    assert retry_delay_s(POLICY, (CUT, CUT), 0.0) is None
    assert retry_delay_s(POLICY, (CUT, BUSY), 0.0) is None


def test_the_servers_wish_is_respected_within_a_bound() -> None:
    assert retry_delay_s(POLICY, (wait(10),), 0.0) == 10
    assert retry_delay_s(POLICY, (wait(0),), 0.0) == 1.0
    assert retry_delay_s(POLICY, (wait(31),), 0.0) is None
