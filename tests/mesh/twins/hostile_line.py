"""Connections of the hostile peer: raw ZeroMQ and raw TCP, and what the listener did with each."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgpack
import zmq

from mesh.errors import NoiseError
from mesh.identity.identity import Identity
from mesh.identity.tokens import JoinToken
from mesh.links.frames import CONTROL, RESET_FRAME, SEALED, WHOLE, unpack_frame
from tests.mesh.twins.rogue import Rogue

MEANWHILE_S = 0.2


class GotIn(Exception):
    """An attempt had an effect it must not have; the message says which."""


class KeptOut(Exception):
    """Somebody who should have been let in was not; the message says why."""


@dataclass(frozen=True)
class Target:
    """Whom to attack. ``friend`` is a node in its allow list; ``tokens``: expired, used, revoked, open."""

    address: str
    origin: str
    friend: Identity | None = None
    tokens: dict[str, JoinToken] = field(default_factory=dict, repr=False)
    patience_s: float = 8.0
    """How long it may take to end a connection; more than its handshake timeout."""

    @property
    def reborn_friend(self) -> Identity:
        """The friend, booted anew, so that no earlier link of it stands in the way."""
        assert self.friend is not None
        return replace(self.friend, boot=secrets.token_hex(8))


class Talks(Protocol):
    """A connection that carries whole frames."""

    def send(self, *parts: bytes) -> None: ...

    def receive(self) -> bytes | None: ...


class Line:
    """One ZeroMQ connection of a DEALER that never reconnects."""

    def __init__(self, target: Target, routing_id: bytes = b"") -> None:
        self._patience_s = target.patience_s
        self._socket: zmq.Socket[Any] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.SNDTIMEO, 5000)  # to one that has ended, as most attempts do
        if routing_id:
            self._socket.setsockopt(zmq.ROUTING_ID, routing_id)
        self._monitor: zmq.Socket[Any] = self._socket.get_monitor_socket(
            zmq.Event.DISCONNECTED | zmq.Event.CLOSED
        )
        self._socket.connect(target.address)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def send(self, *parts: bytes) -> None:
        """One message; silently nothing when the connection has ended."""
        try:
            self._socket.send_multipart(parts)
        except zmq.Again:
            return

    def receive(self, meanwhile: Callable[[], None] = lambda: None) -> bytes | None:
        """The listener's next frame; None when the connection has ended. Raises :class:`TimeoutError`.

        ``meanwhile`` is called again and again while waiting.
        """
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        deadline = time.monotonic() + self._patience_s
        while (left_s := deadline - time.monotonic()) > 0:
            ready = dict(poller.poll(int(min(left_s, MEANWHILE_S) * 1000)))
            if self._socket in ready or self._socket.poll(0):
                return b"".join(self._socket.recv_multipart())
            if self._monitor in ready:
                return None
            meanwhile()
        raise TimeoutError

    def still_open(self) -> bool:
        """Whether two more signs of life come: more time than ending a connection takes."""
        while self._socket.poll(0):
            self._socket.recv_multipart()
        return all(self.receive() is not None for _ in range(2))

    def fate(self, rogue: Rogue | None = None, meanwhile: Callable[[], None] = lambda: None) -> str:
        """How the listener ended this connection. Raises :class:`GotIn` when it did not, or welcomed it."""
        deadline = time.monotonic() + self._patience_s
        told = ""
        while time.monotonic() < deadline:
            try:
                frame = self.receive(meanwhile)
            except TimeoutError:
                break
            if frame is None:
                return told or "cut off"
            if frame == RESET_FRAME:
                return told or "reset"
            told = told or _word(rogue, frame)
        raise GotIn(f"{told + ', and' if told else ''} still listens after {self._patience_s:g} s")


def _word(rogue: Rogue | None, frame: bytes) -> str:
    """What a frame of the listener says: why it refuses, or nothing that matters."""
    kind, _, _ = unpack_frame(frame)
    if rogue is None or kind != SEALED or not rogue.noise.finished:
        return ""
    try:
        plaintext = rogue.opened(frame)
    except NoiseError:
        return ""
    if plaintext[:1] == bytes([WHOLE]):
        if len(plaintext) > 1 and not rogue.let_in:
            raise GotIn("the listener sent a message")
        return ""
    word = msgpack.unpackb(plaintext[1:]) if plaintext[:1] == bytes([CONTROL]) else {}
    if word.get("op") == "welcome":
        raise GotIn("welcomed")
    return f"told: {word.get('why')}" if word.get("op") in ("refused", "close") else ""


def friend_in(target: Target, line: Talks) -> Rogue:
    """The way in, done right. Raises :class:`KeptOut`."""
    rogue = Rogue(target.reborn_friend)
    line.send(rogue.first())
    second = line.receive()
    if second is None:
        raise KeptOut("cut off at the first frame")
    line.send(rogue.third(second))
    line.send(rogue.control({"op": "enter"}))
    frame = line.receive()
    if frame is None or unpack_frame(frame)[0] != SEALED:
        raise KeptOut("cut off before the verdict")
    verdict = msgpack.unpackb(rogue.opened(frame)[1:])
    if verdict != {"op": "welcome"}:
        raise KeptOut(f"refused: {verdict.get('why')}")
    rogue.let_in = True
    return rogue


ZMTP_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_READY = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
ZMTP_OPENING = ZMTP_GREETING + bytes((4, len(_READY))) + _READY
"""What a DEALER says before its first message (ZMTP 3.0, RFC 23)."""


class Raw:
    """One TCP connection that speaks whatever it is told to; after :meth:`open`, ZeroMQ's protocol by hand."""

    def __init__(self, target: Target) -> None:
        host, _, port = target.address.removeprefix("tcp://").rpartition(":")
        self._patience_s = target.patience_s
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=target.patience_s)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def write(self, data: bytes) -> bool:
        """Whether the connection took it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def open(self) -> None:
        """Shake hands as a DEALER."""
        self.write(ZMTP_OPENING)
        self._file.read(len(ZMTP_GREETING))
        self.receive()

    def send(self, *parts: bytes) -> None:
        """One message."""
        for number, part in enumerate(parts):
            more = number < len(parts) - 1
            self.write(bytes((2 | more,)) + struct.pack(">Q", len(part)) + part)

    def receive(self) -> bytes | None:
        """The body of the listener's next ZeroMQ frame; None when the connection has ended."""
        flags = self._file.read(1)
        if not flags:
            return None
        size = self._file.read(8 if flags[0] & 2 else 1)
        return self._file.read(int.from_bytes(size, "big"))

    def fate(self) -> str:
        """How the listener ended it. Raises :class:`GotIn` when it did not."""
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                if not self._socket.recv(65_536):
                    return "cut off"
            except TimeoutError:
                break
            except OSError:
                return "cut off"
        raise GotIn(f"the connection is still open after {self._patience_s:g} s")
