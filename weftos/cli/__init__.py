"""The command line. ``main`` is the entry point ``weftos``; everything heavier than typer loads with its command."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from weftos.errors import WeftosError

_ADVICE = {
    errno.ENOENT: "there is nothing of that name: check it",
    errno.ENOTDIR: "what should be a directory there is a file: check the path",
    errno.EISDIR: "it is a directory: name a file",
    errno.EACCES: "you may not: look at its owner and mode (ls -ld), of the directories above it too",
    errno.EPERM: "you may not: look at its owner and mode (ls -ld), of the directories above it too",
    errno.EEXIST: "it is there already: choose another name",
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room within your quota",
    errno.EROFS: "choose a place that can be written",
    errno.ENAMETOOLONG: "give a shorter one",
    errno.ELOOP: "symbolic links lead round in a circle: check them (ls -l)",
    errno.EMFILE: "allow more open files (ulimit -n)",
}


def main() -> None:
    """Run the command in ``sys.argv``; exits with 0, 1 (a negative answer) or 2 (wrong use)."""
    import typer

    from weftos.cli.app import app
    from weftos.cli.terminal.arguments import command_for

    status: object = 0
    try:
        status = command_for(app, sys.argv[1:])(prog_name="weftos", standalone_mode=False)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who read our output has gone
        sys.exit(1)
    except typer.Abort:
        sys.exit(1)
    except Exception as error:
        if isinstance(
            error, typer.BadParameter.__bases__
        ):  # any wrong use: typer exports no name for the base
            _show_use(error)
            sys.exit(2)
        words = _words(error)
        if words is None:
            raise
        from weftos.cli.terminal.output import complain

        complain(words)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


def _show_use(error: Any) -> None:
    """What was wrong with the command line, which may hold anything."""
    from weftos.cli.terminal.output import readable, show
    from weftos.cli.terminal.styles import styled

    told = io.StringIO()
    error.show(file=told)
    text = readable(told.getvalue().rstrip().replace("Value error, ", ""))
    show(styled(text, lines=True), sys.stderr)


def _words(error: Exception) -> str | None:
    """What to tell a person about ``error``; None when it is a fault of ours, which shows its traceback."""
    expected: list[type[Exception]] = [WeftosError]
    for module, name in (("chain.errors", "ChainError"), ("kernel.errors", "KernelError")):
        if module in sys.modules:
            expected.append(getattr(sys.modules[module], name))
    if isinstance(error, tuple(expected)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        return "; ".join(filter(None, (what, _ADVICE.get(error.errno or 0))))
    return None
