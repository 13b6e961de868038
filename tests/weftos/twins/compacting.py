"""Has a snapshot made and put in its place, without a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.frame import decode_segment_header, segment_name
from chain.state.snapshot import place_snapshot, read_signed
from weftos.helpers.compact import compact

LIMITS = (256, 2**18)


def written_before(data: Path, group: int) -> bytes:
    """The checksum of the frame before a segment."""
    path = data / "journal" / segment_name(group)
    return decode_segment_header(path.read_bytes())[0].previous if path.exists() else bytes(32)


def made(data: Path, group: int, checksum: bytes | None = None) -> dict[str, Any]:
    """Have a snapshot made and put it in its place, as a node does that knows its own journal."""
    found = read_signed(data / "snapshot", Disk())
    if checksum is None and found is not None and found.snapshot.group == group:
        checksum = found.snapshot.checksum
    upto = (group, checksum or written_before(data, group))
    said = compact(data, upto, LIMITS, found.digest if found else b"")
    place_snapshot(data / "snapshot", Disk(), bytes.fromhex(said["digest"]), b"note")
    return said
