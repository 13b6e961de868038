"""A session between two nodes: the Noise handshake, admission, then numbered encrypted messages.

Pure: frames in, events and frames out; the shell moves them, keeps the time and decides whom to admit. (The one
impurity is the ephemeral key, drawn by the Noise library.) The initiator's way and the responder's::

    initiator                                   responder
    start() -> frame 0            ------->      receive -> Send(frame 1, with its hello)
    receive -> Identified(peer)   <-------
      the shell decides: accept(token?) or refuse()
    frame 2 (its hello), "enter"  ------->      receive -> Identified(peer, join)
                                                  the shell decides: accept() or refuse(why)
    receive -> Opened             <-------      "welcome" (or "refused": PeerRefused)
    seal / receive                <------>      seal / receive

So the responder shows who it is first, the initiator only to whom it wants; nobody's message is heard before both
have said yes, and the join proof travels encrypted, over the finished handshake's hash. The table ``STEPS`` says
which step takes a frame in which state; everything else is a broken session.

Whatever is not exactly what the other side sent next (changed, lost, doubled, out of order, from another session)
raises :class:`SessionBroken` and delivers nothing; afterwards every call does. There is no repair: the shell opens
a new session and sends again, by message id. A test walks this with random faults.

Interface::

    Session(initiator: bool, me: Identity, budget: ReassemblyBudget | None = None, before: Before = NOTHING_BEFORE)
      .state       "new", "handshake", "deciding", "waiting", "open", "closed"
      .peer        PeerIdentity, from Identified on (None before)
      .handshake_hash   32 bytes, from Identified (responder) or accept (initiator) on
      .start() -> bytes                                initiator's first frame
      .receive(frame: bytes) -> list[Event]            raises SessionBroken (send .farewell, when it has one)
      .accept(token: JoinToken | None = None) -> list[bytes]     frames to send; token: initiator only
      .refuse(why: str) -> list[bytes]                 frames to send (the initiator's: none); closed afterwards
      .seal(message: bytes) -> list[bytes]             frames to send, all of them, in this order
      .seal_parts(message) -> Iterator[bytes]          the same one by one; short messages may be sealed between
      .close(why: str) -> list[bytes]                  frames to send; closed afterwards
      .abandon()                                       frees memory; after SessionBroken it has been done
    Event = Send(frame) | Identified(peer, join: JoinClaim | None) | Opened(peer) | Received(data) | Closed(why)
    RESET_FRAME                    answer to a frame for which there is no session
    begins_session(frame) -> bool  whether this is a frame 0 that a new responder session may be given

The frames' bytes are in ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mesh.bounds import MAX_HELLO_BYTES, ReassemblyBudget
from mesh.errors import HelloError, NoiseError, PeerRefused, SessionBroken, SessionMisuse
from mesh.identity.identity import NOTHING_BEFORE, Before, Identity, PeerIdentity, check_hello
from mesh.identity.tokens import JoinClaim, JoinToken
from mesh.links.frames import (
    END,
    HANDSHAKE,
    PART,
    PROTOCOL_VERSION,
    RESET,
    RESET_FRAME,
    SEALED,
    WHOLE,
    Reassembly,
    cut,
    pack_frame,
    unpack_frame,
)
from mesh.links.noise import KEY_BYTES, TAG_BYTES, NoiseXX
from mesh.links.words import claim_in, cut_text, read_word, why_in, write_word

__all__ = [
    "RESET_FRAME",
    "Closed",
    "Event",
    "Identified",
    "Opened",
    "Received",
    "Send",
    "Session",
    "begins_session",
]  # fmt: skip

PROLOGUE = b"weftos/mesh/%d\n" % PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Send:
    """Send this frame to the peer."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Identified:
    """The peer has proved who it is; answer with ``accept`` or ``refuse``. ``join`` is its claim to a token."""

    peer: PeerIdentity
    join: JoinClaim | None


@dataclass(frozen=True, slots=True)
class Opened:
    """Both sides have said yes."""

    peer: PeerIdentity


@dataclass(frozen=True, slots=True)
class Received:
    """A message of the peer, whole and in its order."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer closed the session. ``why`` is foreign text."""

    why: str


Event = Send | Identified | Opened | Received | Closed

# Which sort of frame each state takes, and the step that takes it. A state that is not here takes none.
STEPS: dict[tuple[bool, str], tuple[int, str]] = {
    (True, "handshake"): (HANDSHAKE, "_read_second"),
    (True, "waiting"): (SEALED, "_read_verdict"),
    (True, "open"): (SEALED, "_read_sealed"),
    (False, "new"): (HANDSHAKE, "_read_first"),
    (False, "handshake"): (HANDSHAKE, "_read_third"),
    (False, "waiting"): (SEALED, "_read_enter"),
    (False, "open"): (SEALED, "_read_sealed"),
}


def begins_session(frame: bytes) -> bool:
    """Whether ``frame`` is the first of a handshake, by its form alone."""
    try:
        kind, number, body = unpack_frame(frame)
    except SessionBroken:
        return False
    return (kind, number, len(body)) == (HANDSHAKE, 0, KEY_BYTES)


class Session:
    """One side of one session. See the module's text for the calls and their order."""

    def __init__(
        self,
        initiator: bool,
        me: Identity,
        budget: ReassemblyBudget | None = None,
        before: Before = NOTHING_BEFORE,
    ) -> None:
        self.initiator = initiator
        self.state = "new"
        self.peer: PeerIdentity | None = None
        self._me = me
        self._before = before
        self._noise = NoiseXX(initiator, me.noise, PROLOGUE)
        self._reassembly = Reassembly(budget or ReassemblyBudget())
        self._sent = self._received = 0
        self._mid_message = False
        self._steps: dict[str, tuple[int, Callable[[bytes], list[Event]]]] = {
            state: (kind, getattr(self, step))
            for (side, state), (kind, step) in STEPS.items()
            if side == initiator
        }

    @property
    def handshake_hash(self) -> bytes:
        """What both sides of this session share with no other."""
        return self._noise.handshake_hash

    def start(self) -> bytes:
        """The initiator's first frame."""
        if not self.initiator or self.state != "new":
            raise SessionMisuse(f"start() is the initiator's first call; this session is {self._described}")
        self.state = "handshake"
        return pack_frame(HANDSHAKE, 0, self._noise.write_message())

    def receive(self, frame: bytes) -> list[Event]:
        """Take one frame of the peer. Raises :class:`SessionBroken`, and then for every later frame too."""
        try:
            kind, number, body = unpack_frame(frame)
            if kind == RESET:
                raise SessionBroken("reset", "the peer has no session with this node")
            expected, step = self._steps.get(self.state, (0, None))
            if step is None or kind != expected:
                raise SessionBroken(
                    "frame.kind", f"frame of kind {kind} in a session that is {self._described}"
                )
            if kind == SEALED:
                if number != self._received:
                    raise SessionBroken("frame.number", f"frame {number} came, expected {self._received}")
                body = self._noise.decrypt(body)
                self._received = number + 1
            elif number != (self.initiator or 2 * (self.state == "handshake")):
                raise SessionBroken(
                    "frame.number", f"handshake frame {number} in a session {self._described}"
                )
            return step(body)
        except SessionBroken:
            self.abandon()
            raise
        except NoiseError as error:
            self.abandon()
            raise SessionBroken("noise", str(error)) from error

    def accept(self, token: JoinToken | None = None) -> list[bytes]:
        """Say yes to the peer that was identified; ``token`` proves the initiator's right to join."""
        self._must_decide()
        if not self.initiator:
            if token is not None:
                raise SessionMisuse("a token is the initiator's to show")
            self.state = "open"
            return [self._control({"op": "welcome"})]
        third = pack_frame(HANDSHAKE, 2, self._noise.write_message(self._me.hello))
        enter: dict[str, Any] = {"op": "enter"}
        if token is not None:
            claim = token.claim(self.handshake_hash, self._me.origin)
            enter |= {"issuer": claim.issuer, "id": claim.id, "proof": claim.proof}
        self.state = "waiting"
        return [third, self._control(enter)]

    def refuse(self, why: str) -> list[bytes]:
        """Say no. The initiator says it by silence: it has not shown who it is."""
        self._must_decide()
        frames = [] if self.initiator else [self._control({"op": "refused", "why": cut_text(why)})]
        self.abandon()
        return frames

    def seal(self, message: bytes) -> list[bytes]:
        """The frames of ``message``, to be sent in this order and none left out.

        Raises :class:`MessageTooLarge` (nothing is lost), :class:`SessionMisuse`.
        """
        return list(self.seal_parts(message))

    def seal_parts(self, message: bytes) -> Iterator[bytes]:
        """The frames of ``message`` one by one. Until the last is taken, only messages of one frame may be sealed;
        one that is left unfinished can only be followed by the session's end.
        """
        parts = cut(message)
        if self.state != "open":
            raise SessionMisuse(f"cannot send: the session is {self._described}")
        first = next(parts)
        if first[0] == WHOLE:
            return iter((self._seal(first),))
        if self._mid_message:
            raise SessionMisuse("cannot send: a message of many frames is being sent")
        self._mid_message = True
        return self._seal_rest(first, parts)

    def close(self, why: str) -> list[bytes]:
        """End an open session in order."""
        frames = [self._control({"op": "close", "why": cut_text(why)})] if self.state == "open" else []
        self.abandon()
        return frames

    def abandon(self) -> None:
        """End the session without a word, and free what it holds."""
        self.state = "closed"
        self._reassembly.drop()

    def _seal_rest(self, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
        yield self._seal(first)
        for part in rest:
            if self.state != "open":
                raise SessionMisuse(f"cannot go on sending: the session is {self._described}")
            if part[0] == END:
                self._mid_message = False
            yield self._seal(part)

    def _seal(self, plaintext: bytes) -> bytes:
        number = self._sent
        self._sent = number + 1
        return pack_frame(SEALED, number, self._noise.encrypt(plaintext))

    def _control(self, value: dict[str, Any]) -> bytes:
        return self._seal(write_word(value))

    def _must_decide(self) -> None:
        if self.state != "deciding":
            raise SessionMisuse(f"accept() and refuse() answer Identified; this session is {self._described}")

    def _read_first(self, body: bytes) -> list[Event]:
        if len(body) != KEY_BYTES:
            raise SessionBroken("handshake.size", f"first message of {len(body)} bytes, it has {KEY_BYTES}")
        self._noise.read_message(body)
        second = self._noise.write_message(self._me.hello)
        self.state = "handshake"
        return [Send(pack_frame(HANDSHAKE, 1, second))]

    def _read_second(self, body: bytes) -> list[Event]:
        _check_handshake_size(body, KEY_BYTES + KEY_BYTES + 2 * TAG_BYTES)
        self.peer = self._checked(self._noise.read_message(body))
        self.state = "deciding"
        return [Identified(self.peer, None)]

    def _read_third(self, body: bytes) -> list[Event]:
        _check_handshake_size(body, KEY_BYTES + 2 * TAG_BYTES)
        self.peer = self._checked(self._noise.read_message(body))
        self.state = "waiting"
        return []

    def _read_enter(self, plaintext: bytes) -> list[Event]:
        value = read_word(plaintext)
        if value.get("op") != "enter":
            raise SessionBroken("enter", "the initiator's first word is not enter")
        self.state = "deciding"
        assert self.peer is not None
        return [Identified(self.peer, claim_in(value))]

    def _read_verdict(self, plaintext: bytes) -> list[Event]:
        value = read_word(plaintext)
        if value.get("op") == "refused":
            raise PeerRefused(why_in(value))
        if value != {"op": "welcome"}:
            raise SessionBroken("verdict", "the responder's first word is neither welcome nor refused")
        self.state = "open"
        assert self.peer is not None
        return [Opened(self.peer)]

    def _read_sealed(self, plaintext: bytes) -> list[Event]:
        flag = plaintext[0] if plaintext else -1
        if flag == WHOLE:
            return [Received(plaintext[1:])]
        if flag in (PART, END):
            message = self._reassembly.add(flag, plaintext[1:])
            return [] if message is None else [Received(message)]
        value = read_word(plaintext)
        if value.get("op") != "close":
            raise SessionBroken("control", "an open session knows no control word but close")
        why = why_in(value)
        self.abandon()
        return [Closed(why)]

    def _checked(self, hello: bytes) -> PeerIdentity:
        farewell = None
        try:
            peer = check_hello(hello, self._noise.remote_static, self._before)
            if peer.origin == self._me.origin:
                raise HelloError("self", f"{peer.origin} is this node itself")
        except HelloError as error:
            if not self.initiator:
                farewell = self._control({"op": "refused", "why": f"hello: {error.rule}"})
            raise SessionBroken(f"hello.{error.rule}", str(error), farewell) from error
        return peer

    @property
    def _described(self) -> str:
        return f"{self.state} ({'initiator' if self.initiator else 'responder'})"


def _check_handshake_size(body: bytes, least: int) -> None:
    if not least < len(body) <= least + MAX_HELLO_BYTES:
        raise SessionBroken(
            "handshake.size",
            f"message of {len(body)} bytes, it has {least} and a hello of at most {MAX_HELLO_BYTES}",
        )
