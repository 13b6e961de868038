"""The writing end of the journal: appends frames, rolls segments, and cuts off what could not be written.

One thread at a time. After any error of :meth:`Journal.append` nothing that was on the disk before is lost or
changed; the next append first repairs: the descriptor is given up (after a failed fsync it is not to be
trusted), the file opened anew, its last good frame read back and compared, everything behind it cut off. The
same payload then makes the very same frame.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from time import monotonic

from chain.disk import Disk
from chain.entry.frame import (
    SEGMENT_FORMAT,
    SegmentHeader,
    decode_segment_header,
    encode_frame,
    encode_segment_header,
    frame_statement,
    segment_group,
    segment_name,
)
from chain.entry.reader import Position
from chain.errors import DamageError

SEGMENT_BYTES = 64 * 2**20
_NEW = "next.new"


class Journal:
    """Open for appending behind ``position``, which a :class:`~chain.entry.reader.JournalReader` has reached.

    What is behind it is cut off. What was read up to there may be in the machine's memory alone, when a process was
    killed before its sync: nothing is built on it before it is on the disk. Every opening begins a segment of its own
    (an empty one is taken over), so that within a segment nothing ever follows a clean stop. Raises OSError.

    ``began``: the present segment's first group, and the checksum that it follows on. ``waited_s``: how long the newest
    frame has waited for its sync so far.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        origin: str,
        position: Position,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._origin = origin
        self._segment_bytes = segment_bytes
        self._handle: int | None = None
        self._dirty = False
        self._begun: tuple[bytes, bytes] | None = None
        self.waited_s = 0.0
        self._path = directory / (position.file or segment_name(0))
        self._offset = position.offset
        self._placed = True
        self._last = b""
        self._last_offset = position.offset
        self._checksum = position.checksum
        self.next_group = position.group
        self.began = (position.group, position.checksum)
        self._open(position)

    def _open(self, position: Position) -> None:
        if not position.file:
            self._roll()
            return
        self._handle = self._disk.open(self._path)
        if self._disk.size(self._path) != self._offset:
            self._disk.truncate(self._handle, self._offset)
        self._disk.sync(self._handle)
        self._disk.sync_directory(self._directory)
        if position.file != segment_name(self.next_group):
            self._roll()
            return
        data = self._disk.read_at(self._path, 0, self._offset)
        header, _ = decode_segment_header(data)
        if header.format != SEGMENT_FORMAT:  # an older version left it empty
            self._checksum = header.previous
            self._roll()
            return
        self.began = (self.next_group, header.previous)
        self._last_offset = 0
        self._last = sha256(data).digest()

    @property
    def at_rest(self) -> bool:
        """Whether the next frame can be written as it is, without repair and without a new segment."""
        sound = self._placed and not self._dirty
        return sound and self._handle is not None and self._offset < self._segment_bytes

    def append(self, payload: bytes, sign: Callable[[bytes], bytes]) -> int:
        """Write one frame and return its group number once it is on the disk. ``sign`` makes the Ed25519 signature of
        a statement, always the same one. Raises OSError, DamageError.
        """
        self._make_sound()
        if self._offset >= self._segment_bytes:
            self._roll()
        frame, checksum = self._write(payload, sign)
        assert self._handle is not None
        began_s, self.waited_s = monotonic(), 0.0
        self._disk.sync(self._handle)
        self.waited_s = monotonic() - began_s
        return self._appended(frame, checksum)

    def append_within(self, payload: bytes, sign: Callable[[bytes], bytes], within_s: float) -> int | None:
        """The same where the journal is :attr:`at_rest`, and return after ``within_s`` seconds of waiting at the
        latest. None: it is not on the disk yet, and :meth:`finish` is to be called before anything else. Raises
        OSError.
        """
        frame, checksum = self._write(payload, sign)
        assert self._handle is not None
        began_s, self.waited_s = monotonic(), 0.0
        synced = self._disk.sync_within(self._handle, within_s)
        self.waited_s = monotonic() - began_s
        if synced:
            return self._appended(frame, checksum)
        self._begun = frame, checksum
        return None

    def finish(self) -> int:
        """Wait until the frame that was begun is on the disk; its group number. Raises OSError; then it is to be
        appended again.
        """
        assert self._handle is not None and self._begun is not None
        (frame, checksum), self._begun = self._begun, None
        began_s = monotonic()
        self._disk.sync(self._handle)
        self.waited_s += monotonic() - began_s
        return self._appended(frame, checksum)

    def _write(self, payload: bytes, sign: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
        """A frame and its checksum, written behind the last one."""
        assert self._handle is not None
        group = self.next_group
        frame, checksum = encode_frame(
            group,
            payload,
            self._checksum,
            lambda digest: sign(frame_statement(self._origin, group, digest)),
        )
        self._dirty = True
        self._disk.write(self._handle, self._offset, frame)
        return frame, checksum

    def _appended(self, frame: bytes, checksum: bytes) -> int:
        """The frame is on the disk; its group's number."""
        self._dirty = False
        self._last_offset = self._offset
        self._last = sha256(frame).digest()
        self._offset += len(frame)
        self._checksum = checksum
        self.next_group += 1
        return self.next_group - 1

    def roll(self) -> int:
        """Begin a new segment, unless the present one has no frame yet; the first group of the last segment.

        Raises OSError, DamageError.
        """
        self._make_sound()
        if self._path.name != segment_name(self.next_group):
            self._roll()
        return self.next_group

    def sealed(self) -> list[str]:
        """The names of the segments before the present one."""
        names = self._disk.names(self._directory)
        return [name for name in names if segment_group(name) is not None and name < self._path.name]

    def _roll(self) -> None:
        """Begin the segment of the next group: written and synced under another name, then put in place."""
        header = encode_segment_header(SegmentHeader(self.next_group, self._checksum, self._origin))
        path = self._directory / segment_name(self.next_group)
        handle = self._disk.create(self._directory / _NEW)
        try:
            self._disk.write(handle, 0, header)
            self._disk.sync(handle)
            self._disk.rename(self._directory / _NEW, path)
        except BaseException:
            self._disk.close(handle)
            raise
        self._placed = False
        old, self._handle = self._handle, handle
        self._path = path
        self._last_offset, self._offset = 0, len(header)
        self._last = sha256(header).digest()
        self.began = (self.next_group, self._checksum)
        self._checksum = header[-32:]
        if old is not None:
            self._disk.close(old)
        self._place()

    def _make_sound(self) -> None:
        """After a failure: what is gone on from is what was written and synced."""
        if not self._placed:
            self._place()
        if self._dirty:
            self._repair()

    def _place(self) -> None:
        """Have the present segment's name on the disk: it is in its place, and there is no going back behind it."""
        self._disk.sync_directory(self._directory)
        self._placed = True

    def _repair(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)
        self._handle = self._disk.open(self._path)
        kept = self._disk.read_at(self._path, self._last_offset, self._offset - self._last_offset)
        if sha256(kept).digest() != self._last:
            what = "the last frame that was written and synced does not read back"
            raise DamageError(self._path.name, self._last_offset, -1, what)
        self._disk.truncate(self._handle, self._offset)  # on the disk with the frame that follows
        self._dirty = False

    def close(self) -> None:
        """Give up the descriptor. Whatever was appended is on the disk already."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)
