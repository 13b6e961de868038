"""How a command speaks: one JSON document, or words, tables and trees for people; errors and progress on stderr.

Consoles interpret no markup, and every string that is not ours passes :func:`weftos.safe_text.safe_text` here.
JSON is written in ASCII, so a terminal has nothing to obey in it either.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from weftos.safe_text import safe_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PATIENCE_S = 2.0
_WIDE = 100_000
_LONG_WORD = re.compile(r"\S{1000,}")
_MOST = 10_000

_STYLES = {
    "running": "green",
    "ok": "green",
    "starting": "cyan",
    "restarting": "yellow",
    "stopping": "yellow",
    "suspended": "yellow",
    "warn": "yellow",
    "parked": "magenta",
    "stopped": "dim",
    "exited": "red",
    "error": "red",
    "fail": "red",
}


class Output:
    """What one command has to say. ``as_json``: documents only; every method for people is then silent."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> Console:
        return console(sys.stdout)

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
            self.show(styled(text, lines=True))

    def line(self, text: str) -> None:
        """Exactly one line, whatever foreign text is in it: so that none can pass for the next."""
        if not self.as_json:
            self.show(styled(text))

    def show(self, renderable: RenderableType) -> None:
        """A table, tree or text whose foreign parts went through :func:`styled`."""
        if not self.as_json:
            self.console.print(renderable, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Rows under ``columns``; numbers to the right, known states in their colour."""
        if self.as_json:
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        held = [list(row) for row in rows]
        for index, column in enumerate(columns):
            numbers = bool(held) and all(isinstance(row[index], int | float | None) for row in held)
            table.add_column(styled(column), justify="right" if numbers else "left", overflow="fold")
        for row in held:
            table.add_row(*(styled(shown(value)) for value in row))
        if self.console.is_terminal:
            self.console.print(table)
        else:
            self._unpadded(table)

    def _unpadded(self, table: Table) -> None:
        """For a file or pipe: no blanks at the ends of lines."""
        with self.console.capture() as capture:
            self.console.print(table)
        print("\n".join(line.rstrip() for line in capture.get().splitlines()), flush=True)

    def write(self, text: str) -> None:
        """A piece of a line, at once (streamed tokens)."""
        if not self.as_json:
            sys.stdout.write(safe_text(text, lines=True))
            sys.stdout.flush()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say on stderr what is being waited for, once it takes longer than two seconds."""
        screen, what = console(sys.stderr), readable(what)
        status = screen.status(styled(what)) if screen.is_terminal else None
        begin: Callable[[], None] = status.start if status else lambda: screen.print(styled(f"{what} ..."))
        timer = threading.Timer(PATIENCE_S, begin)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if status:
                status.stop()

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """As :meth:`waiting`, on a terminal with a bar. Call the yielded value with (done, total)."""
        screen = console(sys.stderr)
        if not screen.is_terminal:
            with self.waiting(what):
                yield lambda done, total: None
            return
        from rich.progress import Progress

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
    """A console that obeys no markup. Written to a file or pipe it never folds a line."""
    from rich.console import Console

    wide = None if file.isatty() else _WIDE
    return Console(file=file, markup=False, emoji=False, highlight=False, width=wide)


def complain(text: str) -> None:
    """An error, on stderr."""
    words = joined(styled("weftos: ", "bold red"), styled(readable(text), lines=True))
    console(sys.stderr).print(words, soft_wrap=True)


def readable(text: str) -> str:
    """``text`` with what is too long to read in it, such as an argument that it repeats, cut to beginning and end."""
    brief = _LONG_WORD.sub(lambda found: f"{found[0][:200]}...{found[0][-50:]}", text)
    return brief if len(brief) <= _MOST else f"{brief[: _MOST // 2]} ... {brief[-_MOST // 2 :]}"


def styled(text: str, style: str = "", *, lines: bool = False) -> Text:
    """Foreign text as a safe renderable; one that is a state's name has the state's colour."""
    from rich.text import Text

    return Text(safe_text(text, lines=lines), style=style or _STYLES.get(text, ""))


def joined(*parts: Text) -> Text:
    """Parts in one line, each in its own style."""
    from rich.text import Text

    return Text.assemble(*parts)


def shown(value: Any) -> str:
    """A value in a table cell: nothing for None, items joined by commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
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
