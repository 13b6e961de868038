"""Everything mesh raises. One base, and a class for each case that a caller handles differently.

Ours to refuse (the caller's fault): :class:`MessageTooLarge`, :class:`SessionMisuse`, :class:`TokenError`,
:class:`PeersError`. Somebody else's bytes: :class:`NoiseError`, :class:`HelloError`, :class:`SessionBroken`
(:class:`PeerRefused` when it was the other side that refused), :class:`TokenRefused`. The environment's:
:class:`MeshFileError`.

Text of a peer stands in these messages only as ``repr`` and cut, so that it is shown and not obeyed.
"""

from __future__ import annotations


class MeshError(Exception):
    """Base of every error of this package."""


class MessageTooLarge(MeshError):
    """A message is over what a session carries. Nothing was sent, and the session is as good as before."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"message of {size_bytes} bytes, limit {limit_bytes}: split it, or send its hash")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class SessionMisuse(MeshError):
    """A call that the session's state does not allow. A defect of the caller; nothing was sent."""


class NoiseError(MeshError):
    """A handshake message or a ciphertext is not what the other side of this handshake would have sent."""


class HelloError(MeshError):
    """A peer's hello breaks a rule. ``rule`` names it in one word, the message says what was found."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"hello refused ({rule}): {what}")
        self.rule = rule


class PeerKeysError(MeshError):
    """A peer shows keys that are not those this node has seen of it, nor keys that follow on them."""


class SessionBroken(MeshError):
    """The session is over, and a new one is needed; nothing of the frame that broke it was delivered.

    ``rule`` names the broken rule (``frame.number``, ``noise``, ``hello.binding``, ...). ``farewell`` is a last
    frame to send to the peer so that it does not wait, or None.
    """

    def __init__(self, rule: str, what: str, farewell: bytes | None = None) -> None:
        super().__init__(f"session broken ({rule}): {what}")
        self.rule = rule
        self.farewell = farewell


class PeerRefused(SessionBroken):
    """The other side finished the handshake and then said no; ``why`` holds its words, which are foreign text."""

    def __init__(self, why: str) -> None:
        super().__init__("refused", f"the peer refused: {why!r:.220}")
        self.why = why


class TokenError(MeshError):
    """A join token's text is not one, or the token book cannot take another. The message says what to do."""


class TokenRefused(MeshError):
    """A join token does not admit. ``rule``: issuer, unknown, revoked, used, expired or proof."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"join token refused ({rule}): {what}")
        self.rule = rule


class PeersError(MeshError):
    """A peer cannot be added, found or configured like that; the message says why and what to do."""


class MeshFileError(MeshError):
    """A file of the mesh (``noise.key``, ``peers.json``, ``tokens.json``) is unreadable, damaged or too open."""


class TransportError(MeshError):
    """The address cannot be listened on or dialled, or the link to the peer is down or full."""


class LinkDown(TransportError):
    """There is no link to that peer now. Nothing was sent."""


class LinkFull(TransportError):
    """The link to that peer holds as many unsent bytes as it may. Nothing of this message was sent."""


class DeliveryError(MeshError):
    """A delivery op of a peer is malformed or breaks the protocol, or a number was used twice at the sender."""


class AdvertError(MeshError):
    """An advert is malformed, not signed by its origin, or of another boot than the link's."""


class PeerHeadError(MeshError):
    """A peer's tree head is not signed by it, is smaller than one it gave before, or contradicts that one."""


class MembershipError(MeshError):
    """An event that a peer's state does not know; a defect of ours."""
