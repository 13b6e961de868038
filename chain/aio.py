"""A disk whose sync can be waited for no longer than a given time: Linux's own asynchronous I/O (``io_submit``).

A thread that calls ``fdatasync`` is held by it for as long as the disk takes, and another thread costs two changes of
hands of the interpreter's lock. Here the kernel syncs in a thread of its own and the caller looks for a moment whether
it is done. Where there is no such interface (another processor, another kernel, a sandbox) the disk says so, and is an
ordinary one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import weakref
from functools import cache
from typing import NamedTuple

from chain.disk import Disk


class _Numbers(NamedTuple):
    """Of the system calls."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_X86_64, _GENERIC = _Numbers(206, 207, 209, 208), _Numbers(0, 1, 2, 4)
_NUMBERS = {"x86_64": _X86_64, "aarch64": _GENERIC, "riscv64": _GENERIC}
_FDSYNC = 3


class _Request(ctypes.Structure):
    """``struct iocb`` of a little-endian machine."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("flags", ctypes.c_int32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("handle", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("more_flags", ctypes.c_uint32),
        ("event_handle", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """``struct io_event``."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class _Time(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _Context:
    """One request at a time, and the kernel's answer to it. Raises OSError when the kernel has no such thing."""

    def __init__(self) -> None:
        numbers = _NUMBERS.get(platform.machine())
        if numbers is None:
            raise OSError(errno.ENOSYS, f"no asynchronous I/O is known for {platform.machine()}")
        self._numbers = numbers
        self._id = ctypes.c_ulong(0)
        if _libc().syscall(numbers.setup, 1, ctypes.byref(self._id)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        weakref.finalize(self, _libc().syscall, numbers.destroy, self._id)
        self._requests = (ctypes.POINTER(_Request) * 1)()
        self._events = (_Event * 1)()

    def submit(self, handle: int) -> bool:
        """Whether the kernel has begun to sync the file."""
        self._requests[0] = ctypes.pointer(_Request(operation=_FDSYNC, handle=handle))
        return bool(_libc().syscall(self._numbers.submit, self._id, 1, self._requests) == 1)

    def result(self, within_s: float | None) -> int | None:
        """Zero or a negative error number; None: not known within that time."""
        limit = None if within_s is None else ctypes.byref(_Time(0, int(within_s * 1e9)))
        got = _libc().syscall(self._numbers.getevents, self._id, 1, 1, self._events, limit)
        return int(self._events[0].result) if got == 1 else None


class AioDisk(Disk):
    """``sync_within`` works where the kernel has it. It is for one file at a time, and whoever was told False calls
    :meth:`sync` next: the result of a sync that was begun is told once, and must not be lost.
    """

    def __init__(self) -> None:
        self._begun = -1
        try:
            self._context: _Context | None = _Context()
        except OSError:
            self._context = None

    def sync_within(self, handle: int, within_s: float) -> bool:
        """See :meth:`Disk.sync_within`. ``within_s`` is below a second."""
        if self._context is None or self._begun >= 0:
            return False
        if not self._context.submit(handle):
            self._context = None
            return False
        self._begun = handle
        return self._ended(self._context, within_s)

    def sync(self, handle: int) -> None:
        """As ever; what :meth:`sync_within` has begun is waited for."""
        if self._begun != handle or self._context is None:
            super().sync(handle)
            return
        while not self._ended(self._context, None):
            pass  # a signal came in between

    def _ended(self, context: _Context, within_s: float | None) -> bool:
        result = context.result(within_s)
        if result is None:
            return False
        self._begun = -1
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return True
