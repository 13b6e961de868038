"""Somebody who can write the journal and has no key: takes segments apart, and makes them with right sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chain.entry.frame import (
    CHECKSUM_BYTES,
    SEGMENT_FORMAT,
    SIGNATURE_BYTES,
    BadFrame,
    SegmentHeader,
    decode_segment_header,
    encode_frame,
    encode_segment_header,
    read_frame,
)

NO_SIGNATURE = bytes(SIGNATURE_BYTES)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A frame's payload, and the signature that stood behind it."""

    payload: bytes
    signature: bytes = NO_SIGNATURE

    def with_payload(self, payload: bytes) -> Sealed:
        return replace(self, payload=payload)


def taken_apart(data: bytes) -> tuple[SegmentHeader, list[Sealed]]:
    """A segment's header, and its frames."""
    header, at = decode_segment_header(data)
    checksum = data[at - CHECKSUM_BYTES : at]
    frames: list[Sealed] = []
    while at < len(data):
        frame = read_frame(data, at, header.first_group + len(frames), checksum, header.format)
        assert not isinstance(frame, BadFrame), frame.what
        frames.append(Sealed(frame.payload, frame.signature))
        at, checksum = frame.end, frame.checksum
    return header, frames


def put_together(header: SegmentHeader, frames: Sequence[Sealed]) -> bytes:
    """The segment of these frames. Of format 1, as versions wrote it that signed nothing, when ``header`` says so."""
    data = encode_segment_header(header)
    checksum = data[-CHECKSUM_BYTES:]
    parts = [data]
    for number, sealed in enumerate(frames, header.first_group):
        signature = sealed.signature if header.format == SEGMENT_FORMAT else b""
        frame, checksum = encode_frame(number, sealed.payload, checksum, partial(_given, signature))
        parts.append(frame)
    return b"".join(parts)


def _given(signature: bytes, digest: bytes) -> bytes:
    return signature


def rechained(directory: Path, changed: Path, data: bytes) -> None:
    """Put ``data`` in the place of the segment ``changed`` of the journal ``directory``, and mend the checksums of all
    segments behind it.
    """
    changed.write_bytes(data)
    checksum = b""
    for path in sorted(directory.iterdir()):
        header, frames = taken_apart(path.read_bytes())
        if path.name > changed.name:
            path.write_bytes(put_together(replace(header, previous=checksum), frames))
        checksum = path.read_bytes()[-CHECKSUM_BYTES:]
