"""Another node as who asks something of this one."""

from __future__ import annotations

from kernel.model.makers import peer_maker
from kernel.policy.asker import Asker
from mesh.identity.peers import Peer


def asker_of(peer: Peer, tools: frozenset[str] = frozenset()) -> Asker:
    """``tools``: those that may be used for it here, as far as they matter for what it asks."""
    return Asker(peer_maker(peer.origin), "mesh", rights=tools, may=peer.may, name=peer.name)
