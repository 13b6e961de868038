"""Bodies cut out of the files of a published ledger: those that are meant and no others, whatever happens meanwhile."""

from __future__ import annotations

import errno
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.disk import Disk
from chain.errors import TileError
from chain.tiles.erasure import erase_bodies
from chain.tiles.tile_paths import body_file, body_piece
from tests.chain.twins.memory_disk import Inode, MemoryDisk, PowerCut

FOLDER = Path("/node/ledger")
PIECES = [(0, 5), (5, 6), (6, 40)]


def body(seq: int) -> bytes:
    return b"s" * 32 + b"body %d." % seq


def encoded(seqs: range, erased: set[int] | None = None) -> bytes:
    gone = erased or set()
    return b"".join(
        pack(">I", len(text)) + text for text in (b"" if seq in gone else body(seq) for seq in seqs)
    )


def files(erased: set[int] | None = None) -> dict[Path, bytes]:
    """Bundles 0 to 3 full (0 with its pieces still there), 4 in three pieces; the last piece ends with entry 1063."""
    found = {FOLDER / body_file(n): encoded(range(n * 256, n * 256 + 256), erased) for n in range(4)}
    for bundle in (0, 4):
        for first, end in PIECES:
            seqs = range(bundle * 256 + first, bundle * 256 + end)
            found[FOLDER / body_piece(bundle, first, end)] = encoded(seqs, erased)
    return found


def published() -> MemoryDisk:
    disk = MemoryDisk()
    disk.names_now = {path: Inode(bytearray(content), content) for path, content in files().items()}
    disk.names_synced = dict(disk.names_now)
    return disk


def content(disk: MemoryDisk) -> dict[Path, bytes]:
    return {path: bytes(inode.now) for path, inode in disk.names_now.items() if path.suffix != ".new"}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 1063), st.integers(0, 600)), min_size=1, max_size=6))
def test_what_is_meant_is_gone_and_the_rest_is_there(parts: list[tuple[int, int]]) -> None:
    ranges = [(first, min(first + more, 1063)) for first, more in parts]
    gone = {seq for first, last in ranges for seq in range(first, last + 1)}
    disk = published()
    count = erase_bodies(FOLDER, disk, ranges)
    assert content(disk) == content(disk.crash()) == files(gone)
    assert count == len(gone) + sum(seq < 40 for seq in gone)  # bundle 0 is there twice
    steps = len(disk.log)
    assert erase_bodies(FOLDER, disk, ranges) == 0
    assert {*disk.log[steps:]} <= {"sync_directory"}  # a second time nothing is written


def test_a_power_cut_at_any_step_leaves_whole_files_and_the_next_run_finishes() -> None:
    ranges = [(3, 7), (250, 260), (1030, 1031)]
    gone = {seq for first, last in ranges for seq in range(first, last + 1)}
    before, after = files(), files(gone)
    for at in range(1000):
        disk = published()
        disk.cut_at, disk.torn = at, 7
        try:
            erase_bodies(FOLDER, disk, ranges)
        except PowerCut:
            left = disk.crash()
            assert all(found in (before[path], after[path]) for path, found in content(left).items())
            erase_bodies(FOLDER, left, ranges)
            assert content(left) == content(left.crash()) == after
        else:
            assert at > 10
            return


def test_what_a_killed_process_had_erased_does_not_come_back_with_a_power_cut() -> None:
    ranges = [(3, 7), (250, 260), (1030, 1031)]
    gone = {seq for first, last in ranges for seq in range(first, last + 1)}
    whole = published()
    erase_bodies(FOLDER, whole, ranges)
    for killed_at in range(whole.steps):
        disk = published()
        disk.cut_at = killed_at
        with pytest.raises(PowerCut):
            erase_bodies(FOLDER, disk, ranges)
        disk.cut_at = None  # the process alone is gone: the machine still has all that it wrote
        erase_bodies(FOLDER, disk, ranges)
        assert content(disk.crash()) == files(gone), killed_at


def test_what_a_publication_has_left_unfinished_goes_too() -> None:
    disk = published()
    left = [FOLDER / f"{body_file(1)}.new", FOLDER / f"{body_piece(4, 6, 12)}.new"]
    for path in left:
        disk.names_now[path] = Inode(bytearray(encoded(range(1024, 1036))))
    erase_bodies(FOLDER, disk, [(300, 300), (1030, 1030)])
    assert not {*left} & {*disk.names_now}


def test_on_a_real_disk(tmp_path: Path) -> None:
    for path, found in files().items():
        place = tmp_path / path.relative_to(FOLDER)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found)
    erase_bodies(tmp_path, Disk(), [(2, 2), (600, 700)])
    for path, found in files({2, *range(600, 701)}).items():
        assert (tmp_path / path.relative_to(FOLDER)).read_bytes() == found
    assert not list(tmp_path.rglob("*.new"))


def test_what_is_not_published_yet_is_passed_over() -> None:
    assert erase_bodies(FOLDER, published(), [(1060, 5000)]) == 4
    assert erase_bodies(FOLDER, MemoryDisk(), [(0, 10)]) == 0


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"\x00\x00", "ends within a length, at byte 0"),
        (b"\x00\x00\x00\xffx", "the body at byte 0 would end at byte 259, the file has 5"),
        (b"\xff\xff\xff\xff", "would end at byte 4294967299"),
        (encoded(range(255)), "holds 255 bodies, not 256"),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(damaged: bytes, words: str) -> None:
    disk = published()
    disk.names_now[FOLDER / body_file(1)].now[:] = damaged
    with pytest.raises(TileError, match=words):
        erase_bodies(FOLDER, disk, [(300, 300)])
    assert bytes(disk.names_now[FOLDER / body_file(1)].now) == damaged


def test_a_failing_disk_leaves_the_old_file() -> None:
    for operation in ("create", "write", "sync", "rename"):
        disk = published()
        disk.fail(operation, errno.ENOSPC)
        with pytest.raises(OSError):
            erase_bodies(FOLDER, disk, [(300, 300)])
        assert content(disk) == files()
        assert not disk.handles
