"""Sockets that the node listens at: for its cells, and for the control API."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from kernel.errors import Invalid

MAX_SOCKET_PATH_BYTES = 107


class ListeningSocket(socket.socket):
    """Says once that it cannot accept, and the next time it is asked that nobody waits.

    When there is no descriptor asyncio pauses for a second, but asks on in the same turn of its loop, as often as its
    backlog is long, and with each refusal logs a line and sets another timer that begins it anew.
    """

    _failed = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self._failed:
            self._failed = False
            raise BlockingIOError
        try:
            return super().accept()
        except OSError as error:
            self._failed = not isinstance(error, BlockingIOError)
            raise


def listen(path: Path) -> socket.socket:
    """A listening Unix socket with mode 0600, in place of whatever lay at ``path``. Raises Invalid, OSError."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise Invalid(
            f"socket path {path} has {len(os.fsencode(path))} bytes, the limit is {MAX_SOCKET_PATH_BYTES}"
        )
    path.unlink(missing_ok=True)
    listener = ListeningSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
