"""What is longer than the screen goes through the pager, as git does it."""

from __future__ import annotations

import os
from collections.abc import Iterable

_LESS = "FRX"  # leave at once what fits the screen, show styles, leave the text on the screen


def paged(lines: Iterable[str]) -> bool:
    """Show ``lines`` in ``$PAGER``, else in less, until the person leaves it. False when there is none to be had."""
    import shlex
    import subprocess

    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
        pager = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, errors="replace", env={"LESS": _LESS, **os.environ}
        )
    except (OSError, ValueError, IndexError):
        return False
    assert pager.stdin is not None
    try:
        for line in lines:
            pager.stdin.write(f"{line}\n")
        pager.stdin.close()
    except (BrokenPipeError, KeyboardInterrupt):  # left before the end
        pass
    while True:
        try:
            pager.wait()
            return True
        except KeyboardInterrupt:  # is the pager's: it stops a search
            continue
