"""Another local user, as a test has one: a child process that has dropped to another uid. Needs root."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

STRANGER = 65534  # nobody

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_stranger(act: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
    """Run ``act`` in a child process of another user, ``before`` ahead of it as this one; the child's pid."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        before()
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        act()
        status = 0
    finally:
        os._exit(status)


def wait_for(child: int) -> None:
    """Until the child has ended, and well."""
    _, status = os.waitpid(child, 0)
    assert status == 0
