"""Who may ask, how often, and for how much: what the node makes of its settings."""

from __future__ import annotations

from kernel.policy.terms import Terms
from weftos.config.access import access_of, rate_limits_of
from weftos.config.routing import cost_caps
from weftos.config.settings import Settings


def terms_of(settings: Settings) -> Terms:
    """All of it."""
    return Terms(cost_caps(settings), rate_limits_of(settings), access_of(settings))
