"""A helper process of the node (placer, gateway, archive, a worker) and the link to it.

The child is started from an argv with one end of a socket pair as an inherited descriptor, ``--link-fd N
--boot B`` appended to its argv, an allow-listed environment, its stdout and stderr in a bounded log file, and dies
with the node (``PR_SET_PDEATHSIG``, asked for by the child itself with :func:`die_with_parent`). One that nobody may
look into is not started but borne (:mod:`kernel.helper.nursery`). Requests are
``[id, op, args]`` and are answered by ``[id, "ok"|"error", value]``; a frame with id 0 is a notice and has no
answer. ``args`` is a dict.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chain.in_thread import in_thread
from kernel.cell.lifeline import die_with_parent as die_with_parent
from kernel.cell.link.frames import FOREIGN, OWN, UNHEEDED, FrameError, FrameLink, Hearing, LinkBounds
from kernel.helper.offspring import OFFSPRING
from kernel.helper.output_log import OUTPUT_LOGS

NOTICE = 0
MAX_ERROR_CHARS = 4000
REAP_AGAIN_S = 0.2
UNSENDABLE = (
    FrameError,
    TypeError,
    ValueError,
    OverflowError,
)  # what a link raises for a value that no frame carries


class HelperLost(Exception):
    """The helper died, or was never there; whatever it had been asked may or may not have happened."""


class HelperAway(HelperLost):
    """There was none to ask: nothing of it has happened."""


class HelperOver(HelperAway):
    """And there will be no other one before the node is restarted."""


class HelperRefused(Exception):
    """The helper answered with an error."""


Answered = Callable[[Any, Exception | None], None]
"""Takes an answer, or why there is none."""


class HelperProcess(Protocol):
    """A child as a helper sees it. For any thread."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """SIGKILL, if it still runs. Raises PermissionError when it has become another user's."""

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit status, None when that cannot be known. Raises TimeoutExpired or TimeoutError."""


class Startable(Protocol):
    """How a helper is started."""

    @property
    def name(self) -> str: ...

    async def start(self, link_fd: int, boot: int) -> HelperProcess:
        """``link_fd`` stays the caller's. Raises OSError, or HelperOver when it can never be started again."""


@dataclass(frozen=True, slots=True)
class HelperCommand:
    """How to start a helper. ``env`` is the child's whole environment. ``log`` takes its stdout and stderr."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path

    async def start(self, link_fd: int, boot: int) -> subprocess.Popen[bytes]:
        with open(OUTPUT_LOGS.pipe_to(self.log), "wb") as log, OFFSPRING.birth() as born:
            process = subprocess.Popen(
                [*self.argv, "--link-fd", str(link_fd), "--boot", str(boot)],
                env=dict(self.env),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(link_fd,),
            )
            born(process.pid)
        return process


class Helper:
    """One running helper. Not restartable: a new incarnation is a new object.

    ``on_notice(op, args)`` is called for each notice, ``on_death(exit status or None)`` exactly once, after
    every pending request has been failed with :class:`HelperLost`. ``bounds`` and ``hearing`` are
    those of its link: ``OWN`` only for a helper that runs no foreign code.
    """

    def __init__(
        self,
        command: Startable,
        boot: int,
        on_notice: Callable[[str, dict[str, Any]], None],
        on_death: Callable[[int | None], None],
        bounds: LinkBounds = FOREIGN,
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self.command = command
        self._boot = boot
        self._on_notice = on_notice
        self._on_death = on_death
        self._bounds = bounds
        self._hearing = hearing
        self._waiting: dict[int, Answered] = {}
        self._next = 1
        self._link: FrameLink | None = None
        self._process: HelperProcess | None = None
        self._pidfd = -1
        self._stopping = False
        self._over = asyncio.Event()

    async def start(self) -> None:
        """Start the child and connect. Raises OSError when it cannot be started, HelperOver when it never can be."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._process = await self.command.start(theirs.fileno(), self._boot)
            self._hear_of_its_end(ours)
        except BaseException:
            ours.close()
            await self._abandon()
            raise
        finally:
            theirs.close()
        await asyncio.get_running_loop().create_connection(self._make_link, sock=ours)

    async def _abandon(self) -> None:
        """End a child of which nobody would hear; it counts as never started."""
        self._forget_end()
        if self._process is not None and self.kill():
            await in_thread(self._reap)
            self._process = None

    def _hear_of_its_end(self, ours: socket.socket) -> None:
        """With the child ends the link, after what it still sent: another process may hold its end of it, one that it
        forked, or one that took it, and is not to speak for it.
        """
        assert self._process is not None

        def ended() -> None:
            self._forget_end()
            ours.shutdown(socket.SHUT_RD)

        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except ProcessLookupError:
            ended()
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, ended)

    def _forget_end(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _make_link(self) -> FrameLink:
        bounds, hearing = self._bounds, self._hearing
        self._link = FrameLink(self._boot, self._received, self._closed, bounds=bounds, hearing=hearing)
        return self._link

    @property
    def os_pid(self) -> int:
        """The child's operating system process id, 0 before start and when it is left."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        return self._link is not None and not self._link.closed

    def call(self, op: str, args: dict[str, Any], answered: Answered) -> int:
        """Ask; ``answered`` is called once, with the answer or with HelperLost or HelperRefused, in the very iteration
        of the loop that hears of it; before this returns when it cannot be asked at all. What to :meth:`forget` it by.
        """
        if self._link is None or self._link.closed:
            answered(None, HelperAway(f"{self.command.name} is not running"))
            return NOTICE
        ident = self._next
        self._next += 1
        self._waiting[ident] = answered
        try:
            self._link.send([ident, op, args])
        except UNSENDABLE as error:
            self.forget(ident)
            answered(None, HelperRefused(f"the request cannot be sent: {error}"))
        return ident

    def forget(self, ident: int) -> None:
        """Nobody wants that answer any more."""
        self._waiting.pop(ident, None)

    def request(self, op: str, args: dict[str, Any]) -> asyncio.Future[Any]:
        """Ask; the future fails with :class:`HelperLost` or :class:`HelperRefused`. Cancelling it forgets the
        answer.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(value: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        ident = self.call(op, args, answered)
        future.add_done_callback(lambda _: self.forget(ident))
        return future

    def notify(self, op: str, args: dict[str, Any]) -> None:
        """Tell, without an answer. Dropped when the helper is gone."""
        if self._link is not None:
            self._link.send([NOTICE, op, args])

    def _received(self, frame: Any) -> None:
        match frame:
            case [int() as ident, str() as what, value]:
                pass
            case _:
                raise FrameError(f"{self.command.name} sent a frame that is not [id, op, value]")
        if ident == NOTICE:
            self._on_notice(what, value)
            return
        answered = self._waiting.pop(ident, None)
        if answered is not None:
            self._answer(answered, value, None if what == "ok" else HelperRefused(str(value)))

    def _answer(self, answered: Answered, value: Any, error: Exception | None) -> None:
        """A fault of whoever asked is not the link's, and not of the others who wait."""
        try:
            answered(value, error)
        except Exception as fault:
            context = {"message": f"an answer of {self.command.name} was not taken", "exception": fault}
            asyncio.get_running_loop().call_exception_handler(context)

    def _closed(self, error: Exception | None) -> None:
        self._forget_end()
        if not self._stopping:
            self.kill()
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            why = f"{self.command.name} died" + (f": {error}" if error else "")
            self._answer(answered, None, HelperLost(why))
        self._await_death()

    def _await_death(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            death = loop.run_in_executor(None, self._reap)
        except RuntimeError:  # no thread to wait in: who hears of the death starts the next one
            loop.call_later(REAP_AGAIN_S, self._await_death)
        else:
            death.add_done_callback(lambda done: self._died(done.result()))

    def _reap(self) -> int | None:
        while (process := self._process) is not None:
            with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):
                return process.wait(REAP_AGAIN_S)
        return None

    def _died(self, status: int | None) -> None:
        try:
            self._on_death(status)
        finally:
            self._over.set()

    def kill(self) -> bool:
        """SIGKILL the child, if it still runs. False when it may not be signalled, having become another user's: it is
        left, and counts as dead.
        """
        try:
            if self._process is not None:
                self._process.kill()
        except PermissionError as error:
            self._process = None
            if self._link is not None:
                self._link.abort(error)
            return False
        return True

    async def end(self, hard: bool) -> None:
        """End the child: at once, or in order, as :meth:`stop` does."""
        if hard:
            self.kill()
        else:
            await self.stop()

    async def stop(self, timeout_s: float = 3.0) -> None:
        """Close the link (a helper exits at end of file), wait for its exit, then kill. Its death is told by then."""
        self._stopping = True
        if self._link is None:
            self.kill()
            await in_thread(self._reap)
            return
        self._link.close()
        try:
            await asyncio.wait_for(self._over.wait(), timeout_s)
        except TimeoutError as error:
            self.kill()
            self._link.abort(error)  # what it forked may hold the other end, and read nothing
            await self._over.wait()


def _words(error: Exception) -> str:
    """What foreign code raised, as text that a frame carries whatever its own methods do."""
    try:
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
    except Exception as nested:  # foreign __str__: the caller must be answered all the same
        text = f"{type(error).__name__}, whose text raised {type(nested).__name__}"
    return text.encode("utf-8", "replace").decode()


async def serve_link(
    fd: int,
    boot: int,
    handle: Callable[[str, dict[str, Any]], Awaitable[Any]],
    on_open: Callable[[Callable[[str, dict[str, Any]], None]], None] | None = None,
) -> None:
    """The helper's side: run requests concurrently through ``handle`` until end of file.

    ``handle(op, args)`` returns the answer; an exception becomes an error answer with its text. ``on_open``
    is given ``notify(op, args)``. A notice from the node is handled too and its answer dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    tasks: set[asyncio.Task[None]] = set()

    async def answer(ident: int, op: str, args: dict[str, Any]) -> None:
        try:
            reply = [ident, "ok", await handle(op, args)]
        except Exception as error:  # the boundary: whatever the helper's part raised is the caller's answer
            reply = [ident, "error", _words(error)]
        if ident != NOTICE:
            try:
                link.send(reply)
            except UNSENDABLE as error:
                link.send([ident, "error", f"the answer cannot be sent: {_words(error)}"])

    def received(frame: Any) -> None:
        match frame:
            case [int() as ident, str() as op, dict() as args]:
                task = loop.create_task(answer(ident, op, args))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            case _:
                raise FrameError("frame is not [id, op, args]")

    def closed(error: Exception | None) -> None:
        if not done.done():
            done.set_result(None)

    link = FrameLink(boot, received, closed, bounds=OWN)
    await loop.create_connection(lambda: link, sock=socket.socket(fileno=fd))
    if on_open is not None:
        on_open(lambda op, args: link.send([NOTICE, op, args]))
    await done
    for task in tasks:
        task.cancel()
