"""Accepts the connections of cells: who dials in stays a stranger until it has shown a token that is expected.

A token is good once. A stranger may send one small frame, and has ``hello_s`` to do so, a handshake included;
only so many strangers there are at a time, each address has a share of that, and one that comes is never turned
away for those who came before (:mod:`mesh.links.strangers`). At the Unix socket it must be of the node's own user; over
TCP (:mod:`kernel.cells.cell_entrance`) the frame comes inside a Noise handshake, and nothing else is known of the
stranger.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any

from kernel.abi import ABI_VERSION
from kernel.cell.link.frames import UNHEEDED, FrameError, FrameLink, Hearing, Share
from kernel.cells.cell_table import CellLimits
from mesh.links.strangers import Strangers, neighbourhood
from mesh.rate import Bucket

log = logging.getLogger(__name__)
TOLD_AT_ONCE, TOLD_PER_S = 50, 1.0  # refusals that the log tells one by one; of the others it tells how many
_CREDENTIALS = struct.Struct("3i")


class CellConnection:
    """One connection from anywhere. ``os_pid`` is what the cell says, on its own machine, and only for show."""

    def __init__(self, link: FrameLink) -> None:
        self.link = link
        self.os_pid = 0

    def identify(self) -> str:
        """Where it dialled from. Raises :class:`FrameError` when it may not be here."""
        assert self.link.transport is not None
        peer = self.link.transport.get_extra_info("peername")
        return neighbourhood(peer[0]) if isinstance(peer, tuple) else ""

    def take(self, os_pid: int) -> None:
        """Its hello was good. Raises :class:`FrameError` when ``os_pid`` is not true."""
        self.os_pid = os_pid

    def hear_out(self) -> None:
        """The cell has ended: what it still sent is heard, and nobody else who holds its link, such as a process that
        it forked. The link ends with that.
        """
        if self.link.transport is not None:
            with contextlib.suppress(OSError):
                self.link.transport.get_extra_info("socket").shutdown(socket.SHUT_RD)

    def signal(self, number: int) -> bool:
        """Send the cell's process a signal; whether there was a way to."""
        return False

    def kill(self) -> None:
        """Close the link. A cell ends when its link does, and at the latest with its lease."""
        self.link.abort(FrameError("killed by the node"))


class LocalCellConnection(CellConnection):
    """One connection at the Unix socket. ``os_pid`` comes from the operating system, not from the cell."""

    def __init__(self, link: FrameLink) -> None:
        super().__init__(link)
        self._handle = -1

    def identify(self) -> str:
        """Read the peer's credentials; its process is its address. Raises :class:`FrameError` when it is of another
        user, or gone.
        """
        assert self.link.transport is not None
        peer: socket.socket = self.link.transport.get_extra_info("socket")
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        os_pid, uid, _ = _CREDENTIALS.unpack(credentials)
        if uid != os.getuid():
            raise FrameError(f"a process of user {uid} dialled, this node is of user {os.getuid()}")
        self.os_pid = os_pid
        return f"process {os_pid}"

    def take(self, os_pid: int) -> None:
        """Hold on to the peer's process, so that it can be killed and no other."""
        if os_pid != self.os_pid:
            raise FrameError(f"it says it is process {os_pid}, the operating system says {self.os_pid}")
        try:
            self._handle = os.pidfd_open(self.os_pid)
        except OSError as error:
            raise FrameError(f"process {self.os_pid} dialled and is gone: {error}") from error

    def signal(self, number: int) -> bool:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter: as in kill
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, number)
                return True
        return False

    def kill(self) -> None:
        """Close the link and end the peer's process."""
        super().kill()
        if self._handle >= 0:
            try:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # the latter: it has become another user's
                pass
            finally:
                os.close(self._handle)
                self._handle = -1


class _Newcomer:
    """A connection that has not shown a token yet."""

    def __init__(
        self,
        acceptor: Acceptor,
        make: Callable[[FrameLink], CellConnection],
        boot: int,
        max_frame_bytes: int,
        share: Share,
        hearing: Hearing,
    ) -> None:
        self.link = FrameLink(
            boot,
            self._heard,
            self._closed,
            self._opened,
            max_frame_bytes,
            share=share,
            hearing=hearing,
        )
        self._connection = make(self.link)
        self._acceptor = acceptor

    def _opened(self, link: FrameLink) -> None:
        self._acceptor.opened(self._connection)

    def _heard(self, frame: Any) -> None:
        self._acceptor.greeted(self._connection, frame)

    def _closed(self, error: Exception | None) -> None:
        self._acceptor.left(self.link, error)


class Acceptor:
    """``admit(cell, connection)`` is called for each connection that showed the cell's token. ``hearing`` is of their
    links.
    """

    def __init__(
        self,
        boot: int,
        limits: CellLimits,
        admit: Callable[[str, CellConnection], None],
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self._boot = boot
        self._limits = limits
        self._admit = admit
        self._share = Share()
        self._hearing = hearing
        self._tokens: dict[str, str] = {}
        self._unproven: Strangers[FrameLink] = Strangers(limits.visitors, limits.visitors_per_address)
        self._told = Bucket(TOLD_AT_ONCE, TOLD_PER_S)
        self._untold = 0

    def expect(self, token: str, cell: str) -> None:
        self._tokens[token] = cell

    def forget(self, token: str) -> None:
        self._tokens.pop(token, None)

    def close(self) -> None:
        for link in self._unproven:
            link.abort(FrameError("the node closes"))

    def connection(self, make: Callable[[FrameLink], CellConnection] = LocalCellConnection) -> FrameLink:
        """The protocol of a new connection; ``make(protocol)`` is the connection."""
        limit_bytes = self._limits.hello_frame_bytes
        return _Newcomer(self, make, self._boot, limit_bytes, self._share, self._hearing).link

    def opened(self, connection: CellConnection) -> None:
        """Somebody has dialled."""
        link = connection.link
        try:
            address = connection.identify()
        except FrameError as error:
            link.abort(error)
            return
        if (pushed := self._unproven.enter(link, address)) is not None:
            limits = self._limits
            pushed.abort(
                FrameError(
                    f"it had no hello yet when another one came; there is room for {limits.visitors}, "
                    f"{limits.visitors_per_address} of one address"
                )
            )
        asyncio.get_running_loop().call_later(self._limits.hello_s, self._check_greeted, link)

    def _check_greeted(self, link: FrameLink) -> None:
        if link in self._unproven:
            link.abort(FrameError(f"no hello within {self._limits.hello_s:g} s"))

    def greeted(self, connection: CellConnection, frame: Any) -> None:
        """Its first frame. Raises :class:`FrameError` when it is no good hello."""
        match frame:
            case ["hello", str() as token, int() as os_pid, int() as abi]:
                pass
            case _:
                raise FrameError("the first frame is not a hello")
        cell = self._tokens.get(token)
        if cell is None:
            raise FrameError("its token is not expected: stale, used before, or made up")
        if abi != ABI_VERSION:
            raise FrameError(
                f"it speaks ABI {abi}, this node {ABI_VERSION}; start both from one installation"
            )
        connection.take(os_pid)
        del self._tokens[token]
        self._unproven.leave(connection.link)
        self._admit(cell, connection)

    def left(self, link: FrameLink, error: Exception | None) -> None:
        """It has gone without one."""
        self._unproven.leave(link)
        if not self._told.take(asyncio.get_running_loop().time()):
            self._untold += 1
            return
        why, more, self._untold = error or "it left without a hello", self._untold, 0
        log.warning(
            "a visitor at the door for cells was refused: %s%s", why, f"; and {more} more" * bool(more)
        )
