"""The engine's side of the process that bears its cells (:mod:`kernel.cell.__main__`)."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.helper.offspring import OFFSPRING

MOST_BYTES = 64 * 2**10


class Bearing:
    """One such process, from :meth:`begin` on. ``on_said(said, pidfd)`` hears each packet, ``on_over`` that it has
    ended, and its cells with it. For the event loop.
    """

    def __init__(
        self, on_said: Callable[[dict[str, Any], int | None], None], on_over: Callable[[], None]
    ) -> None:
        self._on_said = on_said
        self._on_over = on_over
        self._control: socket.socket | None = None
        # Those that nobody has waited for; the last may live.
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def lives(self) -> bool:
        """Whether it can be asked for cells."""
        return self._control is not None

    def begin(self, env: Mapping[str, str], cwd: Path, output: int) -> None:
        """Start it, on the loop's own thread: a child that asks to die with its parent dies with the thread that
        started it. ``output`` takes what it prints. Raises OSError.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, OFFSPRING.birth() as born:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "kernel.cell"],
                    env=env,
                    cwd=cwd,
                    stdin=theirs.fileno(),
                    stdout=output,
                    stderr=output,
                )
                self._children = [one for one in self._children if one.poll() is None] + [child]
                born(child.pid)
            ours.setblocking(False)
            asyncio.get_running_loop().add_reader(ours, self.hear)
        except BaseException:
            ours.close()
            raise
        self._control = ours

    def say(self, said: Mapping[str, Any], *fds: int) -> None:
        """One packet. Raises OSError."""
        if self._control is None:
            raise OSError("what bears cells has ended")
        socket.send_fds(self._control, [json.dumps(said).encode()], [*fds])

    def hear(self) -> None:
        """All that it has said: that it has ended comes last, and before the ends of its cells, which come of that."""
        while self._control is not None:
            try:
                packet, fds, _, _ = socket.recv_fds(self._control, MOST_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if packet:
                self._on_said(json.loads(packet), fds[0] if fds else None)
            else:
                self._let_go()
                self.kill()  # it may have closed its socket alone
                self._on_over()

    def kill(self) -> None:
        """Have it end; that is heard."""
        for child in self._children:
            child.kill()

    def _let_go(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None

    async def end(self) -> None:
        """End it, and wait for that. Its cells end too."""
        self._let_go()
        children, self._children = self._children, []
        for child in children:
            child.kill()
            await in_thread(child.wait)


def kill(pidfd: int) -> bool:
    """SIGKILL, if it still runs. False when it has become another user's, and is left."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def has_ended(pidfd: int) -> None:
    """Wait until it has, and let go of the descriptor. Blocks."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    os.close(pidfd)
