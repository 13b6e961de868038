"""``[agent.workspace]``: where agents keep their files, and which files they may use there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le, MaxLen, MinLen, Predicate


def leads_nowhere_else(pattern: str) -> bool:
    """must be of paths below the workspace, without .."""
    return ".." not in pattern.split("/")


FilePattern = Annotated[str, MinLen(1), MaxLen(1_024), Predicate(leads_nowhere_else)]
FilePatterns = Annotated[tuple[FilePattern, ...], MaxLen(256)]


def is_absolute(path: str) -> bool:
    """must be an absolute path"""
    return not path or (path.startswith("/") and "\0" not in path)


@dataclass(frozen=True, slots=True)
class WorkspaceConfig:
    """``root``: the directory of each agent whose spawn names none; empty: each has one of its own in the data
    directory. ``allowed_paths``: files, and directories with all below them, that file tools may use; empty: all of
    the workspace. ``denied_patterns``: globs of what they may not use, held against each name on the way to a file and
    against the whole path, whatever the case; ``**/`` is any number of directories, also none. ``max_file_size_mb``: a
    larger file is neither read nor written; in millions of bytes.
    """

    root: Annotated[str, MaxLen(4_096), Predicate(is_absolute)] = ""
    allowed_paths: FilePatterns = ()
    denied_patterns: FilePatterns = ()
    max_file_size_mb: Annotated[float, Gt(0), Le(1_000_000)] = 10.0
