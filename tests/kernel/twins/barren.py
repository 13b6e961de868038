"""Imported by a nursery: from then on the operating system refuses it each process."""

from __future__ import annotations

import errno
import os


def _refuse() -> int:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = _refuse
