"""A key that lies in a file: read when a provider is built, so that a gateway that is begun anew has the newest one.

Whoever else could read the file has the key, and whoever could write it has the provider asked with another one: so it
must be a file of this user's own, of mode 0600 or less, and no link.
"""

from __future__ import annotations

import os
import stat

from cognition.errors import ConfigurationError

MOST_BYTES = 16 * 2**10


def read_key_file(name: str, path: str) -> str:
    """What it holds. Raises :class:`ConfigurationError`, which never shows that."""
    where = f"provider {name}: api_key_file {path}"
    if not os.path.isabs(path):
        raise ConfigurationError(f"{where} is no absolute path")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"{where} is no file")
        if status.st_uid != os.getuid():
            raise ConfigurationError(f"{where} belongs to user {status.st_uid}, not to {os.getuid()}")
        if (mode := stat.S_IMODE(status.st_mode)) & 0o177:
            raise ConfigurationError(f"{where} has mode {mode:04o}, must be 0600: chmod 600 {path}")
        if status.st_size > MOST_BYTES:
            raise ConfigurationError(f"{where} has {status.st_size} bytes, limit {MOST_BYTES}")
        return os.read(fd, MOST_BYTES).decode("ascii")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{where} holds characters that a key cannot have") from None
    finally:
        os.close(fd)
