"""The worker process of one package: started on first use, restarted after a death, replaced after a deadline.

At most ``calls_at_once`` calls are with the process; each of them has a thread there, so a call that was sent has begun
and its time runs. Others wait here and have surely not run; before one is sent, its caller is asked once more.

A call *with effects* that exceeds its time is stopped for real: its process is stopped at once and killed with
everything it started, wherever that has gone, and what had not been answered by then is lost, the other calls of that
process too (each of them follows its own policy). A call is lost only when nothing that its process started is left:
who hears of it may make it again. A call *without effects* is answered with ``timeout``; its process gets no more calls
and is killed when its other calls are over, so what hangs can go on that long. In both cases the next process is
started at once; but while as many as there may be (:attr:`WorkerLimits.retired_processes`) have calls that are not
over, calls wait for the first of them to end. A call that is *stopped* never brings that about: while its process is
the last that may be, it goes on there with the calls of others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from chain.in_thread import in_thread
from kernel.cell.link.frames import UNHEEDED, Hearing
from kernel.errors import KernelError, Unavailable
from kernel.helper.helper import Helper, HelperCommand, HelperLost, HelperRefused
from kernel.helper.os_processes import WORKER_VARIABLE, Mark, ProcessRow, end_tree, new_mark, read_process
from kernel.shapes import ShapeError, read, told
from kernel.toolbox.arguments import hash_text
from kernel.toolbox.rules.file_rules import ALL_FILES, FileRules
from kernel.worker.requests import Accept, Answered, Configure, Configured, Probe, Run

MAX_ANSWER_BYTES = 2**20
END_AGAIN_S = 0.2
_REFUSED = "its worker has become a program of another user, which may not be ended: it may act still"
LAST_WORDS_S = 0.5  # what a dead process had sent is still read for so long
_STOPPING = "the node is stopping, no tool is started"
Status = Literal["ok", "error", "timeout", "refused", "changed"]


class WorkerLost(KernelError):
    """The worker died with the call: it may have run, or not. In doubt."""

    code = "unavailable"


class WorkerLeft(WorkerLost):
    """The same of a worker that could not be ended: what it was about may come yet."""


class WorkerUnavailable(Unavailable):
    """No worker took the call: it has surely not run."""


class WorkerWithdrawn(KernelError):
    """Nobody wants the call any more, and it was not handed over: it has surely not run."""

    code = "refused"


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of one worker process. ``calls_at_once`` is also its number of threads."""

    calls_at_once: int = 32
    waiting_calls: int = 10_000
    retired_processes: int = 4  # that have calls which are not over
    start_timeout_s: float = 30.0
    backoff_base_s: float = 0.1
    backoff_max_s: float = 5.0
    quiet_s: float = 10.0  # a worker that lived so long starts the back-off anew


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """One call. ``arguments`` canonical JSON; ``receipt``, ``salt`` and ``body`` prove its ``tool.intent``.
    ``effects``: whether its tool has any. ``op``: to run it, to look at which version of its file there is, or to probe
    what became of an effect, by its ``effect_id`` or by what it ``replaces``. ``files``: which of its workspace.
    """

    tool: str
    arguments: str
    receipt: bytes
    salt: bytes
    body: bytes
    workspace: str
    timeout_s: float
    effects: bool = True
    op: Literal["run", "look", "probe"] = "run"
    effect_id: str = ""
    replaces: str = ""
    files: FileRules = ALL_FILES


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What came of it. ``text`` is at most 1 MiB; ``full_hash`` (SHA-256, hex) and ``full_bytes`` are of all of it.
    ``landed``: what a probe says; None: it does not know, and ``text`` says why.
    """

    status: Status
    text: str
    truncated: bool
    full_hash: str
    full_bytes: int
    landed: bool | None = None


def local_result(status: Status, text: str) -> WorkerResult:
    """A result that the node gives itself, for a call that no worker answered."""
    return WorkerResult(status, text, False, hash_text(text), len(text.encode()))


@dataclass(frozen=True, slots=True)
class Placed:
    """A call that was put. ``take_back()`` takes it out of the queue, and nothing is heard of it any more; one that was
    handed over goes on. ``stop(why)`` ends the process that carries out one that was, as soon as no other call needs
    it, and what came of the call is heard; one that waits goes on waiting.
    """

    take_back: Callable[[], None]
    stop: Callable[[str], None]


Came = WorkerResult | Exception
"""What came of a call: its result, or why there is none (WorkerLost, WorkerUnavailable, WorkerWithdrawn)."""


@dataclass(eq=False, slots=True)
class _Job:
    call: WorkerCall
    begin: Callable[[], bool]
    ended: Callable[[Came], None]
    timer: asyncio.TimerHandle | None = None
    late: bool = False
    done: bool = False
    process: _Process | None = None
    unwanted: str = ""  # why, when nobody wants it any more

    def end(self, came: Came) -> None:
        """Once, for the first that is said of it. A fault of whoever hears it is not the pool's, and not of the others
        that wait.
        """
        if self.done:
            return
        self.done = True
        try:
            self.ended(came)
        except Exception as fault:
            context = {
                "message": f"what came of a call of {self.call.tool} was not taken",
                "exception": fault,
            }
            asyncio.get_running_loop().call_exception_handler(context)


@dataclass(eq=False, slots=True)
class _Process:
    helper: Helper
    born_s: float
    mark: Mark
    row: ProcessRow | None = None
    pidfd: int = -1
    jobs: set[_Job] = field(default_factory=set)
    lost: list[tuple[_Job, WorkerLost]] = field(default_factory=list)  # told when it has ended
    retired: bool = False
    gone: bool = False
    refused: bool = False  # it may not be signalled any more
    ending: asyncio.Task[None] | None = None
    stopped: str = ""  # why, when the node killed it


class WorkerPool:
    """See the module. ``on_process(os_pid)`` tells of each process that takes calls, and None when there is none.
    ``hearing`` is entered for what a process says at a time.
    """

    def __init__(
        self,
        command: Callable[[], HelperCommand],
        boot: int,
        setup: Configure,
        limits: WorkerLimits,
        on_process: Callable[[int | None], None],
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self._command = command
        self._boot = boot
        self._setup = setup
        self._limits = limits
        self._on_process = on_process
        self._hearing = hearing
        self._queue: OrderedDict[_Job, None] = OrderedDict()
        self._current: _Process | None = None
        self._processes: set[_Process] = set()
        self._starting: asyncio.Task[None] | None = None
        self._answer = Configured((), {})
        self._tasks: set[asyncio.Task[Any]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before_s = 0.0
        self._closed = False

    def put(self, call: WorkerCall, begin: Callable[[], bool], ended: Callable[[Came], None]) -> Placed:
        """Queue a call. ``ended`` is called once with what came of it, in the very iteration of the loop that hears of
        it, and maybe before this returns. ``begin()`` is asked immediately before the call is sent, and is the last
        word: False, and it is :class:`WorkerWithdrawn`. Raises WorkerUnavailable.
        """
        if self._closed:
            raise WorkerUnavailable(_STOPPING)
        if len(self._queue) >= self._limits.waiting_calls:
            raise WorkerUnavailable(f"{len(self._queue)} calls wait for this worker already; try again later")
        job = _Job(call, begin, ended)
        self._queue[job] = None
        self._deliver_next()

        def take_back() -> None:
            job.done = True
            self._queue.pop(job, None)

        return Placed(take_back, partial(self._stop, job))

    async def run(self, call: WorkerCall, begin: Callable[[], bool]) -> WorkerResult:
        """The same as a coroutine, which returns the result or raises what else came; cancelling it takes back."""
        return await waited_for(lambda ended: self.put(call, begin, ended))

    def accept(self, key: str) -> None:
        """Receipts under this key are the node's too: for the processes there are, and all to come."""
        self._setup = replace(self._setup, keys=(*self._setup.keys, key))
        for process in self._processes:
            if process.helper.alive:
                process.helper.notify("accept", told(Accept(key)))

    async def start(self) -> Configured:
        """Start a process when there is none, and what it answered to ``configure``. Raises WorkerUnavailable."""
        try:
            await asyncio.shield(self._begin_start())
        except asyncio.CancelledError:
            if self._closed:
                raise WorkerUnavailable(_STOPPING) from None
            raise
        return self._answer

    # -- the way of a call

    def _deliver_next(self) -> None:
        """Hand over as many waiting calls as the process takes. Before each it is asked for anew: the link can have
        noticed its death at the one before, and what is handed to a dead one may have been done for all that is known.
        """
        while (process := self._ready()) is not None:
            if not self._queue or len(process.jobs) >= self._limits.calls_at_once:
                return
            job, _ = self._queue.popitem(last=False)
            if job.done:
                continue
            if job.begin():
                self._hand_over(process, job)
            else:
                job.end(WorkerWithdrawn(f"{job.call.tool}: nobody wants it any more"))
        if self._queue:
            self._start_next()

    def _ready(self) -> _Process | None:
        """The process that takes calls, if there is one."""
        if self._current is not None and not self._current.helper.alive:
            self._lose(self._current)
        return self._current

    def _hand_over(self, process: _Process, job: _Job) -> None:
        call = job.call
        job.process = process
        process.jobs.add(job)
        loop = asyncio.get_running_loop()
        job.timer = loop.call_later(call.timeout_s, self._time_out, process, job)
        process.helper.call(call.op, told(_request(call)), partial(self._answered, process, job))

    def _answered(self, process: _Process, job: _Job, answer: Any, error: Exception | None) -> None:
        if job not in process.jobs:
            return  # its time was over before
        process.jobs.discard(job)
        if job.timer is not None:
            job.timer.cancel()
        result = None if error else _read_answer(answer)
        came = result or WorkerLost(_why_lost(process, job, error))
        if isinstance(came, WorkerLost) and (error is None or isinstance(error, HelperLost)):
            self._lose(process)
            self._end(process)
            process.lost.append((job, came))
            self._tell_lost(process)
        else:
            job.end(came)
        self._end_unneeded(process)
        self._deliver_next()

    def _stop(self, job: _Job, why: str) -> None:
        """Nobody wants what was handed over."""
        process = job.process
        if process is None or job not in process.jobs or job.unwanted:
            return
        job.unwanted = why
        self._end_unneeded(process)
        self._start_next()

    def _end_unneeded(self, process: _Process) -> None:
        """A process with calls that nobody wants takes no more, unless others had to wait for its end then. It is ended
        when it has only such ones; one that takes none, when it has none too.
        """
        unwanted = [job.unwanted for job in process.jobs if job.unwanted]
        only = len(unwanted) == len(process.jobs)
        if unwanted and (only or self._retired + 1 < self._limits.retired_processes):
            self._retire(process)
        if process.retired and only:
            process.stopped = process.stopped or next(iter(unwanted), "")
            self._end(process)

    @property
    def _retired(self) -> int:
        """How many processes take no calls and have some that are not over."""
        return sum(process.retired and bool(process.jobs) for process in self._processes)

    def _retire(self, process: _Process) -> None:
        process.retired = True
        if self._current is process:
            self._vacate()

    def end(self, hard: bool, why: str) -> None:
        """End the process that takes calls, for ``why``, and start another. ``hard``: with the calls that it has, which
        may be in doubt then; else when these are over.
        """
        process = self._current
        if process is None:
            return
        self._retire(process)
        if hard:
            process.stopped = why
            self._end(process)
        else:
            self._end_unneeded(process)
        self._start_next()

    def _time_out(self, process: _Process, job: _Job) -> None:
        text = f"{job.call.tool} did not end within {job.call.timeout_s:g} s"
        self._retire(process)
        if job.call.effects:  # what it sent before its death is still its answer
            job.late = True
            process.stopped = text
            self._end(process)
        else:
            process.jobs.discard(job)
            job.end(local_result("timeout", text))
            self._end_unneeded(process)
        self._start_next()

    # -- the life of a process

    def _start_next(self) -> None:
        """Start a process, unless too many have calls that are not over; when one of them ends this is asked again."""
        if not self._closed and self._retired < self._limits.retired_processes:
            self._begin_start()

    def _begin_start(self) -> asyncio.Task[None]:
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._starting

    async def _start(self) -> None:
        """One attempt, after the back-off. On failure every waiting call fails with the reason."""
        try:
            if self._current is None:
                await asyncio.sleep(max(0.0, self._not_before_s - asyncio.get_running_loop().time()))
                await self._start_process()
        finally:
            self._starting = None
        self._deliver_next()

    async def _start_process(self) -> None:
        command, mark = self._command(), new_mark()
        command = replace(command, env={**command.env, WORKER_VARIABLE: mark.word})
        helper = Helper(
            command, self._boot, _ignore, lambda status: self._died(process), hearing=self._hearing
        )
        process = _Process(helper, asyncio.get_running_loop().time(), mark)
        self._processes.add(process)
        try:
            await helper.start()
            self._watch(process)
            asked = helper.request("configure", told(self._setup))
            answer = read(Configured, await asyncio.wait_for(asked, self._limits.start_timeout_s))
        except Exception as error:  # the boundary: who waits is told why, whatever it was
            if not helper.os_pid:
                self._processes.discard(process)
            why = _why_not_started(error, self._limits)
            raise self._failed(process, f"{command.name}: {why}; see {command.log}") from error
        self._answer = answer
        self._current = process
        self._on_process(helper.os_pid)

    def _failed(self, process: _Process, reason: str) -> WorkerUnavailable:
        self._end(process)
        self._back_off(0.0)
        waiting, self._queue = self._queue, OrderedDict()
        for job in waiting:
            job.end(WorkerUnavailable(reason))
        return WorkerUnavailable(reason)

    def _watch(self, process: _Process) -> None:
        """Notice the death itself: no end of file comes while something that a tool forked holds the link."""
        process.row = read_process(process.helper.os_pid)
        process.mark.put_on(process.helper.os_pid)
        with contextlib.suppress(ProcessLookupError):
            process.pidfd = os.pidfd_open(process.helper.os_pid)
            asyncio.get_running_loop().add_reader(process.pidfd, self._exited, process)

    def _exited(self, process: _Process) -> None:
        self._unwatch(process)
        self._lose(process)
        self._end(process)
        if not self._closed:
            self._spawn(self._stop_link(process))
        self._deliver_next()

    async def _stop_link(self, process: _Process) -> None:
        await asyncio.sleep(LAST_WORDS_S)
        if not process.gone:
            await process.helper.stop()

    def _unwatch(self, process: _Process) -> None:
        if process.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(process.pidfd)
            os.close(process.pidfd)
            process.pidfd = -1

    def _end(self, process: _Process) -> None:
        """Kill a process and all that it started. Its calls fail when the link notices, and nothing of it is left."""
        if process.ending is not None:
            return
        if process.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(process.pidfd, signal.SIGSTOP)
        process.ending = asyncio.get_running_loop().create_task(self._end_all_of(process))
        self._endings.add(process.ending)
        process.ending.add_done_callback(self._endings.discard)
        process.ending.add_done_callback(lambda _: self._tell_lost(process))

    async def _end_all_of(self, process: _Process) -> None:
        while process.row is not None:
            try:
                await in_thread(end_tree, process.row, process.mark)
                break
            except Exception:  # no descriptor, no thread, or whatever it is: its calls are told when there is
                if self._closed:
                    break
                await asyncio.sleep(END_AGAIN_S)
        process.refused = not process.gone and not process.helper.kill()

    def _tell_lost(self, process: _Process) -> None:
        """Once nothing of the process is left that may be ended."""
        while process.ending is not None and process.ending.done() and process.lost:
            job, why = process.lost.pop(0)
            job.end(WorkerLeft(f"{job.call.tool}: {_REFUSED}") if process.refused else why)

    def _died(self, process: _Process) -> None:
        process.gone = True
        self._unwatch(process)
        self._processes.discard(process)
        self._lose(process)
        self._deliver_next()

    def _lose(self, process: _Process) -> None:
        """The present process is gone though nobody retired it."""
        if self._current is process:
            self._vacate()
            self._back_off(asyncio.get_running_loop().time() - process.born_s)

    def _vacate(self) -> None:
        self._current = None
        self._on_process(None)

    def _back_off(self, lived_s: float) -> None:
        """The first restart after quiet is immediate, then the wait doubles."""
        if lived_s >= self._limits.quiet_s:
            self._failures = 0
        self._failures += 1
        exponent = min(self._failures - 2, 30)
        delay_s = 0.0 if exponent < 0 else self._limits.backoff_base_s * 2**exponent
        self._not_before_s = asyncio.get_running_loop().time() + min(delay_s, self._limits.backoff_max_s)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def marks(self) -> list[Mark]:
        """Of its processes, those that are just ending too."""
        return [process.mark for process in self._processes]

    async def close(self) -> None:
        """Kill every process. Waiting calls fail with WorkerUnavailable, those under way with WorkerLost."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        waiting, self._queue = self._queue, OrderedDict()
        for job in waiting:
            job.end(WorkerUnavailable(_STOPPING))
        if self._current is not None:
            self._vacate()
        for task in self._tasks:
            task.cancel()
        processes = list(self._processes)
        for process in processes:
            self._end(process)
        await asyncio.gather(*self._endings, return_exceptions=True)
        await asyncio.gather(*(process.helper.stop() for process in processes), return_exceptions=True)


async def waited_for(put: Callable[[Callable[[Came], None]], Placed]) -> WorkerResult:
    """What comes of a call that ``put(ended)`` queues. Cancelling this takes it back. Raises what is no result."""
    future: asyncio.Future[WorkerResult] = asyncio.get_running_loop().create_future()

    def ended(came: Came) -> None:
        if future.done():  # cancelled in this very round of the loop
            return
        if isinstance(came, WorkerResult):
            future.set_result(came)
        else:
            future.set_exception(came)

    placed = put(ended)
    try:
        return await future
    finally:
        placed.take_back()


def _request(call: WorkerCall) -> Run | Probe:
    """What the process is sent of a call."""
    if call.op == "probe":
        return Probe(call.tool, call.arguments, call.effect_id, call.replaces, call.workspace)
    return Run(call.tool, call.arguments, call.receipt, call.salt, call.body, call.workspace, call.files)


def _why_not_started(error: Exception, limits: WorkerLimits) -> str:
    match error:
        case TimeoutError():
            return f"not ready within {limits.start_timeout_s:g} s"
        case ShapeError():
            return "its answer is not one"
        case OSError() | HelperLost() | HelperRefused():
            return str(error)
    return f"{type(error).__name__}: {error}"


def _why_lost(process: _Process, job: _Job, error: BaseException | None) -> str:
    if job.late:
        limit_s = job.call.timeout_s
        return f"{job.call.tool}: did not end within {limit_s:g} s, and its worker was stopped"
    if process.stopped:
        return f"{job.call.tool}: its worker was stopped, since {process.stopped}"
    return f"{job.call.tool}: {error or 'the answer of its worker is not one'}"


def _read_answer(value: Any) -> WorkerResult | None:
    """A worker's answer; None when it is not one. A third-party worker can send anything."""
    try:
        answer = read(Answered, value)
    except ShapeError:
        return None
    bounded = len(answer.text.encode()) <= MAX_ANSWER_BYTES and 0 <= answer.bytes < 2**62
    if not bounded or len(answer.hash) != 64:
        return None
    return WorkerResult(
        answer.status, answer.text, answer.truncated, answer.hash, answer.bytes, answer.landed
    )


def _ignore(op: str, args: dict[str, Any]) -> None:
    """A worker has nothing to tell unasked."""
