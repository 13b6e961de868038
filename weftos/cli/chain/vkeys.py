"""Verifier keys as a person gives them to a command: as text, or as files of them."""

from __future__ import annotations

from pathlib import Path

from weftos.errors import WeftosError

MAX_KEY_FILE_BYTES = 2**20


def given_keys(words: list[str]) -> tuple[str, ...]:
    """Verifier keys as they were given, or the lines of the files that were. Raises WeftosError, OSError."""
    keys: list[str] = []
    for word in words:
        file = Path(word)
        if "+" in word or not file.is_file():
            keys.append(word)
        elif file.stat().st_size > MAX_KEY_FILE_BYTES:
            raise WeftosError(
                f"{file} is longer than {MAX_KEY_FILE_BYTES} bytes: it is no file of keys", "invalid"
            )
        else:
            keys += file.read_text(errors="replace").split()
    return tuple(keys)
