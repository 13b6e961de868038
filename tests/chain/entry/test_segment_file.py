"""A segment in a copy from somebody else may claim any size: what is read of it is bounded, and said in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.frame import MAX_FRAME_BYTES
from chain.entry.reader import JournalReader, Position
from chain.entry.segment_file import MAX_SEGMENT_BYTES
from chain.errors import DamageError
from chain.state.binding import last_frame
from chain.verify.verify import verify
from tests.chain.twins.ledgers import KEYS, fill


class BoundedDisk(Disk):
    """Refuses to take more than one frame into memory at once."""

    def read(self, path: Path) -> bytes:
        assert self.size(path) <= MAX_FRAME_BYTES
        return Disk.read(self, path)

    def read_at(self, path: Path, offset: int, length: int) -> bytes:
        assert min(length, self.size(path) - offset) <= MAX_FRAME_BYTES
        return Disk.read_at(self, path, offset, length)

    def read_open(self, handle: int, offset: int, length: int) -> bytes:
        assert length <= MAX_FRAME_BYTES
        return Disk.read_open(self, handle, offset, length)


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """A data directory whose only segment claims 12 GiB."""
    fill(tmp_path, 3)
    (path,) = (tmp_path / "journal").iterdir()
    os.truncate(path, 12 * 2**30)
    return tmp_path


def test_a_segment_that_claims_more_than_any_has_is_damage_and_none_of_it_is_held(sparse: Path) -> None:
    words = f"has {12 * 2**30} bytes, a segment has at most {MAX_SEGMENT_BYTES}"
    with pytest.raises(DamageError, match=words):
        list(JournalReader(sparse / "journal", BoundedDisk()).groups())
    last = last_frame(sparse / "journal", BoundedDisk(), Position(), KEYS.origin)
    assert last is not None
    (named,) = (finding for finding in verify(sparse, disk=BoundedDisk()).findings if words in finding.found)
    assert named.kind == "segment"


def test_a_rest_of_nothing_is_looked_through_a_little_at_a_time(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    (path,) = (tmp_path / "journal").iterdir()
    *_, closing = JournalReader(tmp_path / "journal", Disk()).groups()
    os.truncate(path, closing.offset)
    os.truncate(path, 100 * 2**20)
    reader = JournalReader(tmp_path / "journal", BoundedDisk())
    assert len(list(reader.groups())) == closing.number
    assert reader.tail is not None and reader.tail.bytes == 100 * 2**20 - closing.offset
    assert any("CRC" in finding.found for finding in verify(tmp_path, disk=BoundedDisk()).findings)
