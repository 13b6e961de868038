"""What openings of sessions and links may cost this node: links of one peer, and signatures of strangers.

Each link that opens costs those who are told of it: a peer that has had ``links`` of them may have ``links_per_s`` from
then on, whoever calls. A hello may bear a hundred signatures, and each costs as much as all the rest: those of a peer
that was met are not verified again; of others ``key_changes`` are, and then ``key_changes_per_s``, for each address.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from mesh.bounds import MeshBounds
from mesh.identity.identity import Before, PeerIdentity
from mesh.rate import Bucket


class Openings:
    """Of who was never let in nothing is kept but a bounded number of addresses."""

    def __init__(self, bounds: MeshBounds) -> None:
        self._bounds = bounds
        self._links: dict[str, Bucket] = {}
        self._chains: dict[str, tuple[bytes, ...]] = {}
        self._verifying: OrderedDict[str, Bucket] = OrderedDict()

    def before(self, address: str, dialled: bool) -> Before:
        """What is known before a hello comes from ``address``; whom this node has called is verified at any cost."""
        return Before(
            lambda origin: self._chains.get(origin, ()),
            lambda count: dialled or self._affords(address, count),
        )

    def too_often(self, origin: str) -> bool:
        """Whether a link that ``origin`` opens now is one too many. Each question counts as one that is opened."""
        bucket = self._links.get(origin)
        return bucket is not None and not bucket.take(asyncio.get_running_loop().time())

    def opened(self, peer: PeerIdentity) -> None:
        """There is a link with ``peer``."""
        self._chains[peer.origin] = peer.chain
        if peer.origin not in self._links:
            self._links[peer.origin] = Bucket(self._bounds.links, self._bounds.links_per_s)
            self._links[peer.origin].take(asyncio.get_running_loop().time())

    def forget(self, origin: str) -> None:
        """It is no peer any more: its keys are verified again."""
        self._chains.pop(origin, None)

    def _affords(self, address: str, count: int) -> bool:
        """Whether ``count`` changes of keys may be verified now for who calls from ``address``."""
        bounds = self._bounds
        bucket = self._verifying.pop(address, None) or Bucket(bounds.key_changes, bounds.key_changes_per_s)
        self._verifying[address] = bucket
        if len(self._verifying) > bounds.addresses:
            self._verifying.popitem(last=False)
        return bucket.take(asyncio.get_running_loop().time(), count)
