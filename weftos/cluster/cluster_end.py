"""Stops a cluster from outside, whatever of it still runs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernel.helper.os_session import end_old_session
from weftos.cluster.cluster import node_places
from weftos.json_object import Json
from weftos.lifecycle.stopping import holder, stop_node


def stop_cluster(place: Path, timeout_s: float) -> Json:
    """{was_running, nodes, killed}: whether a launcher ran, which nodes it had not stopped, what else was left.

    A launcher that takes longer than ``timeout_s`` is killed, with its session. Raises WeftosError, KernelError.
    """
    launcher = holder(place)
    if launcher:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(launcher)
            try:
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                poll = select.poll()
                poll.register(handle, select.POLLIN)
                if not poll.poll(timeout_s * 1000):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
    places = node_places(place)
    with ThreadPoolExecutor(max(1, len(places))) as pool:
        answers = list(pool.map(stop_node, places))
    left = [where.name for where, answer in zip(places, answers, strict=True) if answer["was_running"]]
    killed = end_old_session(place) if place.exists() else 0
    return {"was_running": bool(launcher), "nodes": left, "killed": killed}
