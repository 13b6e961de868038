"""What this user has seen of ledgers, as ssh remembers hosts: of each origin the newest full head that was verified,
and its keys. A copy that was rolled back, or that has another history, is noticed by it.

``heads/ORIGIN.note``, ``heads/ORIGIN.published`` and ``heads/ORIGIN.vkeys`` in the user's configuration directory.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from chain.errors import ChainError
from chain.merkle.head import parse_head
from chain.notes.note import MAX_NOTE_BYTES, parse
from chain.tiles.tile_store import MAX_VKEYS_BYTES

_ORIGIN = re.compile(r"weftos-[a-z2-7]{1,64}").fullmatch


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_CONFIG_HOME/weftos``, else ``~/.config/weftos``."""
    if base := environment.get("XDG_CONFIG_HOME"):
        return Path(base) / "weftos"
    return Path.home() / ".config" / "weftos"


class KnownHeads:
    """The heads in ``directory``, by default those of this user. Raises OSError."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or config_directory() / "heads"

    def note(self, origin: str) -> bytes | None:
        """The newest head of ``origin`` that was remembered."""
        return self._read(origin, "note", MAX_NOTE_BYTES)

    def published(self, origin: str) -> bytes | None:
        """The newest head of ``origin`` that was remembered as published: behind the newest one by what was signed and
        not published yet.
        """
        return self._read(origin, "published", MAX_NOTE_BYTES)

    def demanded(self, origin: str, published_size: int | None) -> tuple[bytes | None, int]:
        """The head that a ledger of ``origin`` must continue, a published one by itself of ``published_size``.

        When that is smaller than the newest head, it must continue what was published when that was seen, and how many
        entries the newest head covers is told too; else that is 0.
        """
        note, published = self.note(origin), self.published(origin)
        if note and published and published_size is not None and published_size < size_of(note):
            return published, size_of(note)
        return note, 0

    def vkeys(self, origin: str) -> bytes | None:
        """The keys it was verified under, from the first ones on."""
        return self._read(origin, "vkeys", MAX_VKEYS_BYTES)

    def remember(self, origin: str, note: bytes, vkeys: bytes, published: bytes = b"") -> bool:
        """Keep ``note``, which was verified, if it covers more than what is kept; whether it does. So with the head
        that was ``published`` then.
        """
        if not _ORIGIN(origin) or not note:
            return False
        known = self.note(origin)
        newer = known is None or size_of(known) < size_of(note)
        before = self.published(origin) or known  # an older version kept one alone
        further = bool(published) and (before is None or size_of(before) < size_of(published))
        if not newer and not further:
            return False
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if further:
            self._write(f"{origin}.published", published)
        if newer:
            self._write(f"{origin}.vkeys", vkeys)
            self._write(f"{origin}.note", note)
        self._sync_names()
        return newer

    def _read(self, origin: str, kind: str, limit: int) -> bytes | None:
        if not _ORIGIN(origin):
            return None
        try:
            with open(self._directory / f"{origin}.{kind}", "rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        """Whole or not at all; mode 0600."""
        handle, new = tempfile.mkstemp(dir=self._directory, prefix=f"{name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(new, self._directory / name)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise

    def _sync_names(self) -> None:
        """A head that a power cut takes back would let a rolled-back copy pass."""
        for directory in (self._directory, self._directory.parent):
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def size_of(note: bytes) -> int:
    """How many entries a head covers; -1 for what is no head any more."""
    try:
        return parse_head(parse(note).text).size
    except ChainError:
        return -1
