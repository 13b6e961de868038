"""Who of the peers is there: their states, and the keys under which those that there is a link with are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesh.errors import HelloError, MeshError
from mesh.identity.allowed import Allowed
from mesh.identity.identity import Before, PeerIdentity, check_hello
from mesh.identity.known_keys import KnownKeys
from mesh.identity.peers import Peer
from mesh.membership.membership import Member, PeerEvent, advance


class Presence:
    """Of peers in ``allowed``. What a peer says counts under the keys that it has shown over this link; its older ones
    are refused from then on. ``refused(who, why)`` is told when that cannot be remembered.
    """

    def __init__(self, allowed: Allowed, directory: Path, refused: Callable[[str, str], None]) -> None:
        self._allowed = allowed
        self._refused = refused
        self._known = KnownKeys(directory)
        self._identities: dict[str, PeerIdentity] = {}
        self._members: dict[str, Member] = {}

    def member(self, origin: str) -> Member:
        """The state of a peer."""
        return self._members.get(origin) or Member(origin)

    def identity(self, origin: str) -> PeerIdentity | None:
        """Who is at the other end of the link with ``origin``; None without one."""
        return self._identities.get(origin)

    def peers(self) -> list[Peer]:
        """Those that there is a link with."""
        return [peer for peer in self._allowed if peer.origin in self._identities]

    def holds(self, peer: Peer) -> bool:
        """Whether there is a link with ``peer``, and it has these rights still."""
        return peer.origin in self._identities and self._allowed.get(peer.origin) == peer

    def recognise(self, identity: PeerIdentity) -> None:
        """Raises :class:`PeerKeysError` when these are not the keys of that peer, :class:`MeshFileError`."""
        self._known.check(identity)

    def dialled(self, origin: str, now_s: float) -> None:
        """This node calls it from now on."""
        self._advance(origin, PeerEvent.DIALLED, now_s)

    def opened(self, identity: PeerIdentity, now_s: float) -> None:
        """There is a new link with a peer."""
        self._meet(identity)
        self._advance(identity.origin, PeerEvent.OPENED, now_s, boot=identity.boot)

    def closed(self, origin: str, why: str, now_s: float) -> None:
        """It is gone."""
        self._identities.pop(origin, None)
        if self._allowed.get(origin) is not None:
            self._advance(origin, PeerEvent.CLOSED, now_s, why=why)

    def rekeyed(self, was: PeerIdentity, hello: object) -> None:
        """The peer at the other end of a link shows other keys. Raises :class:`HelloError`, or as :meth:`recognise`."""
        if not isinstance(hello, bytes):
            raise HelloError("form", "not bytes")
        shown = Before(lambda origin: was.chain if origin == was.origin else ())
        now = check_hello(hello, was.noise, shown)
        if (now.origin, now.boot) != (was.origin, was.boot):
            raise HelloError("origin", f"{was.origin} shows the hello of {now.origin}, boot {now.boot}")
        self._known.check(now)
        self._meet(now)

    def forget(self, origin: str) -> None:
        """The peer was removed."""
        self._members.pop(origin, None)
        self._identities.pop(origin, None)
        try:
            self._known.forget(origin)
        except OSError as error:
            self._refused(origin, f"its keys are still on the disk: {error}")

    def _meet(self, identity: PeerIdentity) -> None:
        self._identities[identity.origin] = identity
        try:
            self._known.take(identity)
        except MeshError as error:
            self._refused(identity.origin, str(error))

    def _advance(self, origin: str, event: PeerEvent, now_s: float, *, boot: str = "", why: str = "") -> None:
        self._members[origin] = advance(self.member(origin), event, now_s, boot=boot, why=why)
