"""``python -P -m kernel.cell``: bears the cells of the local engine.

An interpreter that has imported what a cell is made of takes a tenth of a second and twelve megabytes. So one process
imports it, and each cell is forked from it: that takes milliseconds, and they share what was imported. Nothing that is
not ours is ever imported here, no event loop runs here, and there is one thread.

Its standard input is a socket of packets (unix(7), SOCK_SEQPACKET), each a map in JSON. The engine says ``{dial, token,
boot}``, with the descriptor that takes what the cell prints, or ``{kill: pid}``. It hears, in the order in which it
asked, ``{born: pid}`` with a pidfd, or ``{failed: why}``; and ``{ended: pid, status}``, the status as wait(2) has it.
This process ends with the socket, and its cells end with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from kernel.cell.lifeline import die_with_parent
from kernel.cell.shell import run_cell

MOST_BYTES = 64 * 2**10


class Bearer:
    """``living``: by its pidfd, the pid of each cell."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._living: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Until the engine has gone."""
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._control.fileno():
                    self._reap(fd)
                elif not self._hear():
                    return

    def _hear(self) -> bool:
        packet, fds, _, _ = socket.recv_fds(self._control, MOST_BYTES, 1)
        if not packet:
            return False
        said = json.loads(packet)
        if "kill" in said:
            self._kill(said["kill"])
        else:
            self._bear(said, fds)
        return True

    def _bear(self, order: dict[str, Any], fds: list[int]) -> None:
        try:
            if not fds:
                raise OSError("no descriptor for what it prints")
            pid = os.fork()
            if not pid:
                self._live(order, fds[0])
            pidfd = self._hold(pid)
        except OSError as error:
            self._say({"failed": str(error)})
            return
        finally:
            for fd in fds:
                os.close(fd)
        socket.send_fds(self._control, [json.dumps({"born": pid}).encode()], [pidfd])

    def _hold(self, pid: int) -> int:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._living[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        return pidfd

    def _live(self, order: dict[str, Any], output: int) -> NoReturn:
        """The life of a cell, from its first moment on."""
        try:
            die_with_parent()
            self._control.close()
            for pidfd in self._living:
                os.close(pidfd)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            run_cell(order["dial"], order["token"], order["boot"])
        except BaseException:  # there is nobody above who could hear of it
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(1)

    def _kill(self, pid: int) -> None:
        for pidfd, living in self._living.items():
            if living == pid:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        os.close(pidfd)
        pid = self._living.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        used_ms = int((used.ru_utime + used.ru_stime) * 1000)
        self._say({"ended": pid, "status": status, "used_ms": used_ms})

    def _say(self, said: dict[str, Any]) -> None:
        self._control.send(json.dumps(said).encode())


def main() -> None:
    die_with_parent()
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    gc.collect()
    gc.freeze()  # what is there stays, and a cell that looked at it would have a copy of its own
    Bearer(control).serve()


main()
