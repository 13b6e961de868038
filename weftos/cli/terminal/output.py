"""How a command speaks: one JSON document, or words, tables and trees for people; errors and progress on stderr.

Every string that is not ours passes :func:`weftos.safe_text.safe_text` here; no markup is interpreted. JSON is written
in ASCII, so a terminal has nothing to obey in it either.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from weftos.cli.terminal.branches import Branch, branch_lines
from weftos.cli.terminal.columns import Column, table_lines
from weftos.cli.terminal.pager import paged
from weftos.cli.terminal.styles import Text, joined, paint_for, styled
from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

PATIENCE_S = 2.0
_LONG_WORD = re.compile(r"\S{1000,}")
_MOST = 10_000


class Output:
    """What one command has to say. ``as_json``: documents only; every method for people is then silent."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def document(self, value: object) -> None:
        """The command's one JSON document."""
        if self.as_json:
            print(json.dumps(value, indent=2), flush=True)

    def line_document(self, value: object) -> None:
        """One JSON document of a stream, on a line of its own."""
        if self.as_json:
            print(json.dumps(value, separators=(",", ":")), flush=True)

    def say(self, text: str) -> None:
        """A line, or several, of text; foreign parts are made safe."""
        if not self.as_json:
            show(styled(text, lines=True), sys.stdout)

    def line(self, text: str) -> None:
        """Exactly one line, whatever foreign text is in it: so that none can pass for the next."""
        if not self.as_json:
            show(styled(text), sys.stdout)

    def tree(self, root: Branch) -> None:
        """A drawn tree, paged on a terminal that is not high enough."""
        if not self.as_json:
            self._lines(branch_lines(root, paint_for(sys.stdout), ascii=not draws()))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], keys: int = 1) -> None:
        """Rows under ``columns``; numbers to the right, known states in their colour. The first ``keys`` columns
        identify a row: on a narrow terminal only the others are wrapped. Paged on one that is not high enough.
        """
        if self.as_json:
            return
        held = [list(row) for row in rows]
        made = [
            Column(
                safe_text(name),
                number=bool(held) and all(isinstance(row[index], int | float | None) for row in held),
                fixed=index < keys,
            )
            for index, name in enumerate(columns)
        ]
        texts = [[safe_text(shown(value)) for value in row] for row in held]
        self._lines(table_lines(made, texts, _width(), paint_for(sys.stdout)))

    def _lines(self, lines: Iterable[str]) -> None:
        if sys.stdout.isatty() and sys.stdin.isatty():
            lines = list(lines)
            if len(lines) >= shutil.get_terminal_size().lines and paged(lines):
                return
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()

    def write(self, text: str) -> None:
        """A piece of a line, at once (streamed tokens)."""
        if not self.as_json:
            sys.stdout.write(safe_text(text, lines=True))
            sys.stdout.flush()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say on stderr what is being waited for, once it takes longer than two seconds."""
        text = safe_text(readable(what))
        begun: list[Status] = []

        def begin() -> None:
            if not sys.stderr.isatty():
                print(f"{text} ...", file=sys.stderr, flush=True)
                return
            begun.append(console(sys.stderr).status(text))
            begun[0].start()

        timer = threading.Timer(PATIENCE_S, begin)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            for status in begun:
                status.stop()

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """As :meth:`waiting`, on a terminal with a bar. Call the yielded value with (done, total)."""
        if not sys.stderr.isatty():
            with self.waiting(what):
                yield lambda done, total: None
            return
        from rich.progress import Progress

        screen = console(sys.stderr)
        bars = Progress(console=screen, transient=True)
        bar = bars.add_task(what, total=None)
        began = time.monotonic()

        def advance(done: int, total: int) -> None:
            bars.update(bar, completed=done, total=total)
            if time.monotonic() - began >= PATIENCE_S:
                bars.start()

        try:
            yield advance
        finally:
            if bars.live.is_started:
                bars.stop()


def console(file: TextIO) -> Console:
    """A console that obeys no markup, for what moves on a terminal."""
    from rich.console import Console

    return Console(file=file, markup=False, emoji=False, highlight=False)


def show(text: Text, file: TextIO) -> None:
    """A line of text, or several, in its styles where ``file`` shows them."""
    print(text.painted(paint_for(file)), file=file, flush=True)


def complain(text: str) -> None:
    """An error, on stderr."""
    show(joined(styled("weftos: ", "bold red"), styled(readable(text), lines=True)), sys.stderr)


def draws() -> bool:
    """Whether stdout can show what is not ASCII."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _width() -> int | None:
    """How wide a table may be; None for any width. A pipe has the one that ``COLUMNS`` says, if that is exported."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() and 0 < len(said) < 7 and int(said) else None


def readable(text: str) -> str:
    """``text`` with what is too long to read in it, such as an argument that it repeats, cut to beginning and end."""
    brief = _LONG_WORD.sub(lambda found: f"{found[0][:200]}...{found[0][-50:]}", text)
    return brief if len(brief) <= _MOST else f"{brief[: _MOST // 2]} ... {brief[-_MOST // 2 :]}"


def shown(value: Any) -> str:
    """A value in a table cell: nothing for None, items joined by commas, a number whole: what is to be short, its
    command rounds.
    """
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return json.dumps(value, separators=(", ", ": "), ensure_ascii=False)
    return str(value)


def duration(seconds: float | None) -> str:
    """A span of time for people: 0.4s, 12s, 3m05s, 2h07m, 4d02h."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def moment(time_us: int | None) -> str:
    """A time in UTC to the millisecond."""
    if time_us is None:
        return ""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
