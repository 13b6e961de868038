"""TCP connections that belong to ZeroMQ, watched and cut from outside it.

ZeroMQ's sockets do not end one connection of many, nor bound what a connection holds before a message is whole: a
message of endless parts is kept, unseen, until memory ends. Its monitor tells the descriptor of each connection,
though, and Linux tells how many bytes came in over it. A descriptor is a number that may be given to something
else at any time, so each use takes a duplicate and looks whether it is still the same socket, by its inode.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

STRANGER_BYTES = 32 * 1024
"""What may come in before it is known who speaks: a handshake has about 7 KB."""
PEER_BYTES = 48 * 2**20
"""What a known peer may have sent that was not yet taken: more than a full queue and a socket buffer hold."""

_BYTES_RECEIVED_AT = 128  # struct tcp_info of linux/tcp.h: tcpi_bytes_received, u64
_TCP_INFO_BYTES = 136
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, 0 seconds


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """One connection, as long as it lives. ``host``: where the other side is."""

    fd: int
    inode: int
    host: str

    @classmethod
    def of(cls, fd: int, port: int = 0) -> TcpConnection | None:
        """The connection behind ``fd``; None when it is already gone, and ``fd`` something else. One that was accepted
        is known by ``port``, this side's.
        """
        try:
            inode = os.fstat(fd).st_ino
            borrowed = socket.socket(fileno=fd)
        except OSError:
            return None
        try:
            if borrowed.type != socket.SOCK_STREAM or borrowed.family not in (
                socket.AF_INET,
                socket.AF_INET6,
            ):
                return None
            if port and borrowed.getsockname()[1] != port:
                return None
            return cls(fd, inode, str(borrowed.getpeername()[0]))
        except OSError:
            return None
        finally:
            borrowed.detach()

    def bytes_received(self) -> int:
        """Bytes that came in so far; 0 when the connection is gone."""
        with_duplicate = self._duplicate()
        if with_duplicate is None:
            return 0
        with with_duplicate as duplicate:
            try:
                info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            except OSError:
                return 0
        return int.from_bytes(info[_BYTES_RECEIVED_AT:_TCP_INFO_BYTES], "little")

    def cut(self) -> None:
        """End it in both directions; ZeroMQ then notices by itself, and its close is a reset.

        An orderly end would leave a sender that is in full flow waiting for room until it gives up.
        """
        duplicate = self._duplicate()
        if duplicate is None:
            return
        with duplicate:
            try:
                duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                duplicate.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _duplicate(self) -> socket.socket | None:
        try:
            fd = os.dup(self.fd)
        except OSError:
            return None
        try:
            same = os.fstat(fd).st_ino == self.inode
        except OSError:
            same = False
        if not same:
            os.close(fd)
            return None
        return socket.socket(fileno=fd)


@dataclass(eq=False, slots=True)
class Meter:
    """What came in over one connection, against what it may hold that nobody has seen."""

    tcp: TcpConnection | None
    began_s: float
    taken_bytes: int = 0
    frames: int = 0
    trusted: bool = False

    def take(self, frame_bytes: int) -> None:
        """A whole frame came out; its ZMTP header (RFC 23) is 2 bytes, or 9 for a frame above 255."""
        self.taken_bytes += frame_bytes + (2 if frame_bytes < 256 else 9)
        self.frames += 1

    def fault(self, now_s: float, timeout_s: float) -> str:
        """Why the connection must be cut; empty when it need not."""
        if not self.trusted and not self.frames and now_s - self.began_s >= timeout_s:
            return f"no frame within {timeout_s:g} s"
        if self.tcp is None:
            return ""
        received = self.tcp.bytes_received()
        if not self.trusted and received > STRANGER_BYTES:
            return f"{received} bytes before it was known, limit {STRANGER_BYTES}"
        if received - self.taken_bytes > PEER_BYTES:
            return f"{received - self.taken_bytes} bytes that are no whole messages, limit {PEER_BYTES}"
        return ""
