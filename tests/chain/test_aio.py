from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest

import chain.aio
from chain.aio import AioDisk
from tests import lent_contexts
from tests.lent_contexts import LentContext
from tests.patience import HANG_S


@pytest.fixture(autouse=True)
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these contexts has been anybody's before."""
    monkeypatch.setattr(chain.aio, "_Context", lent_contexts.Context)


@pytest.fixture
def handle(tmp_path: Path) -> int:
    return AioDisk().create(tmp_path / "file")


def linux_has_it() -> bool:
    return AioDisk()._context is not None


def test_a_sync_is_waited_for_as_long_as_was_said_and_the_next_one_tells_the_rest(handle: int) -> None:
    disk = AioDisk()
    for at in range(20):
        disk.write(handle, at, b"x")
        if not disk.sync_within(handle, 0.0):
            assert linux_has_it() == (disk._begun == handle)
            disk.sync(handle)
        assert disk._begun == -1


@pytest.mark.skipif(not linux_has_it(), reason="no asynchronous I/O here")
def test_most_syncs_are_over_in_good_time(handle: int) -> None:
    disk = AioDisk()
    disk.write(handle, 0, b"x")
    until_s = time.monotonic() + HANG_S
    while not disk.sync_within(handle, 0.9):
        disk.sync(handle)  # else no other is begun
        assert time.monotonic() < until_s


def test_another_file_is_synced_while_one_is_under_way(handle: int, tmp_path: Path) -> None:
    disk = AioDisk()
    other = disk.create(tmp_path / "other")
    if not disk.sync_within(handle, 0.0):
        assert not disk.sync_within(other, 0.9)
    disk.sync(other)
    disk.sync(handle)
    assert disk._begun == -1


def test_a_handle_that_is_none_is_refused_by_the_sync_that_follows(handle: int) -> None:
    disk = AioDisk()
    os.close(handle)
    assert not disk.sync_within(handle, 0.9)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.sync(handle)


def test_what_the_kernel_says_of_a_sync_is_told_once(handle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [None, None, -5, 0]

    class Scripted:
        def submit(self, handle: int) -> bool:
            return True

        def result(self, within_s: float | None) -> int | None:
            return results.pop(0)

    monkeypatch.setattr(chain.aio, "_Context", Scripted)
    disk = AioDisk()
    assert not disk.sync_within(handle, 0.001)
    assert not disk.sync_within(handle, 0.001)  # one at a time
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(handle)
    assert disk.sync_within(handle, 0.001) and not results


def test_where_there_is_no_such_interface_the_disk_is_an_ordinary_one(
    handle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc")
    disk = AioDisk()
    assert not disk.sync_within(handle, 0.9)
    disk.sync(handle)


@pytest.mark.skipif(not linux_has_it(), reason="no asynchronous I/O here")
def test_a_context_is_lent_again_once_it_has_answered_and_never_to_a_child(handle: int) -> None:
    first = LentContext()
    kept = first._kept
    assert first.submit(handle) and first.result(None) == 0
    del first
    second = LentContext()
    assert second._kept is kept
    assert second.submit(handle)
    del second  # nobody has asked for the answer
    third = LentContext()
    assert third._kept is not kept
    del third
    if (child := os.fork()) == 0:
        os._exit(LentContext().submit(handle) is not True)
    assert os.waitpid(child, 0)[1] == 0
