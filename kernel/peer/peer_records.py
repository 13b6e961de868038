"""What the ledger says of peers: links, refusals, heads, and who is in the allow list.

What a peer can cause at will is bounded: at most one refusal a second is written, and says how many were not; of the
heads of a peer one in ``HEAD_ENTRY_S``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chain.ledger.ledger import Draft
from chain.merkle.head import TreeHead
from kernel.clock import Clock
from kernel.signals import Signal
from kernel.state.recorder import Recorder
from kernel.values import clean, cut_bytes
from mesh.gossip.heads import HeadConflict
from mesh.identity.identity import PeerIdentity
from mesh.identity.peers import Peer
from mesh.rate import Bucket

HEAD_ENTRY_S = 60.0
WHY_BYTES = 300


@dataclass(frozen=True, slots=True)
class PeerRefused(Signal):
    """Something of, or for, another node was refused."""

    who: str
    why: str


class PeerRecords:
    """Writes them, now or when the disk takes them."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._refusals = Bucket(1, 1.0)
        self._unwritten_refusals = 0
        self._head_entry_at: dict[str, float] = {}

    def up(self, peer: Peer, identity: PeerIdentity) -> None:
        self._write("peer.up", origin=peer.origin, name=peer.name, boot=identity.boot)

    def down(self, peer: Peer, why: str) -> None:
        self._write("peer.down", origin=peer.origin, name=peer.name, why=why)

    def refused(self, who: str, why: str) -> None:
        if not self._refusals.take(self._clock.now_s()):
            self._unwritten_refusals += 1
            return
        more, self._unwritten_refusals = self._unwritten_refusals, 0
        self._write("peer.refused", who=line(who), why=line(why), more=more)

    def added(self, peer: Peer, how: str) -> None:
        self._write(
            "peer.added",
            origin=peer.origin,
            name=peer.name,
            address=peer.address,
            may=sorted(peer.may),
            tools=None if peer.tools is None else sorted(peer.tools),
            how=how,
        )

    def removed(self, peer: Peer) -> None:
        self._write("peer.removed", origin=peer.origin, name=peer.name)

    def head(self, peer: Peer, head: TreeHead) -> None:
        now_s = self._clock.now_s()
        if now_s - self._head_entry_at.get(peer.origin, float("-inf")) >= HEAD_ENTRY_S:
            self._head_entry_at[peer.origin] = now_s
            self._write("peer.head", origin=peer.origin, size=head.size, root=head.root.hex())

    def conflict(self, peer: Peer, conflict: HeadConflict) -> None:
        why = line(conflict.why)
        self._write("peer.conflict", origin=peer.origin, name=peer.name, why=why, **conflict_body(conflict))

    def _write(self, kind: str, **body: Any) -> None:
        self._recorder.must([Draft(kind, body)])


def conflict_body(conflict: HeadConflict) -> dict[str, Any]:
    """Both heads of a conflict, with their signatures, for an entry."""
    kept, shown = conflict.kept_head, conflict.shown_head
    return {
        "kept_size": kept.size,
        "kept_root": kept.root.hex(),
        "shown_size": shown.size,
        "shown_root": shown.root.hex(),
        "kept": conflict.kept,
        "shown": conflict.shown,
    }


def line(text: str) -> str:
    """Foreign text, bounded, for an entry."""
    return cut_bytes(clean(text), WHY_BYTES)[0]
