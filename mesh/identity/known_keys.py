"""Which key of each peer this node has seen last: so that a key the peer has given up is of no use to a thief.

The rules by which :class:`KnownKeys` recognises a peer (whose chain of keys ``identity.check_hello`` has verified):

1. It has changed its keys at least as often as it had when it was seen last.
2. The key it had then is in its chain, at that place. Another one there means that somebody else continued the chain.

Nothing is kept of a peer that has its first keys still: its origin names those.
"""

from __future__ import annotations

from pathlib import Path

from mesh.errors import MeshFileError, PeerKeysError
from mesh.files import read_private, write_private
from mesh.identity.identity import PeerIdentity

SUFFIX = ".key"


class KnownKeys:
    """``<directory>/<origin>.key``: how often the peer had changed its keys, and its Ed25519 key then, in hex."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, tuple[int, bytes]] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check(self, peer: PeerIdentity) -> None:
        """Raises :class:`PeerKeysError` when these are not the keys of the peer, :class:`MeshFileError`."""
        seen = self._of(peer.origin)
        if seen is None:
            return
        number, key = seen
        chain = (*peer.former, peer.ed25519.public_key)
        if len(chain) <= number:
            raise PeerKeysError(
                f"{peer.origin} shows its keys after {len(chain) - 1} changes, it was seen after {number}: "
                "somebody uses keys that it has given up, or its data was restored from a copy"
            )
        if chain[number] != key:
            raise PeerKeysError(
                f"{peer.origin} shows another key after change {number} than it had when it was seen: two nodes "
                "hold keys of that name"
            )

    def take(self, peer: PeerIdentity) -> None:
        """Remember the keys of ``peer``; on disk on return. Raises as :meth:`check`."""
        self.check(peer)
        newest = len(peer.former), peer.ed25519.public_key
        if newest[0] and newest != self._of(peer.origin):
            write_private(self._path(peer.origin), f"{newest[0]} {newest[1].hex()}\n".encode())
            self._seen[peer.origin] = newest

    def forget(self, origin: str) -> None:
        """The peer was removed."""
        self._seen.pop(origin, None)
        self._path(origin).unlink(missing_ok=True)

    def _of(self, origin: str) -> tuple[int, bytes] | None:
        if origin not in self._seen:
            path = self._path(origin)
            content = read_private(path)
            if content is None:
                return None
            try:
                number, key = content.decode().split()
                self._seen[origin] = int(number), bytes.fromhex(key)
            except ValueError as error:
                raise MeshFileError(f"{path} is damaged ({error}): restore it from a copy") from error
        return self._seen[origin]

    def _path(self, origin: str) -> Path:
        return self._directory / (origin + SUFFIX)
