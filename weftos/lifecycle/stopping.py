"""Stops a node from outside, and waits until all of it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kernel.errors import LockedError
from kernel.helper.os_session import end_old_session, lock, session_members
from weftos.client.client import Client
from weftos.errors import Impostor, WeftosError
from weftos.json_object import Json
from weftos.ownership import check_own_directory

_POLL_S = 0.05
STOP_TIMEOUT_S = 15.0


def holder(place: Path) -> int:
    """The process that runs on a data directory, 0 when none does. Raises WeftosError when it is not ours."""
    try:
        check_own_directory(place)
        lock(place, patience_s=0.0).close()
    except LockedError as error:
        return _told(error) if error.runs else 0
    except FileNotFoundError:
        return 0
    return 0


def _told(error: LockedError) -> int:
    if not error.pid:
        raise WeftosError(
            f"{error}; which process it is cannot be told, so none is asked to stop", "conflict"
        )
    return error.pid


def stop_node(place: Path) -> Json:
    """Stop the node on ``place`` and return when all of it is gone: {was_running, killed}. Safe in any thread.

    A node that takes longer than ``STOP_TIMEOUT_S`` is killed. Another command that has the directory is waited for as
    long, and left alone. Raises WeftosError, KernelError.
    """
    check_own_directory(place)
    try:
        held = lock(place, patience_s=STOP_TIMEOUT_S)
    except LockedError as error:
        if not error.runs:
            raise
        running = _told(error)
    else:
        try:
            return {"was_running": False, "killed": end_old_session(place)}
        finally:
            held.close()
    try:
        handle = os.pidfd_open(running)
    except ProcessLookupError:
        return stop_node(place)
    try:
        members = _session_of(running)
        _ask_to_stop(place, handle)
    finally:
        os.close(handle)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while members():
        if time.monotonic() >= deadline:
            killed = end_old_session(place)
            if left := members():
                raise WeftosError(
                    f"processes {left} of the node on {place} do not end: see what holds them", "timeout"
                )
            return {"was_running": True, "killed": killed}
        time.sleep(_POLL_S)
    return {"was_running": True, "killed": 0}


def _session_of(holder: int) -> Callable[[], list[int]]:
    """What asks which processes of the node's session live; of a node inside our own session only itself."""
    try:
        session = os.getsid(holder)
    except ProcessLookupError:
        return list
    if session == os.getsid(0):
        return lambda: [pid for pid in session_members(session) if pid == holder]
    return lambda: session_members(session)


def _ask_to_stop(place: Path, handle: int) -> None:
    """Ask by the control API; a node that does not listen (yet, or any more) is asked by signal, by its pidfd."""
    try:
        with Client(place) as node:
            node.shutdown()
    except WeftosError as error:
        if error.code not in ("not_running", "unavailable", "timeout") and not isinstance(error, Impostor):
            raise
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
