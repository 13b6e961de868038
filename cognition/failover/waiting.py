"""How long to wait before a provider is asked again. Pure."""

from __future__ import annotations

from cognition.config.failover_config import FailoverConfig

MOST_MS = 30_000
JITTER_BITS = 16


def wait_ms(config: FailoverConfig, retry: int, retry_after_s: float, bits: int) -> int:
    """Before the ``retry``-th retry, from 1: ``retry_delay_ms`` times ``backoff_factor`` for each one before it, at
    most 30 s, of which chance (``bits``, random) takes off up to a half; and never less than the server has asked for.
    """
    whole = min(float(MOST_MS), config.retry_delay_ms * config.backoff_factor ** (retry - 1))
    share = (bits % 2**JITTER_BITS) / 2**JITTER_BITS
    return max(int(whole * (1 - share / 2)), int(retry_after_s * 1000))
