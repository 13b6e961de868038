"""Where the tasks of a process stand, as its cell says; of a cell that does not answer, where its threads stand.

The latter is what the cell's interpreter wrote when it was signalled (:mod:`kernel.cell.stacks`): a file of the cell's,
so nothing in it is believed, and so much of it is read as can be shown.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.cell.link.frames import FrameError
from kernel.cell.protocol import CodeLine, Stack, Stacks
from kernel.cell.slot import SlotFile
from kernel.cell.stacks import MOST_CALLS, MOST_CHARS, MOST_STACKS, STACK_SIGNAL, dump_path
from kernel.cells.cell_acceptor import CellConnection
from kernel.cells.started_cell import StartedCell
from kernel.errors import Busy, NotFound
from kernel.shapes import ShapeError, read
from kernel.values import clean

ANSWER_S = 1.0
"""A cell that has not answered by then is taken for stuck."""
DUMP_S, LOOK_S = 2.0, 0.05
MOST_DUMP_BYTES = 256 * 1024
MOST_QUESTIONS = 16

_THREAD = re.compile(r"(?:Thread|Current thread) (0x[0-9a-f]+)(?: \[([^\]]*)\])? \(most recent call first\):")
_CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')


@dataclass(frozen=True, slots=True)
class CellStacks:
    """``stuck``: the cell's loop did not go round, and these are its threads, not tasks; ``running`` is then the PID
    that holds it, 0 when nobody knows. ``more`` are left out.
    """

    cell: str
    stuck: bool
    running: int
    stacks: tuple[Stack, ...]
    more: int = 0


class StackQuestions:
    """Questions to cells, each with a number that the answer names."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[StartedCell, asyncio.Future[Stacks]]] = {}
        self._next = 1

    async def ask(self, pid: int, cell: StartedCell | None) -> CellStacks:
        """Of a process in ``cell``. Raises NotFound, Busy."""
        if cell is None or cell.connection is None:
            raise NotFound(f"PID {pid} is in no cell just now; weftos ps shows what it waits for")
        if len(self._asked) >= MOST_QUESTIONS:
            raise Busy(f"{MOST_QUESTIONS} cells are being asked, the limit; try again in a moment")
        found = await self._answer(cell, "stack", pid)
        if found is not None:
            return CellStacks(cell.name, False, 0, *_bounded(found.stacks, found.more))
        running = cell.running()
        if isinstance(cell.slot, SlotFile):
            found = Stacks(tuple(await _dumped(cell.connection, cell.slot)), 0)
        else:
            found = await self._answer(cell, "threads") or Stacks((), 0)
        if cell.gone:
            raise NotFound(f"PID {pid} has ended: its cell {cell.name} is gone")
        return CellStacks(cell.name, True, running, *_bounded(found.stacks, found.more))

    async def _answer(self, cell: StartedCell, op: str, *args: int) -> Stacks | None:
        """What the cell answers, None when it does not in :data:`ANSWER_S`."""
        number = self._next
        answer: asyncio.Future[Stacks] = asyncio.get_running_loop().create_future()
        self._next += 1
        self._asked[number] = cell, answer
        try:
            cell.send([op, *args, number])
            return await asyncio.wait_for(answer, ANSWER_S)
        except TimeoutError:
            return None
        finally:
            del self._asked[number]

    def answered(self, cell: StartedCell, number: int, stacks: dict[str, Any]) -> None:
        """A cell has answered, perhaps late. Raises FrameError when the answer is none."""
        try:
            found = read(Stacks, stacks)
        except ShapeError as error:
            raise FrameError(f"cell {cell.name} sent stacks of the wrong shape: {error}") from None
        asked, answer = self._asked.get(number, (None, None))
        if asked is cell and answer is not None and not answer.done():
            answer.set_result(found)


async def _dumped(connection: CellConnection, slot: SlotFile) -> list[Stack]:
    """What the cell's interpreter writes when it is signalled, once nothing is added any more."""
    dump, text = Path(dump_path(str(slot.path))), ""
    await in_thread(_emptied, dump)
    if not connection.signal(STACK_SIGNAL):
        return []
    for _ in range(int(DUMP_S / LOOK_S)):
        await asyncio.sleep(LOOK_S)
        before, text = text, await in_thread(_read, dump)
        if text and text == before:
            break
    return read_dump(text)


def _emptied(dump: Path) -> None:
    _opened(dump, os.O_WRONLY, lambda file: os.ftruncate(file, 0))


def _read(dump: Path) -> str:
    found = _opened(dump, os.O_RDONLY, lambda file: os.pread(file, MOST_DUMP_BYTES, 0))
    return (found or b"").decode("utf-8", "replace")


def _opened(dump: Path, flags: int, use: Callable[[int], Any]) -> Any:
    """What ``use`` gives of the file; None unless it is there, and a plain file: a cell may put anything there."""
    try:
        file = os.open(dump, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return use(file) if stat.S_ISREG(os.fstat(file).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(file)


def read_dump(text: str) -> list[Stack]:
    """The threads in what faulthandler writes, each with its newest call last; what is no line of it is left out."""
    found: list[tuple[str, list[CodeLine]]] = []
    for line in text.splitlines():
        if thread := _THREAD.fullmatch(line):
            found.append((f"thread {thread[2] or thread[1]}", []))
        elif found and (call := _CALL.fullmatch(line)) and len(call[2]) <= 9:
            found[-1][1].insert(0, CodeLine(call[1], int(call[2]), call[3], ""))
    return [Stack(name, tuple(calls)) for name, calls in found]


def _bounded(stacks: tuple[Stack, ...], more: int) -> tuple[tuple[Stack, ...], int]:
    """As many as are shown, and how many are left out."""
    shown = stacks[:MOST_STACKS]
    return tuple(map(_cut, shown)), max(0, more) + len(stacks) - len(shown)


def _cut(stack: Stack) -> Stack:
    return Stack(clean(stack.name)[:MOST_CHARS], tuple(map(_cleaned, stack.calls[-MOST_CALLS:])))


def _cleaned(call: CodeLine) -> CodeLine:
    file, function, source = (clean(text) for text in (call.file, call.function, call.source))
    return CodeLine(file[-MOST_CHARS:], call.line, function[:MOST_CHARS], source[:MOST_CHARS])
