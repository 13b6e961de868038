"""ZMTP 3.0 (rfc.zeromq.org/spec/23) by hand: a DEALER that may send what no library would."""

from __future__ import annotations

import socket
import struct

from tests.patience import HANG_S

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4


class RawDealer:
    """A connection to a ROUTER, past the ZMTP handshake. ``route``: the routing id it asks for; ``tcp``: the socket
    that it connects.
    """

    def __init__(self, address: str, route: bytes = b"", tcp: socket.socket | None = None) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self.tcp = tcp or socket.socket()
        self.tcp.settimeout(HANG_S)
        self.tcp.connect((host, int(port)))
        self.tcp.sendall(GREETING)
        self._exactly(64)
        self.tcp.sendall(header(COMMAND, ready := _ready(route)) + ready)
        self.receive()

    def send(self, frame: bytes, flags: int = 0) -> None:
        self.tcp.sendall(header(flags, frame) + frame)

    def receive(self) -> bytes:
        """The next frame. Raises ``ConnectionError`` at the connection's end."""
        flags = self._exactly(1)[0]
        size = struct.unpack(">Q", self._exactly(8))[0] if flags & LONG else self._exactly(1)[0]
        return self._exactly(size)

    def end(self) -> None:
        """End it, and wait until the other side has seen to that."""
        self.tcp.shutdown(socket.SHUT_WR)
        self.is_cut()
        self.tcp.close()

    def is_cut(self) -> bool:
        """Wait for the end of the connection; what comes before is thrown away."""
        try:
            while self.tcp.recv(65_536):
                pass
        except ConnectionError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.tcp.recv(size - len(data))
            if not more:
                raise ConnectionError("the connection ended")
            data += more
        return data


def header(flags: int, frame: bytes) -> bytes:
    """The frame's header: long form above 255 bytes."""
    if len(frame) > 255:
        return bytes((flags | LONG,)) + struct.pack(">Q", len(frame))
    return bytes((flags, len(frame)))


def _ready(route: bytes) -> bytes:
    properties = [(b"Socket-Type", b"DEALER"), (b"Identity", route)]
    return b"\x05READY" + b"".join(
        bytes((len(name),)) + name + struct.pack(">I", len(value)) + value for name, value in properties
    )
