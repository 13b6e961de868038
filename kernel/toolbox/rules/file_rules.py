"""Which files of a workspace its file tools may use: a part of it, no names of some forms, none beyond a size. Pure.

It is asked with the components of a path as the file tools open them, one by one and through no link: what is asked is
what is opened.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class FileRules:
    """``allowed``: for each word on it, the files and directories with all below them of which one must hold a path;
    no word: all is allowed. ``denied``: globs that match no name on the way to a file, and not the whole path, in
    whatever case and form of Unicode; one without a ``/`` inside means a name wherever it is, and ``**`` between two
    stands for any number of directories, also for none.
    ``most_bytes``: a larger file is neither read nor written; 0: any is.
    """

    allowed: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()
    most_bytes: int = 0

    def narrowed(self, other: FileRules) -> FileRules:
        """What both allow."""
        sizes = [size for size in (self.most_bytes, other.most_bytes) if size]
        return FileRules(
            (*self.allowed, *other.allowed), (*self.denied, *other.denied), min(sizes, default=0)
        )

    def against(self, components: Sequence[str]) -> str:
        """What stands against the use of that path as a file, or of what is in it; empty when nothing does."""
        if pattern := self.denial(components):
            return f"is denied here (denied_patterns: {pattern})"
        for allowed in self.allowed:
            if not any(_holds(_names(each), components) for each in allowed):
                return f"is none of what may be used here (allowed_paths: {', '.join(allowed)})"
        return ""

    def denial(self, components: Sequence[str]) -> str:
        """The pattern that denies the path, or one above it; empty when none does."""
        return next((each for each in self.denied if _denies(each, components)), "")

    def may_enter(self, components: Sequence[str]) -> bool:
        """Whether a directory may be listed: as a file may be used, or since one that may lies below it."""
        if self.denial(components):
            return False
        return all(
            any(_holds(names, components) or _holds(components, names) for names in map(_names, allowed))
            for allowed in self.allowed
        )


ALL_FILES = FileRules()


def _names(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _holds(above: Sequence[str], below: Sequence[str]) -> bool:
    """Whether the one path is the other, or a directory on its way; its names may be globs."""
    if len(above) > len(below):
        return False
    return all(
        name == pattern or fnmatchcase(name, pattern) for pattern, name in zip(above, below, strict=False)
    )


def _denies(pattern: str, components: Sequence[str]) -> bool:
    wanted = _names(_folded(pattern))
    names = [_folded(each) for each in components]
    while wanted[:1] == ("**",) and len(wanted) > 1:  # wherever it is: also at the top
        wanted = wanted[1:]
        if len(wanted) > 1:
            return any(_is_under(wanted, names[at:]) for at in range(len(names)))
    if len(wanted) < 2:  # none is the workspace itself
        return not wanted or any(fnmatchcase(name, wanted[0]) for name in names)
    return _is_under(wanted, names)


def _is_under(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a path, or a directory on its way, is meant. A ``*`` holds what lies deeper too."""
    whole = "/".join(wanted)
    return any(fnmatchcase(way, whole) for way in _ways(names)) or _is_met(wanted, names)


def _is_met(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """The same, name by name: by how many of ``wanted`` can be met by the names so far."""
    met = _skipping(wanted, {0})
    for name in names:
        stays = {at for at in met if wanted[at] == "**"}
        goes = {at + 1 for at in met if fnmatchcase(name, wanted[at])}
        met = _skipping(wanted, stays | goes)
        if len(wanted) in met:
            return True
    return False


def _skipping(wanted: Sequence[str], met: set[int]) -> set[int]:
    """With those that need no name, but for the last one."""
    for at in range(len(wanted) - 1):
        if at in met and wanted[at] == "**":
            met.add(at + 1)
    return met


def _ways(names: Sequence[str]) -> Iterable[str]:
    """The path, and each directory on its way."""
    return ("/".join(names[:length]) for length in range(len(names), 0, -1))


def _folded(text: str) -> str:
    """Without case, in one form of Unicode; what file systems that know no case take for the same is."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
