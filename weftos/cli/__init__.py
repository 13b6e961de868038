"""The command line. ``main`` is the entry point ``weftos``; everything heavier than typer loads with its command."""

from __future__ import annotations

import os
import sys

from weftos.errors import WeftosError


def main() -> None:
    """Run the command in ``sys.argv``; exits with 0, 1 (a negative answer) or 2 (wrong use)."""
    from weftos.cli.app import app

    try:
        app(prog_name="weftos")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who read our output has gone
        sys.exit(1)
    except Exception as error:
        words = _words(error)
        if words is None:
            raise
        from weftos.cli.output import complain

        complain(words)
        sys.exit(1)


def _words(error: Exception) -> str | None:
    """What to tell a person about ``error``; None when it is a fault of ours, which shows its traceback."""
    expected: list[type[Exception]] = [WeftosError]
    for module, name in (("chain.errors", "ChainError"), ("kernel.errors", "KernelError")):
        if module in sys.modules:
            expected.append(getattr(sys.modules[module], name))
    if isinstance(error, tuple(expected)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return None
