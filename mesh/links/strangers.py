"""Who stands at a door and has not shown who it is: few at a time, and no address keeps another one out.

A door that is simply full when so many stand there can be kept shut by whoever comes often enough. So nobody is turned
away for coming late: who comes is let stand, and another one makes room. That is the one that has waited for longest at
the newcomer's own address when this address has had its share, and when the whole place is full the one that has waited
for longest at the address that has most of it. An honest one is through in a few round trips and is never there for
long; it is pushed out only if its own address brings a whole share meanwhile, or all of them together a whole crowd.

Pure: no socket and no clock.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Who = TypeVar("Who", bound=Hashable)
_NETWORK_BITS = 64  # of an IPv6 address: whoever has one of these has all of them


class Strangers(Generic[Who]):
    """At most ``limit`` altogether and ``share`` for one address."""

    def __init__(self, limit: int, share: int) -> None:
        self._limit = limit
        self._share = share
        self._address: dict[Who, str] = {}
        self._at: dict[str, dict[Who, None]] = {}

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, who: object) -> bool:
        return who in self._address

    def __iter__(self) -> Iterator[Who]:
        return iter(tuple(self._address))

    def enter(self, who: Who, address: str) -> Who | None:
        """``who`` has come from ``address``. The one that must go now, which has left; None when there is room."""
        self._address[who] = address
        self._at.setdefault(address, {})[who] = None
        if len(self._at[address]) > self._share:
            return self._oldest(address)
        if len(self._address) > self._limit:
            return self._oldest(max(self._at, key=lambda other: len(self._at[other])))
        return None

    def leave(self, who: Who) -> None:
        """It has shown who it is, or has gone."""
        address = self._address.pop(who, None)
        if address is not None:
            del self._at[address][who]
            if not self._at[address]:
                del self._at[address]

    def _oldest(self, address: str) -> Who:
        oldest = next(iter(self._at[address]))
        self.leave(oldest)
        return oldest


def neighbourhood(host: str) -> str:
    """What counts as one address: an IPv4 address, the network of an IPv6 one, any other text as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _NETWORK_BITS), strict=False))
    return str(address)
