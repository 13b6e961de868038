"""Segment headers and frames: what the bytes of a journal file are, before anyone asks what they mean.

A journal is a row of segment files; a segment is a header and then frames, one for each group commit::

    segment header   magic (8) | format u32 | length of origin u32 | first group u64 | previous checksum (32)
                     | origin | SHA-256 of all that (32)
    frame            magic (4) | payload length u32 | group u64 | CRC-32 of these 16 bytes u32 | payload
                     | signature (64) | SHA-256 of previous checksum, frame header, payload and signature (32)

All integers are big-endian. *Previous checksum* is that of the frame before, of the segment's header for its
first frame; and a segment's header holds the last checksum of the segment before. So the checksums of a whole
journal are one chain, and no frame or file can be left out, doubled or moved unnoticed.

*Signature* is the node's Ed25519 signature of :func:`frame_statement`, over the SHA-256 of all that the checksum covers
before it. As the checksums are a chain, the signature of the last frame binds every byte before it: entries, state and
their order. It is in the journal alone and never published. Segments of format 1 have frames without it.

The CRC over the frame's header tells the two ends of a journal apart: a header that is whole and right, with
fewer bytes behind it than it announces, is a write that was cut off; anything else that does not fit was
damaged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import Literal
from zlib import crc32

SEGMENT_MAGIC = b"WEFTJRN\x01"
SEGMENT_FORMAT = 2
UNSIGNED_FORMAT = 1
FRAME_MAGIC = b"WFRM"
MAX_PAYLOAD_BYTES = 48 * 2**20
CHECKSUM_BYTES = 32
SIGNATURE_BYTES = 64
NO_CHECKSUM = bytes(CHECKSUM_BYTES)
MAX_ORIGIN_BYTES = 64

_SEGMENT = Struct(">8sIIQ32s")
_FRAME = Struct(">4sIQ")
_CRC = Struct(">I")
FRAME_HEADER_BYTES = _FRAME.size + _CRC.size
_TRAILER_BYTES = {UNSIGNED_FORMAT: CHECKSUM_BYTES, SEGMENT_FORMAT: SIGNATURE_BYTES + CHECKSUM_BYTES}
SEGMENT_HEADER_BYTES = 4096  # more than any has
MAX_FRAME_BYTES = FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES + _TRAILER_BYTES[SEGMENT_FORMAT]

_NAME = re.compile(r"([0-9a-f]{16})\.wj").fullmatch


class FormatError(Exception):
    """A segment header is not one; the message says in which way. Handled inside the package."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """``previous`` is the last checksum of the segment before (zero bytes for the first), ``origin`` the
    node's name. ``format`` says whether its frames are signed.
    """

    first_group: int
    previous: bytes
    origin: str
    format: int = SEGMENT_FORMAT


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole and right frame; ``end`` is the offset behind it.

    digest: what its signature is over; signature: empty in a segment of format 1, and not checked here.
    """

    group: int
    payload: bytes
    checksum: bytes
    end: int
    digest: bytes = b""
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class BadFrame:
    """What stands where a frame should begin.

    ``incomplete``: the beginning of a right frame, cut off. ``header``: no frame header, so nothing behind it
    can be reached. ``checksum``: a right header, and then bytes that are not the ones that were written;
    ``frame`` has them.
    """

    fault: Literal["incomplete", "header", "checksum"]
    what: str
    frame: Frame | None = None


def segment_name(first_group: int) -> str:
    """The file name of the segment that begins with group ``first_group``."""
    return f"{first_group:016x}.wj"


def segment_group(name: str) -> int | None:
    """The first group of the segment of that file name; None when it is not a segment's name."""
    match = _NAME(name)
    return int(match.group(1), 16) if match else None


def encode_segment_header(header: SegmentHeader) -> bytes:
    origin = header.origin.encode("ascii")
    start = _SEGMENT.pack(SEGMENT_MAGIC, header.format, len(origin), header.first_group, header.previous)
    return start + origin + sha256(start + origin).digest()


def decode_segment_header(data: bytes) -> tuple[SegmentHeader, int]:
    """The header at the start of ``data``, and the offset behind it. Raises :class:`FormatError`."""
    if len(data) < _SEGMENT.size:
        raise FormatError(f"file of {len(data)} bytes is too short for a segment header")
    magic, version, length, first_group, previous = _SEGMENT.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        raise FormatError(f"file begins with {magic.hex()}, a segment begins with {SEGMENT_MAGIC.hex()}")
    end = _SEGMENT.size + length
    if length > MAX_ORIGIN_BYTES or len(data) < end + CHECKSUM_BYTES:
        raise FormatError(f"segment header announces an origin of {length} bytes")
    if sha256(data[:end]).digest() != data[end : end + CHECKSUM_BYTES]:
        raise FormatError("checksum of the segment header does not match")
    if version not in _TRAILER_BYTES:
        raise FormatError(
            f"segment has format {version}, this version of weftos reads format {SEGMENT_FORMAT} and older ones"
        )
    try:
        origin = data[_SEGMENT.size : end].decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError("origin in the segment header is not ASCII") from error
    return SegmentHeader(first_group, previous, origin, version), end + CHECKSUM_BYTES


def frame_extra_bytes(format: int = SEGMENT_FORMAT) -> int:
    """How many bytes a frame has beside its payload."""
    return FRAME_HEADER_BYTES + _TRAILER_BYTES[format]


def frame_statement(origin: str, group: int, digest: bytes) -> bytes:
    """What the node signs of group ``group``: ``digest`` covers the frame and, by the chain, all before it."""
    return f"weftos/frame/1\n{origin}\n{group}\n{digest.hex()}\n".encode()


def encode_frame(
    group: int, payload: bytes, previous: bytes, sign: Callable[[bytes], bytes]
) -> tuple[bytes, bytes]:
    """The frame's bytes and its checksum; ``sign`` makes the 64 bytes of signature for the frame's digest."""
    start = _frame_header(group, payload)
    digest, seal = _digest(previous, start, payload)
    signature = sign(digest)
    checksum = seal(signature)
    return b"".join((start, payload, signature, checksum)), checksum


def frame_checksum(previous: bytes, group: int, payload: bytes, signature: bytes) -> bytes:
    """The checksum of the frame with these parts."""
    return _digest(previous, _frame_header(group, payload), payload)[1](signature)


def _frame_header(group: int, payload: bytes) -> bytes:
    start = _FRAME.pack(FRAME_MAGIC, len(payload), group)
    return start + _CRC.pack(crc32(start))


def _digest(previous: bytes, header: bytes, payload: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """What is signed of a frame, and how its signature leads on to its checksum."""
    running = sha256(previous)
    running.update(header)
    running.update(payload)

    def seal(signature: bytes) -> bytes:
        running.update(signature)
        return running.digest()

    return running.digest(), seal


def read_frame(
    data: bytes, offset: int, group: int, previous: bytes, format: int = SEGMENT_FORMAT
) -> Frame | BadFrame:
    """The frame of number ``group`` at ``offset < len(data)``, checked against the checksum before it."""
    left = len(data) - offset
    if left < FRAME_HEADER_BYTES:
        return BadFrame("incomplete", f"{left} bytes of a frame header of {FRAME_HEADER_BYTES}")
    length = frame_length(data, offset, group)
    if isinstance(length, str):
        return BadFrame("header", length)
    whole = frame_extra_bytes(format) + length
    if left < whole:
        return BadFrame("incomplete", f"{left} bytes of a frame of {whole}")
    start = offset + FRAME_HEADER_BYTES
    payload = data[start : start + length]
    end = offset + whole
    signature = data[start + length : end - CHECKSUM_BYTES]
    digest, seal = _digest(previous, data[offset:start], payload)
    expected = seal(signature)
    frame = Frame(group, payload, data[end - CHECKSUM_BYTES : end], end, digest, signature)
    if expected != frame.checksum:
        what = f"checksum of group {group} is {frame.checksum.hex()}, its bytes give {expected.hex()}"
        return BadFrame("checksum", what, frame)
    return frame


def frame_length(data: bytes, offset: int, group: int) -> int | str:
    """The payload length that the header at ``offset`` announces, or what is wrong with that header."""
    magic, length, number = _FRAME.unpack_from(data, offset)
    crc = _CRC.unpack_from(data, offset + _FRAME.size)[0]
    if crc32(data[offset : offset + _FRAME.size]) != crc:
        found = data[offset : offset + FRAME_HEADER_BYTES].hex()
        return f"the CRC of the header of group {group} does not match ({found})"
    if magic != FRAME_MAGIC:
        return f"frame begins with {magic.hex()}, must begin with {FRAME_MAGIC.hex()}"
    if number != group:
        return f"group {number} stands where group {group} should"
    if length > MAX_PAYLOAD_BYTES:
        return f"payload of {length} bytes announced, limit {MAX_PAYLOAD_BYTES}"
    return int(length)


def find_frame(data: bytes, offset: int, group: int) -> tuple[int, int] | None:
    """The first right frame header at or behind ``offset`` of a group behind ``group``: its offset and group
    number.

    Tells damage inside a journal from damage of its last frame, and lets verification go on behind the
    damage.
    """
    while (offset := data.find(FRAME_MAGIC, offset)) >= 0 and offset + FRAME_HEADER_BYTES <= len(data):
        number = _FRAME.unpack_from(data, offset)[2]
        if number > group and not isinstance(frame_length(data, offset, number), str):
            return offset, number
        offset += 1
    return None
