"""Starts a node as the leader of a session of its own, hears from it until it is ready, and waits for it.

The node writes JSON lines to an inherited pipe: ``{"step": text}`` while it boots, then ``{"ready": true, ...}`` or
``{"error": text, "code": code}``. The parent stays thin: it forwards SIGINT and SIGTERM as SIGTERM and mirrors the
exit code. It polls descriptors only (the pipe, a pidfd, the signal wake-up), so nothing it waits for can be missed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from weftos.errors import WeftosError
from weftos.sealed_environment import Handover, open_part

BOOT_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0
_LINE_BYTES = 64 * 1024
_TAIL_BYTES = 4000
_PR_SET_PDEATHSIG = 1


def node_command(data: Path, flags: Mapping[str, str | None], apps: Sequence[Path] = ()) -> list[str]:
    """How a node on ``data`` is started; ``flags`` that are None are left out. ``apps``: whose code it is to know."""
    given = [word for flag, value in flags.items() if value for word in (flag, value)]
    given += [word for app in apps for word in ("--app", str(app.absolute()))]
    return [sys.executable, "-P", "-m", "weftos.node", "--data", str(data), *given]


def _end_with(starter: int) -> None:
    """Have this process asked to stop when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != starter:
        os._exit(1)


class NodeProcess:
    """A started node, or ``what`` else speaks like one: ``command`` with ``--ready-fd N --environment-fd M`` behind it.

    Its environment holds no settings and no keys: it is told them (:mod:`weftos.sealed_environment`).

    ``ends_with_us``: it is asked to stop when this process ends, however that does. Call it from the main thread then.

    Use as a context manager: it holds descriptors and, in the main thread, signal handlers."""

    def __init__(
        self,
        data: Path,
        command: Sequence[str],
        stop_timeout_s: float = STOP_TIMEOUT_S,
        what: str = "node",
        ends_with_us: bool = False,
    ) -> None:
        self._data = data
        self._what = what
        self._log = data / "logs" / f"{what}.out"
        self._stack = contextlib.ExitStack()
        self._stop_timeout_s = stop_timeout_s
        self._stop_by: float | None = None
        self._signalled = self._started = False
        self._wake = self._forward_signals()
        ready, theirs = os.pipe()
        self._ready = ready
        self._stack.callback(os.close, ready)
        self._log.parent.mkdir(mode=0o700, exist_ok=True)
        handover = Handover(os.environ)
        with open(self._log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
            self._log_start = log.tell()
            try:
                self.process = subprocess.Popen(
                    [*command, "--ready-fd", str(theirs), "--environment-fd", str(handover.fd)],
                    cwd=data,
                    env=open_part(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs, handover.fd),
                    start_new_session=True,
                    preexec_fn=partial(_end_with, os.getpid()) if ends_with_us else None,
                )
            except OSError:
                handover.close()
                raise
            finally:
                os.close(theirs)
        handover.begin()
        self._pidfd = os.pidfd_open(self.process.pid)
        self._stack.callback(os.close, self._pidfd)
        self._started = True
        if self._signalled:  # while it was being started
            self.stop()

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def interrupted(self) -> bool:
        """Whether a signal has asked the node to stop."""
        return self._signalled

    def until_ready(self, on_step: Callable[[str], None]) -> dict[str, Any]:
        """Report the boot's steps; the node's ready document. Raises WeftosError when it does not get there."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        for document in self._documents(deadline):
            if "error" in document:
                self._stop_by = time.monotonic() + self._stop_timeout_s
                self.wait()
                raise WeftosError(str(document["error"]), str(document.get("code", "error")))
            if document.get("ready"):
                return document
            if "step" in document:
                on_step(str(document["step"]))
        if time.monotonic() >= deadline:
            self.stop()
            self.wait()
            raise WeftosError(
                f"the {self._what} was not ready after {BOOT_TIMEOUT_S:.0f} s and was stopped; {self._last_words()}"
            )
        status = self.wait()
        if self.interrupted:
            raise WeftosError(f"stopped before the {self._what} was ready", "refused")
        raise WeftosError(
            f"the {self._what} ended with status {status} before it was ready; {self._last_words()}"
        )

    def stop(self) -> None:
        """Ask the node to stop; :meth:`wait` kills its session when it takes too long."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + self._stop_timeout_s
        self.process.terminate()

    def wait(self) -> int:
        """Wait for the node to end. Its exit status, 128 + n when signal n ended it."""
        while not self._wait_for(self._pidfd, self._stop_by):
            if self._stop_by is not None and time.monotonic() >= self._stop_by:
                from kernel.helper.os_session import end_old_session

                end_old_session(self._data)
                self.process.kill()
                self._stop_by = None
        status = self.process.wait()
        return status if status >= 0 else 128 - status

    def _documents(self, deadline: float) -> Iterator[dict[str, Any]]:
        """What the node says on its pipe, until it closes it, ends, or the deadline (or that of a stop) is over."""
        held = b""
        while time.monotonic() < (self._stop_by or deadline):
            if not self._wait_for(self._ready, min(deadline, self._stop_by or deadline)):
                continue
            piece = os.read(self._ready, _LINE_BYTES)
            if not piece:
                return
            *lines, held = (held + piece).split(b"\n")
            if len(held) > _LINE_BYTES:
                raise WeftosError(
                    f"the {self._what} sent a line of more than {_LINE_BYTES} bytes while booting", "internal"
                )
            for line in lines:
                document = json.loads(line)
                if isinstance(document, dict):
                    yield document

    def _wait_for(self, fd: int, deadline: float | None) -> bool:
        """Wait until ``fd`` is readable (True), a signal came or the deadline is over (False)."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        left_ms = None if deadline is None else max(0, (deadline - time.monotonic()) * 1000)
        found = dict(poll.poll(left_ms))
        if self._wake in found:
            os.read(self._wake, 64)
        return fd in found

    def _forward_signals(self) -> int:
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def forward(number: int, frame: FrameType | None) -> None:
            self._signalled = True
            if self._started:
                self.stop()

        before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
        woken_before = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._stack.callback(os.close, wake)
        self._stack.callback(os.close, woken)
        self._stack.callback(signal.set_wakeup_fd, woken_before)
        for number, handler in before.items():
            self._stack.callback(signal.signal, number, handler)
        return wake

    def _last_words(self) -> str:
        """The end of what this run wrote to its log, for an error."""
        with open(self._log, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            tail = log.read().decode(errors="replace").strip()
        return f"{self._log} says:\n{tail}" if tail else f"look at the files in {self._log.parent}"
