"""Who may ask, how often, and for how much, as configuration says it now."""

from __future__ import annotations

from kernel.budget.spending import CostCaps
from kernel.policy.access import Access
from kernel.policy.limits.rates import RateLimits


class Terms:
    """``caps``: what questions may cost for each sender and in each tier; ``rates``: how many messages of each sender
    are accepted; ``access``: who users of channels are, and what they may ask. A configuration that is reloaded changes
    all of it at once; what was decided before goes with the message.
    """

    def __init__(
        self, caps: CostCaps | None = None, rates: RateLimits | None = None, access: Access | None = None
    ) -> None:
        self.caps = caps or CostCaps()
        self.rates = rates or RateLimits()
        self.access = access or Access()

    def change(self, to: Terms) -> None:
        """These hold from now on."""
        self.caps, self.rates, self.access = to.caps, to.rates, to.access
