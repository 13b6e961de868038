"""When to ask a model server again. Pure: failures in, a delay or None out."""

from __future__ import annotations

from dataclasses import dataclass

from cognition.errors import ProviderError, TransientProviderError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``attempts`` counts the first one. The n-th wait is ``base_s * 2**(n-1)``, at most ``max_s``, less
    jitter.

    A server that asks for a longer wait than ``retry_after_max_s`` is not waited for. A failure after text
    was shown is retried once and no more: a person reads along.
    """

    attempts: int = 4
    base_s: float = 0.25
    max_s: float = 8.0
    retry_after_max_s: float = 30.0


ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    ``shown``: a watcher had already seen text of it, so a retry makes that text void.
    """

    error: ProviderError
    shown: bool


def retry_delay_s(policy: RetryPolicy, failures: tuple[Failure, ...], jitter: float) -> float | None:
    """Seconds to wait before the next attempt, None to give up. ``jitter`` in [0, 1) takes off up to half."""
    last = failures[-1].error
    if not isinstance(last, TransientProviderError):
        return None
    if len(failures) >= policy.attempts or any(failure.shown for failure in failures[:-1]):
        return None
    backoff_s: float = min(policy.max_s, policy.base_s * 2 ** (len(failures) - 1)) * (1 - jitter / 2)
    if last.retry_after_s is None:
        return backoff_s
    if last.retry_after_s > policy.retry_after_max_s:
        return None
    return max(last.retry_after_s, backoff_s)
