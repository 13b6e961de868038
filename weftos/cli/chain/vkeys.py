"""Verifier keys as a person gives them to a command: as text, or as files of them."""

from __future__ import annotations

from pathlib import Path

from weftos.errors import WeftosError
from weftos.named_file import read_named

MAX_KEY_FILE_BYTES = 2**20


def given_keys(words: list[str]) -> tuple[str, ...]:
    """Verifier keys as they were given, or the lines of the files that were. Raises WeftosError, OSError."""
    keys: list[str] = []
    for word in words:
        file = Path(word)
        if "+" in word or not file.is_file():
            keys.append(word)
            continue
        content = read_named(file, MAX_KEY_FILE_BYTES + 1)
        if len(content) > MAX_KEY_FILE_BYTES:
            raise WeftosError(
                f"{file} is longer than {MAX_KEY_FILE_BYTES} bytes: it is no file of keys", "invalid"
            )
        keys += content.decode("utf-8", "replace").split()
    return tuple(keys)
