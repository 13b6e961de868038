"""What decides what a node runs and whom it believes: its configuration, the code it loads, the certificates it trusts.

Beside the node's own directories (:mod:`kernel.toolbox.data_mark`) this too is shown by no workspace: who can write it
needs no other right. Each is known by its name, whether something is there or not, and by device and inode of what is
there now: a mount, or another name of the file, leads to it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Identity = tuple[int, int]
Key = str | Identity


class ProtectedPaths:
    """Absolute paths of files and directories, those that links lead to among them. ``own_groups``: the groups of which
    nobody is but the node's user: what they may write is written by nobody else.
    """

    def __init__(self, paths: Iterable[str] = (), own_groups: Iterable[int] = ()) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self.own_groups = tuple(own_groups)
        self._exactly = {path: path for path in reversed(self.paths)}
        self._around = {step: path for path in reversed(self.paths) for step in _upwards(path)}

    def identities(self) -> frozenset[Identity]:
        """Device and inode of each that is there now."""
        return frozenset(key for path in self.paths for key in _keys(path) if isinstance(key, tuple))

    def covers(self, directory: int, name: str) -> bool:
        """Whether ``name`` in the directory behind this descriptor is one of them. Raises OSError."""
        if os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name) in self.paths:
            return True
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return identity(found) in self.identities()

    def shown_by(self, workspaces: Iterable[str], own: Path, looked: Looked | None = None) -> dict[str, str]:
        """Of each of these workspaces that holds one of them, or lies in one, which it is.

        What lies around ``own``, where the node makes the workspaces of its agents, does not count for those in there.
        ``looked``: what was seen for others a moment ago.
        """
        looked = Looked() if looked is None else looked
        within, exactly = _Known(self._around, looked), _Known(self._exactly, looked)
        end = frozenset(looked(str(own)))
        found = {}
        for workspace in workspaces:
            path = within.first([workspace]) or exactly.first(_below(workspace, end, looked))
            if path:
                found[workspace] = path
        return found


NOTHING_PROTECTED = ProtectedPaths()


def identity(found: os.stat_result) -> Identity:
    """What stays the same whatever way leads there."""
    return found.st_dev, found.st_ino


def _keys(path: str) -> tuple[Key, ...]:
    try:
        return path, identity(os.stat(path))
    except OSError:
        return (path,)


class Looked(dict[str, tuple[Key, ...]]):
    """By its path, what each is known by: thousands lie in one directory, which is looked at once."""

    def __call__(self, path: str) -> tuple[Key, ...]:
        keys = self.get(path)
        if keys is None:
            keys = self[path] = _keys(path)
        return keys


def _upwards(path: str) -> Iterator[str]:
    yield path
    while (above := os.path.dirname(path)) != path:
        yield (path := above)


def _below(path: str, end: frozenset[Key], looked: Looked) -> Iterator[str]:
    for step in _upwards(path):
        yield step
        if not end.isdisjoint(looked(step)):
            return


class _Known:
    """Paths by their names, and by what is there now: that is looked at once, when something is there to compare."""

    def __init__(self, named: Mapping[str, str], looked: Looked) -> None:
        self._named = named
        self._looked = looked
        self._there: dict[Key, str] | None = None

    def first(self, steps: Iterable[str]) -> str:
        """What the first of ``steps`` that is one of them stands for; empty when none is."""
        return next((path for step in steps for key in self._looked(step) if (path := self._get(key))), "")

    def _get(self, key: Key) -> str:
        if isinstance(key, str):
            return self._named.get(key, "")
        if self._there is None:
            self._there = {key: path for step, path in self._named.items() for key in self._looked(step)}
        return self._there.get(key, "")
