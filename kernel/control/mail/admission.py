"""Whether a message of a person is heard at all: decided before a word of it is recorded.

A user of a channel is resolved (:mod:`kernel.policy.access`), and refused where he may not ask; who has sent too much
is told when to try again. What is refused is no message and reaches nobody. That it was is on record, but not so often
that whoever is refused could fill the ledger: of refusals beyond a number the next entry tells how many there were.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace

from chain.ledger.ledger import Draft
from kernel.abi import NOBODY, Identity, Inbound
from kernel.errors import AccessDenied, KernelError
from kernel.kernel import Kernel
from kernel.message.messaging import OPERATOR
from kernel.policy.asker import Asker
from kernel.policy.limits.rates import denied
from kernel.state.recorder import ledger_errors

DENIALS_A_MINUTE = 60
"""So many are recorded one by one."""
TOLD_SENDERS = 1_000
_MINUTE_US = 60 * 1_000_000


class Admission:
    """One for all messages of people."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._denials: deque[int] = deque(maxlen=DENIALS_A_MINUTE)
        self._untold = 0
        self._told: OrderedDict[str, int] = OrderedDict()

    def admitted(self, address: str, inbound: Inbound | None) -> tuple[Inbound | None, frozenset[str] | None]:
        """A message for the process at ``address``, with who has written it, and the tools that may be used for him,
        None for all. Raises AccessDenied, RateLimited, Unavailable.
        """
        if inbound is None or not inbound.channel:
            self._in_time(address, NOBODY)
            return inbound, None
        access, channel = self._kernel.env.terms.access, inbound.channel
        who = access.who(channel, inbound.user)
        why = access.against(who, channel, address)
        if why:
            self._record_denial(address, inbound, why)
            raise AccessDenied(inbound.user, channel, why)
        self._in_time(address, who)
        effects = {name: entry.declaration.effects for name, entry in self._kernel.registry.items()}
        return replace(inbound, who=who), access.tools(who, channel, effects)

    def _in_time(self, address: str, who: Identity) -> None:
        rates, state = self._kernel.env.terms.rates, self._kernel.state
        asker = Asker(OPERATOR, "control", identity=who)
        wait = rates.wait(asker, state.rates, self._now_us())
        if wait is None:
            return
        refused = denied(asker, wait).raised()
        name = rates.counts_for(asker, state.rates)
        accepted_us = state.rates[name][-1]
        if self._told.get(name, -1) < accepted_us:
            self._told[name] = accepted_us
            self._told.move_to_end(name)
            if len(self._told) > TOLD_SENDERS:
                self._told.popitem(last=False)
            self._record_refusal(address, asker.who, refused)
        raise refused

    def _record_refusal(self, address: str, sender: str, error: KernelError) -> None:
        self._record(
            Draft("message.refused", {"to": address[:200], "sender": sender, "why": str(error)[:500]})
        )

    def _record_denial(self, address: str, inbound: Inbound, why: str) -> None:
        now_us = self._now_us()
        if len(self._denials) == DENIALS_A_MINUTE and self._denials[0] > now_us - _MINUTE_US:
            self._untold += 1
            return
        self._denials.append(now_us)
        body = {
            "user": inbound.user,
            "channel": inbound.channel,
            "to": address[:200],
            "reason": why[:500],
            "untold": self._untold,
        }
        self._record(Draft("access.denied", body))
        self._untold = 0

    def _record(self, draft: Draft) -> None:
        with ledger_errors():
            self._kernel.recorder.commit([draft])

    def _now_us(self) -> int:
        return self._kernel.recorder.ledger.now_us()
