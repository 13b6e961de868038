"""A real file system that is full, or read-only: a tmpfs of a few megabytes. Skipped where none can be mounted."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chain.errors import LedgerUnavailable
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Ledger, Tuning
from chain.verify.verify import verify
from tests.chain.twins.ledgers import Clock, draft
from tests.patience import HANG_S

WAIT_S = HANG_S


@pytest.fixture
def small() -> Iterator[Path]:
    """A file system of 12 MiB."""
    with tempfile.TemporaryDirectory(prefix="wt") as mount:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", mount], capture_output=True
        )
        if mounted.returncode != 0:
            pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
        try:
            yield Path(mount)
        finally:
            subprocess.run(["umount", mount], check=True)


def remount(mount: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(mount)], check=True)


def fill(mount: Path) -> Path:
    ballast = mount / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return ballast


def opened(directory: Path) -> Ledger:
    return Ledger.open(directory, load_keys(directory / "keys"), now_us=Clock(), tuning=Tuning(retry_s=0.02))


def made(mount: Path) -> Path:
    directory = mount / "node"
    directory.mkdir()
    create_keys(directory / "keys")
    return directory


async def filled_and_freed(mount: Path, directory: Path) -> tuple[int, str]:
    ledger = opened(directory)
    ledger.start(asyncio.get_running_loop())
    await ledger.commit([draft(0)], durable=True).durable()
    await ledger.publish()
    ballast = fill(mount)
    acknowledged, refusal = 1, ""
    while not refusal:
        try:
            await ledger.commit([draft(acknowledged)], durable=True).durable()
            acknowledged += 1
        except LedgerUnavailable as error:
            refusal = str(error)
    await ledger.barrier()
    while_full = verify(directory)
    assert [finding for finding in while_full.findings if finding.kind != "published"] == []
    assert while_full.entries >= acknowledged + 1
    ballast.unlink()
    while ledger.read_only is not None:
        await asyncio.sleep(0.01)
    await ledger.commit([draft(acknowledged)], durable=True).durable()
    await ledger.close()
    return acknowledged + 1, refusal


def test_a_full_disk_loses_nothing_says_so_in_the_ledger_and_goes_on_when_there_is_room(small: Path) -> None:
    directory = made(small)
    written, refusal = asyncio.run(asyncio.wait_for(filled_and_freed(small, directory), WAIT_S))
    assert "the disk is full" in refusal and "No space left on device" in refusal
    report = verify(directory)
    assert (report.findings, report.closed) == ([], True)
    assert report.entries == written + 2  # node.disk_full and node.disk_free


def test_a_read_only_file_system_can_be_verified_and_not_be_written(small: Path) -> None:
    directory = made(small)

    async def written() -> None:
        ledger = opened(directory)
        ledger.start(asyncio.get_running_loop())
        await ledger.commit([draft(0)], durable=True).durable()
        await ledger.close()

    asyncio.run(written())
    remount(small, "ro")
    assert verify(directory).findings == []
    with pytest.raises(OSError, match="Read-only file system"):
        opened(directory)
    remount(small, "rw")
    asyncio.run(written())
    report = verify(directory)
    assert (report.entries, report.findings) == (2, [])
