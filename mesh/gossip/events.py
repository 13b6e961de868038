"""What the mesh tells its node, and asks it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from chain.merkle.head import TreeHead
from mesh.gossip.adverts import ProcessAdvert
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import Peer


class MeshEvents(Protocol):
    """What the mesh tells the kernel, and asks it."""

    def processes(self) -> Iterable[ProcessAdvert]:
        """What peers that may see processes are shown: the first ``adverts.MAX_PROCESSES``, one by one, so that whoever
        asks can stop in between.
        """

    def process_count(self) -> int:
        """How many processes there are."""

    def on_up(self, peer: Peer, identity: PeerIdentity) -> None:
        """There is a new link with ``peer``. Whatever is unanswered is to be sent again."""

    def on_down(self, peer: Peer, why: str) -> None:
        """The peer is lost. ``why`` may hold foreign text."""

    def on_op(self, peer: Peer, op: dict[str, Any]) -> None:
        """An op of ``peer``: its shape is for the kernel to check, and ``peer.may`` to keep to."""

    def on_refused(self, who: str, why: str) -> None:
        """A link, an advert or a head was refused: by this node, or by the other. Foreign text in ``why``."""

    def on_added(self, peer: Peer, how: str) -> None:
        """A join token has added ``peer`` to the allow list; ``how``: the token's id."""

    def on_head(self, peer: Peer, head: TreeHead) -> None:
        """A newer head of ``peer`` is kept."""

    def on_conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        """``peer`` has shown a head that contradicts the one kept; no further is taken until a person decides."""

    async def prove(self, size1: int, size2: int) -> list[bytes]:
        """The proof that the first ``size1`` entries of this node's ledger are the beginning of its first ``size2``.

        Raises ChainError, OSError, ValueError when there is none.
        """
