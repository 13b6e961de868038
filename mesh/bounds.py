"""What a peer can make grow, and how far. One typed place, units in the names."""

from __future__ import annotations

from dataclasses import dataclass

MAX_MESSAGE_BYTES = 16 * 2**20
"""The longest message of a session, before chunking."""

MAX_HELLO_BYTES = 16 * 2**10
"""The longest hello; a true one is about 2.9 KB, of which 2.7 are the ML-DSA-65 key, and 98 bytes for each change of
keys (``chain.keys.rotation.MAX_ROTATIONS``)."""

MAX_WHY_BYTES = 200
"""The longest reason one side gives the other for refusing or closing."""


@dataclass(frozen=True, slots=True)
class MeshBounds:
    """Limits of one node's mesh. The defaults suit a handful of peers."""

    handshake_timeout_s: float = 5.0
    """From the first frame to the verdict; after that a half-open session is dropped."""
    half_open_sessions: int = 256
    """Handshakes under way at once, over all links. With one more, the one that has taken longest is dropped."""
    half_open_per_address: int = 64
    """Of these, from one address."""
    peers: int = 256
    """Names in the allow list."""
    tokens: int = 1000
    """Join tokens kept, used and expired ones included."""
    token_lifetime_s: int = 7 * 24 * 3600
    """The longest a join token may live."""
    reassembly_bytes: int = 64 * 2**20
    """Unfinished messages of all sessions together."""
    heartbeat_s: float = 1.0
    """Between two signs of life on an idle link."""
    lost_after_s: float = 5.0
    """Silence after which a peer counts as lost."""
    links: int = 100
    """With one peer, one after the other, as fast as it likes; each is told to the kernel, and recorded there."""
    links_per_s: float = 1.0
    """With one peer in the long run."""
    key_changes: int = 400
    """Signatures that one address may have verified at once, in the hellos of nodes that were not met before."""
    key_changes_per_s: float = 20.0
    """The same, in the long run."""
    addresses: int = 1024
    """Of which that is counted; the one that came longest ago is forgotten."""


DEFAULT_BOUNDS = MeshBounds()


class ReassemblyBudget:
    """Bytes of unfinished messages that all sessions of a node may hold together.

    Each session may hold one unfinished message of ``MAX_MESSAGE_BYTES``; without this, as many peers as are
    allowed could each pin that much.
    """

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_BOUNDS.reassembly_bytes) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def take(self, count: int) -> bool:
        """Reserve ``count`` bytes; False, and nothing reserved, when that is over the limit."""
        if self.held_bytes + count > self.limit_bytes:
            return False
        self.held_bytes += count
        return True

    def give_back(self, count: int) -> None:
        """Free what was taken."""
        self.held_bytes -= count
