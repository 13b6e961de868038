"""What this user remembers of ledgers is on the disk when it is said to be."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from chain.merkle.head import TreeHead
from chain.notes.note import join_note
from tests.chain.twins.ledgers import KEYS
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


@cache
def head(size: int) -> bytes:
    text = TreeHead(KEYS.origin, size, bytes(32)).text()
    return join_note(text, KEYS.ed25519_line(text), KEYS.mldsa_line(text))


def test_what_was_published_is_remembered_beside_the_newest_head(tmp_path: Path) -> None:
    heads = KnownHeads(tmp_path)
    assert heads.remember(KEYS.origin, head(9), b"keys", head(7))
    assert (heads.note(KEYS.origin), heads.published(KEYS.origin)) == (head(9), head(7))
    assert not heads.remember(KEYS.origin, head(9), b"keys", head(9))
    assert not heads.remember(KEYS.origin, head(8), b"keys", head(8))
    assert (heads.note(KEYS.origin), heads.published(KEYS.origin)) == (head(9), head(9))


def test_a_head_that_an_older_version_kept_counts_as_published(tmp_path: Path) -> None:
    heads = KnownHeads(tmp_path)
    heads.remember(KEYS.origin, head(9), b"keys")
    heads.remember(KEYS.origin, head(10), b"keys", head(8))
    assert heads.published(KEYS.origin) is None


@pytest.mark.parametrize(
    ("size", "held_against", "behind"), [(6, 7, 9), (7, 7, 9), (8, 7, 9), (9, 9, 0), (10, 9, 0), (None, 9, 0)]
)
def test_a_copy_of_what_is_published_is_held_against_what_was_published(
    tmp_path: Path, size: int | None, held_against: int, behind: int
) -> None:
    """A data directory, for which no size is given, against the newest of all."""
    heads = KnownHeads(tmp_path)
    heads.remember(KEYS.origin, head(9), b"keys", head(7))
    assert heads.demanded(KEYS.origin, size) == (head(held_against), behind)
