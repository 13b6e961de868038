"""One configuration file as data: read within bounds, and asked in which line a key stands.

tomllib tells no positions, so the line is found by a scan that answers only when a single line can be meant.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weftos.errors import WeftosError
from weftos.named_file import read_named
from weftos.safe_text import safe_text

MAX_FILE_BYTES = 64 * 1024
MAX_LINE_CHARACTERS = 4096  # tomllib takes quadratic time over the parts of one dotted key

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_TABLE_LINE = re.compile(rf"^[ \t]*\[[ \t]*({_KEY})[ \t]*\][ \t]*(?:#.*)?$")
_KEY_LINE = re.compile(rf"^[ \t]*({_KEY})[ \t]*=")

KeyPath = tuple[str, ...]


class ConfigError(WeftosError):
    """The configuration cannot be used. ``faults`` holds one sentence each, in the order found."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults), "invalid")
        self.faults = faults


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Text and content of ``path``. Raises ConfigError for anything that is not a sound, small TOML file."""
    data = _read_bounded(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE_CHARACTERS:
            raise ConfigError(
                f"{path}:{number}: line of {len(line)} characters, {MAX_LINE_CHARACTERS} allowed"
            )
    try:
        return text, tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {safe_text(str(error))[:300]}") from None


def _read_bounded(path: Path) -> bytes:
    try:
        data = read_named(path, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    return data


def find_line(text: str, path: KeyPath) -> int | None:
    """The line, from 1, where the key or table ``path`` is written, or the table around it.

    None when that is nowhere, in several places, or when multi-line strings make a scan unreliable.
    """
    if '"""' in text or "'''" in text:
        return None
    written = list(_written_keys(text))
    for length in range(len(path), 0, -1):
        lines = [number for number, key in written if key == path[:length]]
        if lines:
            return lines[0] if len(lines) == 1 else None
    return None


def _written_keys(text: str) -> Iterator[tuple[int, KeyPath]]:
    table: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        if match := _TABLE_LINE.match(line):
            table = _parts(match[1])
            yield number, table
        elif match := _KEY_LINE.match(line):
            yield number, table + _parts(match[1])


def _parts(key: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))
