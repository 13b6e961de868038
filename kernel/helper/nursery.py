"""A process that bears helpers which nobody can look into, not even at their first moment.

A program that is started (execve(2)) can be opened by every process of its user until it closes itself
(``PR_SET_DUMPABLE``, prctl(2)), and who has opened its memory then can read it for ever. What is *forked* from a closed
process has a memory of its own, which is closed from birth: fork(2) copies the mark, and only execve sets it anew. So a
node that is closed, and has one thread and no secret yet, forks a nursery; and the nursery forks the helper each time
that there is to be one, without starting a program.

What the helper has to know, keys among it, the nursery is told once, before the node runs any foreign code. Nothing
secret goes to the helper itself, whose descriptors might be taken from it while it is being killed. Of a nursery that
was killed there cannot be another one: by then the node has secrets and threads.

What the two say to each other: the node first the told document, its length in 8 bytes before it, with the descriptor
for what is printed, and the nursery a byte once it has it all. Then, each time, the node a boot number in 8 bytes with
the descriptors of a link and of a pipe, and the nursery a pid, or a negative errno, in 4 bytes with a pidfd. On the
pipe it tells how the helper ended: the status of wait(2), in 4 bytes.

Some kernels give away the descriptors of a process that is just being killed. So the node believes an answer only when
it bears the nursery's own pid (``SO_PASSCRED``, unix(7)), and while that lives; and that a helper has ended it sees for
itself, since a nursery that was stopped tells nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import importlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from kernel.cell.lifeline import die_with_parent
from kernel.helper.helper import HelperOver
from kernel.helper.offspring import OFFSPRING
from kernel.helper.output_log import OUTPUT_LOGS

_PATIENCE_S = 60.0
_BURIAL_S = 5.0
_LENGTH = struct.Struct("!Q")
_BOOT = struct.Struct("!Q")
_BORN = struct.Struct("!i")
_STATUS = struct.Struct("!i")
_HEARD = b"h"
_CREDENTIALS = struct.Struct("@iII")  # struct ucred of unix(7): pid, uid, gid
_FD = struct.Struct("@i")
_ANSWER_SPACE = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_FD.size)
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_NAME = 15
_NAME_CHARS = 15


class Newborn:
    """A helper that a nursery has borne. It is another process's child: known by pidfd, and its end by a pipe."""

    def __init__(self, pid: int, pidfd: int, status_fd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._lock = threading.Lock()
        self._ended: Future[int | None] = Future()
        threading.Thread(target=self._watch, args=(status_fd,), name=f"end of {pid}", daemon=True).start()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if not self._ended.done():
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit status, -n when signal n has ended it, None when its nursery has ended too, or tells nothing.

        Raises TimeoutError.
        """
        return self._ended.result(timeout)

    def _watch(self, status_fd: int) -> None:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        poll.register(status_fd, select.POLLIN)
        if not (news := status_fd in dict(poll.poll())):
            poll.unregister(self._pidfd)
            news = bool(poll.poll(_BURIAL_S * 1000))
        told = os.read(status_fd, _STATUS.size) if news else b""
        os.close(status_fd)
        if not told:  # without its nursery it is not to live
            self.kill()
            _has_ended(self._pidfd, None)
        with self._lock:
            os.close(self._pidfd)
            self._ended.set_result(os.waitstatus_to_exitcode(*_STATUS.unpack(told)) if told else None)


class Nursery:
    """The node's side: how one kind of helper is started. For the event loop, but for :meth:`begin`, :meth:`tell`."""

    def __init__(self, name: str, control: socket.socket, pid: int) -> None:
        self.name = name
        self._control = control
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)

    @classmethod
    def begin(cls, name: str, module: str) -> Nursery:
        """Fork it; a helper will be ``module.main(told, link_fd, boot)``.

        To be called by a process that is closed to others, has one thread, and knows no secret yet. Raises OSError.
        """
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with OFFSPRING.birth() as born:
            pid = os.fork()
            if not pid:
                _live("weftos-nursery", _Mother(name, module, theirs.detach()).serve)
            born(pid)
        theirs.close()
        return cls(name, ours, pid)

    def tell(self, told: bytes, log: Path) -> None:
        """What each helper will know; ``log`` takes what they print. Once, before any foreign code runs.

        On return the nursery has it, and it is nowhere else. Raises HelperOver.
        """
        self._control.settimeout(_PATIENCE_S)
        with open(OUTPUT_LOGS.pipe_to(log), "wb") as output, self._fatal():
            socket.send_fds(self._control, [_LENGTH.pack(len(told))], [output.fileno()])
            self._control.sendall(told)
            if not self._control.recv(len(_HEARD)):
                raise ConnectionError("it has ended")
        self._control.setblocking(False)

    async def start(self, link_fd: int, boot: int) -> Newborn:
        """Bear a helper, one at a time. Raises OSError when there can be none now, HelperOver when never again."""
        ends, tells = os.pipe2(os.O_CLOEXEC)
        try:
            with self._fatal():
                socket.send_fds(self._control, [_BOOT.pack(boot)], [link_fd, tells])
                await asyncio.wait_for(self._heard(), _PATIENCE_S)
                pid, pidfd = self._answer()
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
            if pidfd is None:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except BaseException:
            os.close(ends)
            raise
        finally:
            os.close(tells)
        return Newborn(pid, pidfd, ends)

    async def _heard(self) -> None:
        """Until there is an answer, or the nursery has ended, which its socket alone does not show."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        for source in (self._control, self._pidfd):
            loop.add_reader(source, ready.set)
        try:
            await ready.wait()
        finally:
            for source in (self._control, self._pidfd):
                loop.remove_reader(source)

    def _answer(self) -> tuple[int, int | None]:
        """The pid or negative errno, and the pidfd. Raises ConnectionError when it is not the nursery's."""
        if _has_ended(self._pidfd, 0):
            raise ConnectionError("it has ended")
        answer, ancillary, _, _ = self._control.recvmsg(_BORN.size, _ANSWER_SPACE, socket.MSG_CMSG_CLOEXEC)
        parts = {kind: data for level, kind, data in ancillary if level == socket.SOL_SOCKET}
        fds = [fd for (fd,) in _FD.iter_unpack(parts.get(socket.SCM_RIGHTS, b""))]
        if not answer:
            raise ConnectionError("it has ended")
        if _CREDENTIALS.unpack(parts[socket.SCM_CREDENTIALS])[0] != self._pid:
            for fd in fds:
                os.close(fd)
            raise ConnectionError("another process has answered in its place")
        [pid] = _BORN.unpack(answer)
        return pid, fds[0] if fds else None

    @contextlib.contextmanager
    def _fatal(self) -> Iterator[None]:
        """A nursery that was asked and has not answered is of no use any more."""
        try:
            yield
        except OSError as error:
            self._control.close()
            why = f"no answer within {_PATIENCE_S:g} s" if isinstance(error, TimeoutError) else str(error)
            raise HelperOver(
                f"the process that alone can start the {self.name} is gone ({why}): "
                "restart the node (weftos down, weftos up)"
            ) from error
        except BaseException:
            self._control.close()
            raise


class _Mother:
    """The nursery's side. It has one thread."""

    def __init__(self, name: str, module: str, control_fd: int) -> None:
        self._name = name
        self._module = module
        self._fd = fcntl.fcntl(
            control_fd, fcntl.F_DUPFD_CLOEXEC, 3
        )  # below it are what programs read and print
        self._told = b""
        self._poll = select.poll()
        self._living: dict[int, tuple[int, int]] = {}

    def serve(self) -> int:
        """Until the node has no more to say."""
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        _close_all_but(self._fd)
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
        with contextlib.suppress(Exception):  # each helper tries again, and says in its log why it cannot
            importlib.import_module(self._module)
        control = socket.socket(fileno=self._fd)
        if not self._hear(control):
            return 0
        self._poll.register(control, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._fd:
                    self._reap(fd)
                elif not self._bear(control, handlers):
                    return 0

    def _hear(self, control: socket.socket) -> bool:
        length, fds, _, _ = socket.recv_fds(control, _LENGTH.size, 1)
        if not length:
            return False
        os.dup2(fds[0], 1)
        os.dup2(fds[0], 2)
        os.close(fds[0])
        [left] = _LENGTH.unpack(length)
        while left and (piece := control.recv(min(left, 2**16))):
            self._told += piece
            left -= len(piece)
        if not left:
            control.sendall(_HEARD)
        return not left

    def _bear(self, control: socket.socket, handlers: Mapping[signal.Signals, Any]) -> bool:
        number, fds, _, _ = socket.recv_fds(control, _BOOT.size, 2)
        if not number:
            return False
        link, tells = fds
        [boot] = _BOOT.unpack(number)

        def be() -> int:
            _close_all_but(link)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            status: int = importlib.import_module(self._module).main(self._told, link, boot)
            return status

        try:
            pid, pidfd = self._fork(be)
        except OSError as error:
            control.sendall(_BORN.pack(-(error.errno or errno.EAGAIN)))
            os.close(tells)
            return True
        finally:
            os.close(link)
        self._living[pidfd] = pid, tells
        self._poll.register(pidfd, select.POLLIN)
        socket.send_fds(control, [_BORN.pack(pid)], [pidfd])
        return True

    def _fork(self, body: Callable[[], int]) -> tuple[int, int]:
        """The child's pid and pidfd. Raises OSError; then there is no child."""
        pid = os.fork()
        if not pid:
            _live(f"weftos-{self._name}", body)
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def _reap(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        os.close(pidfd)
        pid, tells = self._living.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it
            os.write(tells, _STATUS.pack(status))
        os.close(tells)


def _has_ended(pidfd: int, wait_ms: int | None) -> bool:
    """Whether the process has, now or before the time is over; None: wait until it has."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(wait_ms))


def _live(name: str, body: Callable[[], int]) -> NoReturn:
    """The life of a forked process from its first moment on. It ends with its parent."""
    status = 1
    try:
        die_with_parent()
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name[:_NAME_CHARS].encode(), 0, 0, 0)
        status = body()
    except BaseException:  # there is nobody above who could hear of it
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _close_all_but(kept: int) -> None:
    """Of what it was forked with, but for what programs read and print."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != kept:
            with contextlib.suppress(OSError):  # that of the listing is closed already
                os.close(fd)
