"""Where something can fail that is no writing call alone: each operation of the disk, each thread that is wanted, each
await of a task of the upkeep. The place is known by who asks (the last few functions of ours that led there), so the
same place is met in each run of a life, whatever the threads do meanwhile.

:func:`installed` puts this before the disk's methods, the calls to the operating system that go past them, and the
start of threads, in this process; what the tests themselves do is let alone.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any, Literal

from chain.disk import Disk
from tests.places import ROOT

Family = Literal["disk", "thread", "await"]
LOOKING = ("names", "read", "read_at", "size", "is_directory", "open_to_read", "read_open", "free")
LOOKING_PAST = ("os.open", "os.stat", "os.lstat", "os.listdir", "os.scandir", "open")
WRITING = (
    "new_directory", "create", "create_new", "open", "write", "truncate", "allocate", "sync", "rename", "remove",
    "remove_directory", "sync_directory",
)  # fmt: skip
WITHOUT_DESCRIPTOR = ("names", "read", "read_at", "open", "open_to_read", "create", "create_new", "sync_directory",
                      "os.open", "os.listdir", "os.scandir", "open")  # fmt: skip
NO_THREAD = "can't start new thread"
KILL = -9
_AT_ARGUMENTS = ".main"  # of a child: what argparse looks at is nobody's
DEEP = 5
_OURS = tuple(f"{ROOT / package}{os.sep}" for package in ("chain", "kernel", "weftos", "mesh"))
_TESTS = f"{ROOT / 'tests'}{os.sep}"
_PAST = ("chain/disk.py", "chain/in_thread.py", "kernel/toolbox/files.py")
"""The first is met by its methods, the second passes on, and the last is what a worker does."""
_LOOKS_ON = frozenset({"entries", "_documents"})  # of the tests, though they call ours
_PASSES_ON = "sync_within"  # of a test's disk, for ours


@dataclass(frozen=True, slots=True)
class Place:
    """``kind`` of what is done there, and ``site``: by whom, the innermost first."""

    family: Family
    kind: str
    site: str


@dataclass(frozen=True, slots=True)
class Fault:
    """At the ``nth`` time at ``place``, and for ``calls`` of its family from there on. ``looks``: so many of the
    operations that look fail behind it. ``half``: of a write half is done. With a ``code`` of -1 no thread is had
    behind a cancelled task; with ``KILL`` the process ends there.
    """

    place: Place
    nth: int
    code: int = 0
    calls: int = 1
    looks: int = 0
    half: bool = False

    def __str__(self) -> str:
        what = f"{self.place.kind} in {self.place.site}, time {self.nth}"
        if self.code:
            what += ", no thread behind it" if self.code < 0 else f", {os.strerror(self.code)}"
        what += f", {self.calls} in all" if self.calls > 1 else ""
        what += f", and {self.looks} looks behind it" if self.looks else ""
        return what + (", half done" if self.half else "")


class Given(BaseException):
    """Whoever works in this thread has been killed."""


class Points:
    """Counts the times at each place, and has ``fault`` happen. ``came``: it has begun."""

    def __init__(self, fault: Fault | None) -> None:
        self.counts: Counter[Place] = Counter()
        self.came = False
        self.killed: set[int] = set()
        self._fault = fault
        self._left = 0
        self._looks = 0
        self._no_thread = False
        self._lock = threading.Lock()

    def over(self) -> bool:
        """Nothing fails any more, until it comes."""
        return not self._left and not self._looks and not self._no_thread

    def heal(self) -> None:
        """All is well from here on."""
        with self._lock:
            self._fault, self._left, self._looks, self._no_thread = None, 0, 0, False

    def disk(self, kind: str, half: Callable[[], None] = lambda: None) -> None:
        """An operation of the disk begins. Raises OSError."""
        if threading.get_ident() in self.killed:
            raise Given
        code, midway = self._next("disk", kind)
        if code == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if code:
            if midway:
                half()
            raise OSError(code, os.strerror(code))

    def thread(self) -> None:
        """A thread is wanted. Raises RuntimeError."""
        if self._next("thread", "thread")[0]:
            raise RuntimeError(NO_THREAD)

    def cancels(self, site: str) -> bool:
        """A task waits at ``site``: whether it is cancelled there."""
        place = Place("await", "await", site)
        with self._lock:
            if not self._comes(place):
                return False
            assert self._fault is not None
            self._looks = self._fault.looks
            self._no_thread = self._fault.code < 0
            return True

    def _next(self, family: Family, kind: str) -> tuple[int, bool]:
        """What is to happen: a code of the operating system's, 0 for nothing, and whether half is done before."""
        site = _site(sys._getframe(3))
        if site is None or (site.endswith(_AT_ARGUMENTS) and " < " not in site):
            return 0, False
        with self._lock:
            if self._comes(Place(family, kind, site)):
                assert self._fault is not None
                self._left = self._fault.calls - 1
                self._looks = self._fault.looks
                return self._fault.code or -1, self._fault.half
            if self._no_thread and family == "thread":
                self._no_thread = False
                return -1, False
            if self._fault is None:
                return 0, False
            if self._left and family == self._fault.place.family:
                self._left -= 1
                return self._fault.code or -1, False
            if self._looks and family == "disk" and kind in (*LOOKING, *LOOKING_PAST):
                self._looks -= 1
                return self._fault.code, False
        return 0, False

    def _comes(self, place: Place) -> bool:
        nth = self.counts[place]
        self.counts[place] += 1
        if self._fault is None or self.came or (place, nth) != (self._fault.place, self._fault.nth):
            return False
        self.came = True
        return True


_KINDS: dict[CodeType, str] = {}


def _kind(code: CodeType) -> str:
    """Of a frame: one of ours by its name, a test's, or empty for what belongs to Python."""
    found = _KINDS.get(code)
    if found is None:
        name = code.co_filename
        found = ""
        if name.startswith(_OURS):
            path = name[len(str(ROOT)) + 1 :]
            found = "-" if path in _PAST else f"{path.rpartition('/')[2][:-3]}.{code.co_name}"
        elif name.startswith(_TESTS) and not code.co_name.startswith("<"):
            found = f"tests {code.co_name}"
        _KINDS[code] = found
    return found


def _site(frame: FrameType | None) -> str | None:
    """The last functions of ours that led here; None when it was a test that asked, or nobody."""
    found: list[str] = []
    while frame is not None:
        kind = _kind(frame.f_code)
        if kind.startswith("tests ") and kind[6:] != _PASSES_ON:
            return None if kind[6:] in _LOOKS_ON or not found else " < ".join(found)
        if kind == "-" and frame.f_code.co_filename.endswith("files.py"):
            return None
        if kind not in ("", "-", f"tests {_PASSES_ON}") and "<" not in kind and len(found) < DEEP:
            found.append(kind)
        frame = frame.f_back
    return " < ".join(found) or None


class QuickDisk(Disk):
    """Synced at once, so that the loop writes as often as the thread."""

    def sync_within(self, handle: int, within_s: float) -> bool:
        self.sync(handle)
        return True


@contextmanager
def installed(points: Points) -> Iterator[None]:
    """What fails, fails in this block."""
    undo: list[Callable[[], None]] = []

    def put(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, wrapper)

    try:
        for name in (*LOOKING, *WRITING):
            if name != "write":
                put(Disk, name, _before(getattr(Disk, name), points, name))
        put(Disk, "write", _write(points))
        for name in ("open", "stat", "lstat", "listdir", "scandir"):
            put(os, name, _before(getattr(os, name), points, f"os.{name}"))
        for owner in (builtins, io):
            put(owner, "open", _before(builtins.open if owner is builtins else io.open, points, "open"))
        put(ThreadPoolExecutor, "submit", _submitted(points))
        put(threading.Thread, "start", _started(points))
        yield
    finally:
        for step in reversed(undo):
            step()


def _before(original: Callable[..., Any], points: Points, kind: str) -> Callable[..., Any]:
    def call(*values: Any, **named: Any) -> Any:
        points.disk(kind)
        return original(*values, **named)

    return call


def _write(points: Points) -> Callable[..., None]:
    original = Disk.write

    def write(self: Disk, handle: int, offset: int, data: bytes) -> None:
        points.disk("write", lambda: original(self, handle, offset, data[: len(data) // 2]))
        original(self, handle, offset, data)

    return write


def _submitted(points: Points) -> Callable[..., Any]:
    """What an executor refuses for want of a thread stands in its queue: the next thread that it gets does it first."""
    original = ThreadPoolExecutor.submit
    queue: deque[Callable[[], object]] = deque()

    def submit(self: ThreadPoolExecutor, call: Callable[..., Any], /, *values: Any) -> Any:
        late = tuple(queue)
        queue.clear()
        try:
            points.thread()
        except RuntimeError:
            queue.extend((*late, partial(call, *values)))
            raise

        def work() -> Any:
            for one in late:
                with suppress(Exception):  # nobody waits for it
                    one()
            return call(*values)

        return original(self, work)

    return submit


def _started(points: Points) -> Callable[..., None]:
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if sys._getframe(1).f_code.co_name != "_adjust_thread_count":  # an executor's
            points.thread()
        original(self)

    return start


class Watched:
    """A coroutine that is cancelled where ``points`` says: an awaitable, to be run by a task."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], points: Points, cancel: Callable[[], None]
    ) -> None:
        self._coroutine = coroutine
        self._points = points
        self._cancel = cancel

    def __await__(self) -> Generator[Any, Any, None]:
        value, error = None, None
        while True:
            try:
                waits = self._coroutine.throw(error) if error else self._coroutine.send(value)
            except StopIteration:
                return
            if self._points.cancels(_waits_at(self._coroutine)):
                self._cancel()
            value, error = None, None
            try:
                value = yield waits
            except (
                BaseException
            ) as thrown:  # the task's cancellation, or what it waits for: the coroutine's own
                error = thrown


def _waits_at(coroutine: Any) -> str:
    """The functions of ours that wait, the innermost first."""
    found: list[str] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        kind = _kind(frame.f_code)
        if kind not in ("", "-") and not kind.startswith("tests "):
            found.append(f"{kind}:{frame.f_lineno - frame.f_code.co_firstlineno}")
        coroutine = coroutine.cr_await
    return " < ".join(reversed(found))
