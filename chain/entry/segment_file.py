"""A segment of the journal, open to read: whatever its size, no more than one frame of it is held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chain.disk import Disk
from chain.entry.frame import (
    FRAME_HEADER_BYTES,
    MAX_FRAME_BYTES,
    BadFrame,
    Frame,
    find_frame,
    frame_extra_bytes,
    frame_length,
    read_frame,
)

MAX_SEGMENT_BYTES = 2**30 + MAX_FRAME_BYTES
"""More than any has: it is closed when it is over what was configured, 2**30 bytes at most."""
_WINDOW_BYTES = 2**20


class SegmentFile:
    """The segment at ``path`` as long as it is now; it stays the same one when a running node drops it.

    ``size``: its bytes; ``end``: behind the last one that is read, for what no segment may have is not. Raises OSError,
    as every method does. To be closed.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.name = path.name
        self.size = disk.size(path)
        self.end = min(self.size, MAX_SEGMENT_BYTES)
        self._disk = disk
        self._handle = disk.open_to_read(path)
        self._window = b""
        self._begin = 0  # of the window

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the descriptor."""
        self._disk.close(self._handle)

    @property
    def excess(self) -> str:
        """In words, that it has more bytes than a segment may have; empty when it has not."""
        if self.size <= MAX_SEGMENT_BYTES:
            return ""
        return f"it has {self.size} bytes, a segment has at most {MAX_SEGMENT_BYTES}"

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        length = min(length, self.end - offset)
        return self._disk.read_open(self._handle, offset, length) if length > 0 else b""

    def frame(self, offset: int, group: int, previous: bytes, format: int) -> Frame | BadFrame:
        """As :func:`chain.entry.frame.read_frame`."""
        self._hold(offset, FRAME_HEADER_BYTES)
        at = offset - self._begin
        if len(self._window) - at >= FRAME_HEADER_BYTES:
            length = frame_length(self._window, at, group)
            if not isinstance(length, str):
                self._hold(offset, frame_extra_bytes(format) + length)
                at = offset - self._begin
        found = read_frame(self._window, at, group, previous, format)
        if isinstance(found, Frame):
            return replace(found, end=found.end + self._begin)
        if found.frame is not None:
            return replace(found, frame=replace(found.frame, end=found.frame.end + self._begin))
        return found

    def find(self, offset: int, group: int) -> tuple[int, int] | None:
        """As :func:`chain.entry.frame.find_frame`."""
        while offset + FRAME_HEADER_BYTES <= self.end:
            data = self.read(offset, _WINDOW_BYTES)
            if found := find_frame(data, 0, group):
                return offset + found[0], found[1]
            if len(data) < FRAME_HEADER_BYTES:
                break
            offset += len(data) - FRAME_HEADER_BYTES + 1
        return None

    def _hold(self, offset: int, length: int) -> None:
        """Have ``length`` bytes from ``offset`` in the window, or those that there are."""
        end = min(offset + length, self.end)
        if not self._begin <= offset <= end <= self._begin + len(self._window):
            self._window = b""
            self._window, self._begin = self.read(offset, max(length, _WINDOW_BYTES)), offset
