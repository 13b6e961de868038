"""What this user remembers of ledgers is on the disk when it is said to be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weftos.audit.known_heads import KnownHeads

ORIGIN = "weftos-abc"


def test_a_remembered_head_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a power cut takes back would let a rolled-back copy pass."""
    heads = tmp_path / "weftos" / "heads"
    synced: list[tuple[str, list[str]]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        path = os.readlink(f"/proc/self/fd/{handle}")
        synced.append((path, os.listdir(path) if os.path.isdir(path) else []))

    monkeypatch.setattr(os, "fsync", fsync)
    KnownHeads(heads).remember(ORIGIN, b"a head", b"keys")
    names = {f"{ORIGIN}.note", f"{ORIGIN}.vkeys"}
    assert [set(held) >= names for path, held in synced if path == str(heads)] == [True]
    assert [held for path, held in synced if path == str(heads.parent)] == [["heads"]]
