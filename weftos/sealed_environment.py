"""How provider keys come to a node and stand in no environment: who could look there, cannot.

Every process of a user may read the environment of every other one, in ``/proc/PID/environ``, and what a process
removes from its own stays there to be read. So a node is started with those few variables that every program wants, and
is told the others, settings and keys, over a socket: only once it has asked the kernel to close its ``/proc`` files,
its memory and its descriptors to all but root (``PR_SET_DUMPABLE``). A node that somebody started by hand, with
everything in its environment, starts itself anew in the same process without.

The gateway, which is told the keys, is no program that is started: it is closed from its birth
(:mod:`kernel.helper.nursery`).

What cannot be closed: the environment of whoever exported the keys, a shell's and that of each program it starts; and
the moment between the start of ``weftos up``, or of the node, and its asking. Code of the same user that runs in that
moment may open the node's memory and keep it open; what the node itself starts begins later.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys
import threading
from collections.abc import Mapping
from typing import NoReturn

from weftos.errors import WeftosError

_FOR_PROGRAMS = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)
_FOR_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_FOR_PYTHON = (
    "PATH",
    "HASHSEED",
    "WARNINGS",
    "DONTWRITEBYTECODE",
    "UNBUFFERED",
    "FAULTHANDLER",
    "PYCACHEPREFIX",
)
OPEN_NAMES = frozenset((*_FOR_PROGRAMS, *_FOR_FILES, *(f"PYTHON{name}" for name in _FOR_PYTHON)))
"""What stays in a node's environment. None of these can hold a key."""
MAX_BYTES = 8 * 2**20  # execve(2) takes less
_PR_SET_DUMPABLE = 4
_CLOSED = b"closed"


def close_to_others() -> None:
    """Close this process's environment, memory and descriptors to other processes of its user. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this process cannot be closed to others: {os.strerror(number)}")


def open_part(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment anybody may read."""
    return {name: value for name, value in environment.items() if name in OPEN_NAMES}


def secrets_of(names: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """The keys in ``environment``, by the variables that are named for them; those that are not set are left out.

    Raises WeftosError for a variable that every process is given.
    """
    if taken := sorted(OPEN_NAMES.intersection(names)):
        raise WeftosError(
            f"api_key_env names {taken[0]}, which every process of the node is given: put the key in another variable",
            "invalid",
        )
    return {name: environment[name] for name in names if name in environment}


class Handover:
    """The starter's side: gives ``environment`` to a child that has closed itself.

    Hand ``fd`` on, name it in ``--environment-fd``, then :meth:`begin`, or :meth:`close` when there is no child.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._ours, self._theirs = socket.socketpair()

    @property
    def fd(self) -> int:
        return self._theirs.fileno()

    def begin(self) -> None:
        """The child is there. Does not wait for it; nothing is left when it ends without asking."""
        self._theirs.close()
        threading.Thread(target=self._give, name="environment", daemon=True).start()

    def close(self) -> None:
        self._theirs.close()
        self._ours.close()

    def _give(self) -> None:
        with self._ours as channel:
            try:
                if channel.recv(len(_CLOSED), socket.MSG_WAITALL) == _CLOSED:
                    channel.sendall(_encode(self._environment))
            except OSError:
                return  # the child has gone, and whoever waits for it hears of that


def seal(fd: int | None) -> int:
    """The child's side: close this process to others. Returns the descriptor that its environment comes on.

    Without one this process is begun anew, with one and without its environment: then this does not return. Raises
    OSError.
    """
    close_to_others()
    if fd is None:
        _begin_anew()
    return fd


def take_environment(fd: int) -> dict[str, str]:
    """What a child that is sealed was given. Raises WeftosError, OSError."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        with socket.socket(fileno=fd) as channel:
            channel.sendall(_CLOSED)
            return _decode(_read_all(channel.fileno()))
    try:
        return _decode(_read_all(fd))
    finally:
        os.close(fd)


def _begin_anew() -> NoReturn:
    fd = os.memfd_create("environment", 0)
    os.write(fd, _encode(os.environ))
    os.lseek(fd, 0, os.SEEK_SET)
    argv = [*sys.orig_argv, "--environment-fd", str(fd)]
    os.execve(sys.executable, argv, open_part(os.environ))


def _read_all(fd: int) -> bytes:
    pieces, size = [], 0
    while piece := os.read(fd, 2**16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise WeftosError(
                f"the environment that was handed over has more than {MAX_BYTES} bytes", "too_large"
            )
    return b"".join(pieces)


def _encode(environment: Mapping[str, str]) -> bytes:
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environment.items())


def _decode(data: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0") if item)
    return {name: value for name, _, value in pairs}
