"""Facts that a process has found worth keeping, as lines of ``MEMORY.md`` in its workspace.

Written as the file tools write: the file as a whole, in one rename, and nothing but a regular file of the workspace.
What is in it stays; a line that it has already is not added, so a write that is made again changes nothing. It is not
written beyond what a prompt shows of it: what nobody reads is no memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from kernel.abi import Flushed
from kernel.syscall.prompts.workspace_files import FILES, MEMORY, NOTE_CHARS
from kernel.toolbox.files import FileError, read_file, write_file
from kernel.toolbox.protected import ProtectedPaths
from kernel.values import clean

MOST_FACTS = 16
FACT_CHARS = 240
HEAD = "# Memory\n\n"
_ADDING = (
    threading.Lock()
)  # sessions of one agent share a workspace: from the look at what is there to the write


def checked_facts(facts: Sequence[str]) -> list[str]:
    """Those that may be written, each in one line, none twice."""
    lines = (" ".join(clean(fact[: 4 * FACT_CHARS]).split())[:FACT_CHARS] for fact in facts[:MOST_FACTS])
    return list(dict.fromkeys(line for line in lines if line))


def write_facts(workspace: str, facts: Sequence[str], protected: ProtectedPaths) -> Flushed:
    """Add the facts that are not there yet. Why not all of them are there now is said, and raised is nothing."""
    with _ADDING:
        return _added(workspace, facts, protected)


def _added(workspace: str, facts: Sequence[str], protected: ProtectedPaths) -> Flushed:
    try:
        seen = os.lstat(os.path.join(workspace, MEMORY)) if os.path.isabs(workspace) else None
    except (OSError, ValueError):
        seen = None
    most = FILES[MEMORY]
    try:
        if seen is not None and seen.st_size > most:
            return Flushed(
                0, f"{MEMORY} has {seen.st_size} bytes, and is not added to from {most} on: shorten it"
            )
        before = read_file(workspace, MEMORY, 0, most, protected=protected) if seen is not None else HEAD
        known = {line.removeprefix("- ").strip() for line in before.splitlines()}
        text = before if not before or before.endswith("\n") else f"{before}\n"
        written = 0
        for fact in (each for each in facts if each not in known):
            if len(f"{text}- {fact}\n".encode()) > most:
                why = f"{MEMORY} is full: {len(facts) - written} facts were not written. Shorten it"
                break
            text, written = f"{text}- {fact}\n", written + 1
        else:
            why = ""
        if written:
            write_file(workspace, MEMORY, text, protected=protected)
    except FileError as error:
        return Flushed(0, f"{MEMORY} was not written: {clean(str(error))[:NOTE_CHARS]}")
    return Flushed(written, why)
