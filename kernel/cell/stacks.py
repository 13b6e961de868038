"""Where the tasks of a process stand: the lines that are being carried out, and no value of any variable.

A cell whose loop goes round says it of its tasks. One whose loop is stuck cannot; but on a signal the interpreter
writes, from its signal handler, where each thread stands, also while native code holds Python's global lock. The signal
is one that nobody minds who has no handler for it. On another machine no signal reaches it: there the thread of its
link says where the others stand, unless one of them holds that lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import linecache
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from itertools import islice
from traceback import walk_stack
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any

from kernel.cell.protocol import CodeLine, Stack, Stacks
from kernel.cell.steps import SteppedCoroutine

STACK_SIGNAL = signal.SIGURG
MOST_STACKS, MOST_CALLS, MOST_CHARS = 100, 50, 200
_OF_TYPE: dict[type, tuple[str, str]] = {
    CoroutineType: ("cr_frame", "cr_await"),
    GeneratorType: ("gi_frame", "gi_yieldfrom"),
    AsyncGeneratorType: ("ag_frame", "ag_await"),
}


def dump_path(slot_path: str) -> str:
    """The file beside a cell's slot that its interpreter writes to."""
    return f"{slot_path}.stack"


def dump_on_signal(slot_path: str) -> None:
    """From now on :data:`STACK_SIGNAL` has the stacks of all threads written. Nothing, where the file cannot be."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        faulthandler.register(STACK_SIGNAL, os.open(dump_path(slot_path), flags, 0o600), all_threads=True)


def stacks_of(tasks: Collection[asyncio.Task[Any]]) -> list[Stack]:
    """Of the first :data:`MOST_STACKS`, by name."""
    by_name = sorted(tasks, key=lambda task: task.get_name())
    return [_stack(task) for task in by_name[:MOST_STACKS]]


def threads() -> Stacks:
    """Where the threads of this process stand, but for the one that asks."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: at for ident, at in sys._current_frames().items() if ident != threading.get_ident()}
    found = []
    for ident, frame in list(frames.items())[:MOST_STACKS]:
        calls = [_line(below) for below, _ in islice(walk_stack(frame), MOST_CALLS)][::-1]
        found.append(Stack(_text(f"thread {names.get(ident, ident)}"), tuple(calls)))
    return Stacks(tuple(found), len(frames) - len(found))


def _stack(task: asyncio.Task[Any]) -> Stack:
    calls = [_line(frame) for frame in _frames(task.get_coro())]
    return Stack(_text(task.get_name()), tuple(calls[-MOST_CALLS:]))


def _frames(awaited: Any) -> Iterator[FrameType]:
    """Of a coroutine, then of what it awaits, and so on. Only what is of the interpreter's own types is asked: what a
    behaviour awaits may answer with anything, or raise.
    """
    for _ in range(10 * MOST_CALLS):
        if type(awaited) is SteppedCoroutine:
            awaited = awaited.stepped
        names = _OF_TYPE.get(type(awaited))
        frame = names and getattr(awaited, names[0])
        if names is None or frame is None:
            return
        yield frame
        awaited = getattr(awaited, names[1])


def _line(frame: FrameType) -> CodeLine:
    file, line = frame.f_code.co_filename, frame.f_lineno
    try:
        source = linecache.getline(file, line, frame.f_globals).strip()
    except Exception:  # a loader of the behaviour's says what the line is
        source = ""
    return CodeLine(_text(file[-MOST_CHARS:]), line, _text(frame.f_code.co_name), _text(source))


def _text(found: str) -> str:
    """So much of it as is told, in characters that can be sent."""
    return found[:MOST_CHARS].encode("utf-8", "replace").decode()
