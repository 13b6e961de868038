"""Goes through the frames of a damaged journal, and past the damage: the lenient sibling of the reader.

What is wrong is handed out as data. Everything that can still be cut out of the bytes is handed out too, so
that whoever knows what the records mean can tell which of them was touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chain.entry.frame import (
    CHECKSUM_BYTES,
    FRAME_HEADER_BYTES,
    MAX_FRAME_BYTES,
    NO_CHECKSUM,
    SEGMENT_FORMAT,
    SEGMENT_HEADER_BYTES,
    SIGNATURE_BYTES,
    UNSIGNED_FORMAT,
    BadFrame,
    FormatError,
    Frame,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
    frame_checksum,
    frame_extra_bytes,
    segment_group,
)
from chain.entry.segment_file import SegmentFile
from chain.entry.segments import Segments


@dataclass(frozen=True, slots=True)
class Scanned:
    """A frame, as far as it can be told. ``fault`` is empty for a whole and right one, else what is wrong
    with it. digest and signature: as in :class:`chain.entry.frame.Frame`.
    """

    file: str
    offset: int
    group: int
    payload: bytes
    fault: str
    digest: bytes = b""
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong that is no frame: unreadable bytes, a segment header, a missing file. ``lost``: entries
    may be gone.
    """

    file: str
    offset: int
    lost: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Torn:
    """The journal ends in the beginning of a frame, as a crash leaves it."""

    file: str
    offset: int
    bytes: int


class Scan:
    """One walk through the ``segments`` of a journal. ``closed()`` tells, of the frame handed out last,
    whether a clean stop ended there; ``progress(done, total)`` is called with bytes.
    """

    def __init__(
        self,
        segments: Segments,
        origin: str,
        closed: Callable[[], bool],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._segments = segments
        self._origin = origin
        self._closed = closed
        self._progress = progress or (lambda done, total: None)
        self._group = 0
        self._checksums: tuple[bytes, ...] = (NO_CHECKSUM,)
        self._format = SEGMENT_FORMAT

    def begin_at(self, group: int, checksum: bytes) -> None:
        """Begin with the segment of ``group``, which follows on ``checksum``."""
        self._group, self._checksums = group, (checksum,)

    def frames(self) -> Iterator[Scanned | Fault | Torn]:
        """Everything in order. Raises OSError."""
        done = 0
        for segment, last in self._segments:
            yield from self._segment(segment, last=last)
            done += segment.size
            self._progress(done, max(done, self._segments.bytes))

    def _segment(self, segment: SegmentFile, *, last: bool) -> Iterator[Scanned | Fault | Torn]:
        name, data = segment.name, segment.read(0, SEGMENT_HEADER_BYTES)
        first = segment_group(name)
        assert first is not None
        if segment.excess:
            yield Fault(name, segment.end, False, "a segment that a node has written", segment.excess)
        if first != self._group:
            yield Fault(
                name, 0, True, f"a segment that begins with group {self._group}", f"one with group {first}"
            )
            self._group = first
            self._checksums = (self._claimed_previous(data),)
        headers = [
            encode_segment_header(SegmentHeader(first, checksum, self._origin, format))
            for format in (SEGMENT_FORMAT, UNSIGNED_FORMAT)
            for checksum in self._checksums
        ]
        header = next((header for header in headers if data.startswith(header)), headers[0])
        self._format = decode_segment_header(header)[0].format
        if not data.startswith(header):
            yield _header_fault(name, data, header)
        self._checksums = (header[-CHECKSUM_BYTES:], data[len(header) - CHECKSUM_BYTES : len(header)])
        at = len(header)
        fresh = True
        while at < segment.end:
            frame = self._read(segment, at)
            if isinstance(frame, BadFrame):
                tail = last and (fresh or not self._closed())
                step, at = self._bad(frame, segment, at, may_be_torn=tail)
                yield step
            else:
                yield Scanned(name, at, frame.group, frame.payload, "", frame.digest, frame.signature)
                self._group, self._checksums, at = frame.group + 1, (frame.checksum,), frame.end
            fresh = False

    def _claimed_previous(self, data: bytes) -> bytes:
        try:
            return decode_segment_header(data)[0].previous
        except FormatError:
            return NO_CHECKSUM

    def _read(self, segment: SegmentFile, at: int) -> Frame | BadFrame:
        """The frame at ``at``, following on any of the checksums that may be the right one."""
        frame = segment.frame(at, self._group, self._checksums[0], self._format)
        for checksum in self._checksums[1:]:
            if isinstance(frame, BadFrame) and frame.fault == "checksum":
                frame = segment.frame(at, self._group, checksum, self._format)
        return frame

    def _bad(
        self, bad: BadFrame, segment: SegmentFile, at: int, *, may_be_torn: bool
    ) -> tuple[Scanned | Fault | Torn, int]:
        """What to say of the bad frame at ``at``, and where to go on."""
        name = segment.name
        if bad.frame is not None:
            frame = bad.frame
            computed = self._computed(frame.group, frame.payload, frame.signature)
            self._group, self._checksums = frame.group + 1, (frame.checksum, computed)
            return Scanned(name, at, frame.group, frame.payload, bad.what), frame.end
        later = segment.find(at + 1, self._group) if bad.fault == "header" else None
        end = later[0] if later else segment.end
        if bad.fault == "incomplete" and may_be_torn:
            return Torn(name, at, end - at), end
        if (
            bad.fault == "header"
            and frame_extra_bytes(self._format) <= end - at <= MAX_FRAME_BYTES
            and (later is None or later[1] == self._group + 1)
        ):
            data = segment.read(at, end - at)
            sealed = len(data) - CHECKSUM_BYTES - (SIGNATURE_BYTES if self._format == SEGMENT_FORMAT else 0)
            payload, stored = data[FRAME_HEADER_BYTES:sealed], data[-CHECKSUM_BYTES:]
            computed = self._computed(self._group, payload, data[sealed:-CHECKSUM_BYTES])
            step: Scanned | Fault = Scanned(name, at, self._group, payload, bad.what)
            self._group, self._checksums = self._group + 1, (stored, computed)
            return step, end
        step = Fault(name, at, True, f"the frame of group {self._group}", bad.what)
        if later:
            self._group = later[1]
            self._checksums = (segment.read(end - CHECKSUM_BYTES, CHECKSUM_BYTES),)
        return step, end

    def _computed(self, group: int, payload: bytes, signature: bytes) -> bytes:
        """The checksum that a frame of these parts has."""
        return frame_checksum(self._checksums[0], group, payload, signature)


def _header_fault(name: str, data: bytes, header: bytes) -> Fault:
    pairs = enumerate(zip(header, data, strict=False))
    at = next((index for index, (wanted, got) in pairs if wanted != got), min(len(header), len(data)))
    return Fault(name, at, False, f"segment header {header.hex()}", data[: len(header)].hex())
