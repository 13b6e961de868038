"""``[agent.failover]``: what follows when a provider fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, MaxLen

PlaceText = Annotated[str, MaxLen(400)]


@dataclass(frozen=True, slots=True)
class FailoverConfig:
    """``enabled``: whether the agent decides about retries and other providers; otherwise the gateway makes its own
    attempts at the one provider. ``max_retries_per_provider`` counts those behind the first attempt.
    ``retry_delay_ms``: before the first of them, ``backoff_factor`` times as long before each next. ``fallback_order``:
    who is asked when a provider will not answer, as ``provider`` or ``provider/model``.
    """

    enabled: bool = True
    max_retries_per_provider: Annotated[int, Ge(0), Le(10)] = 2
    retry_delay_ms: Annotated[int, Ge(0), Le(60_000)] = 1_000
    backoff_factor: Annotated[float, Ge(1), Le(10)] = 2.0
    fallback_order: Annotated[tuple[PlaceText, ...], MaxLen(16)] = ()
