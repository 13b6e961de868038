"""What somebody may put in the place of a small file, so that whoever reads it waits for ever or reads without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ENDLESS = pytest.mark.parametrize("kind", ["pipe", "device"])


def put_endless(path: Path, kind: str) -> None:
    """A FIFO that nobody writes, or a link to a device that has no end, in the place of what is there."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.symlink_to("/dev/zero")
