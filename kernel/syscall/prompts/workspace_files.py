"""The files of a workspace that stand in the system prompt of its process: read bounded, as its file tools would.

What is no file of the workspace (a link, a pipe, something with a second name), and what decides what the node runs, is
not shown, and its note says so. A file that is longer than it may be is shown as far as that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kernel.abi import PromptFile
from kernel.toolbox.files import FileError, read_file
from kernel.toolbox.protected import ProtectedPaths
from kernel.values import clean, cut_bytes

KIB = 1024
MEMORY = "MEMORY.md"
FILES: Mapping[str, int] = {"IDENTITY.md": 4 * KIB, "SOUL.md": 4 * KIB, "USER.md": 4 * KIB, MEMORY: 8 * KIB}
"""What a prompt is made of, and how many bytes of each."""
NOTE_CHARS = 200
Looked = tuple[tuple[str, int, int, int, int], ...]


def look(workspace: str) -> Looked:
    """Which of them there are, each with what changes when it does; nothing is opened."""
    found = []
    for name in FILES if os.path.isabs(workspace) else ():
        try:
            seen = os.lstat(os.path.join(workspace, name))
        except (OSError, ValueError):
            continue
        found.append((name, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return tuple(found)


def read_files(workspace: str, looked: Looked, protected: ProtectedPaths) -> tuple[PromptFile, ...]:
    """Those that were seen, in the order in which a prompt has them."""
    return tuple(_read(workspace, name, size, protected) for name, _, size, _, _ in looked)


def _read(workspace: str, name: str, size: int, protected: ProtectedPaths) -> PromptFile:
    most = FILES[name]
    try:
        text = read_file(workspace, name, 0, most, protected=protected)
    except FileError as error:
        return PromptFile(name, "", f"not shown: {clean(str(error))[:NOTE_CHARS]}")
    if size <= most:
        return PromptFile(name, cut_bytes(text, most)[0])
    return PromptFile(name, cut_bytes(text, most)[0], f"the first {most} of {size} bytes")
