"""In which line of a TOML file each key stands, tables in lists included: tomllib does not say.

For text that tomllib has read: what is no TOML is nowhere looked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Names of keys, and numbers of items of a list, from 0."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = re.compile(rf"^[ \t]*(\[\[?)[ \t]*({_KEY})[ \t]*\]")
_SETTING = re.compile(rf"^[ \t]*({_KEY})[ \t]*=")
_TOKEN = re.compile(r'''"""|\'\'\'|"(?:[^"\\]|\\.)*"|'[^']*'|[\[\]{}]|\#''')
_CLOSES = {'"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""'), "'''": re.compile(r"(?:[^']|'(?!''))*'''")}


class TomlLines:
    """Lines count from 1."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._lists: dict[Path, int] = {}  # the number of the last item
        self._read(text)

    def of(self, path: Path) -> int:
        """Where the key or table is written, else the nearest around it; 1 when nothing of it is."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return 1

    def all(self) -> Mapping[Path, int]:
        """All that were found."""
        return self._lines

    def _read(self, text: str) -> None:
        table: Path = ()
        inside = _Value()
        for number, line in enumerate(text.split("\n"), 1):
            if inside.is_open:
                inside.read(line)
            elif header := _HEADER.match(line):
                table = self._table(_parts(header[2]), many=header[1] == "[[")
                self._lines.setdefault(table, number)
            elif setting := _SETTING.match(line):
                self._lines.setdefault(table + _parts(setting[1]), number)
                inside.read(line[setting.end() :])

    def _table(self, parts: tuple[str, ...], many: bool) -> Path:
        """Where a header leads: into the last item of each list on the way, or with ``many`` into a new one."""
        path: Path = ()
        for part in parts[:-1]:
            path = self._into((*path, part))
        path = (*path, parts[-1])
        if many:
            self._lists[path] = self._lists.get(path, -1) + 1
        return self._into(path)

    def _into(self, path: Path) -> Path:
        return (*path, self._lists[path]) if path in self._lists else path


class _Value:
    """A value that may go on over several lines: in brackets, or in a string of three quotes."""

    def __init__(self) -> None:
        self._depth = 0
        self._quotes = ""

    @property
    def is_open(self) -> bool:
        return self._depth > 0 or bool(self._quotes)

    def read(self, line: str) -> None:
        at = 0
        while True:
            if self._quotes:
                closed = _CLOSES[self._quotes].match(line, at)
                if closed is None:
                    return
                self._quotes, at = "", closed.end()
            token = _TOKEN.search(line, at)
            if token is None or token[0] == "#":
                return
            at = token.end()
            self._depth += (token[0] in "[{") - (token[0] in "]}")
            if token[0] in _CLOSES:
                self._quotes = token[0]


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, key))
