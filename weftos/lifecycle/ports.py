"""TCP addresses that a node is to listen at: whether they are free, and whose process listens there."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_LISTENS = "0A"  # the state of /proc/net/tcp


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, with or without ``tcp://``."""
    host, _, port = listen.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)


def bind_fault(host: str, port: int) -> str:
    """Why nothing could listen there now; empty when something could. Raises OSError for a host that has no address."""
    family, kind, proto, _, place = socket.getaddrinfo(
        "" if host == "*" else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, proto) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
            probe.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return ""


def listens(os_pid: int, port: int) -> bool:
    """Whether the process listens at that port, at whichever address. A node shows its sockets to nobody but root: then
    whether some process of this user listens there.
    """
    try:
        mine = set(_sockets(os_pid))
    except PermissionError:
        return any(user == os.geteuid() for user, _ in _listening(port))
    return any(inode in mine for _, inode in _listening(port))


def _sockets(os_pid: int) -> Iterator[str]:
    """The inodes of its sockets; none of a process that is gone. Raises PermissionError."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(f"/proc/{os_pid}/fd"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                target = os.readlink(f"/proc/{os_pid}/fd/{name}")
                if target.startswith("socket:["):
                    yield target[8:-1]


def _listening(port: int) -> Iterator[tuple[int, str]]:
    """The user and the inode of each socket that listens at that port."""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            for row in table.read_text().splitlines()[1:]:
                columns = row.split()
                if columns[3] == _LISTENS and int(columns[1].rpartition(":")[2], 16) == port:
                    yield int(columns[7]), columns[9]
