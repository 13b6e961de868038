"""Power cuts while keys are made and changed: the files are written to a real directory and recorded beside, each state
that a power cut could leave is put into a directory of its own, and a start must find the keys in force there.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.errors import ChainError
from chain.keys.key_change import adopt_keys, load_candidates, prepare_keys
from chain.keys.keys import Keys, create_keys, load_keys
from tests.prove.recorded_disk import CutState, RecordedDisk, cut_states

CREATED, PREPARED, ROTATED, ADOPTED = b"created", b"prepared", b"rotated", b"adopted"


class TeeDisk(RecordedDisk):
    """Does everything on the real disk too, under the same path, and reads from there."""

    def __init__(self, root: Path) -> None:
        RecordedDisk.__init__(self, root)
        self._real = Disk()
        self._handles_there: dict[int, int] = {}

    def _both(self, kind: str, path: Path) -> int:
        handle: int = getattr(RecordedDisk, kind)(self, path)
        self._handles_there[handle] = getattr(self._real, kind)(path)
        return handle

    def create_new(self, path: Path) -> int:
        return self._both("create_new", path)

    def open(self, path: Path) -> int:
        return self._both("open", path)

    def write(self, handle: int, offset: int, data: bytes) -> None:
        RecordedDisk.write(self, handle, offset, data)
        self._real.write(self._handles_there[handle], offset, data)

    def close(self, handle: int) -> None:
        RecordedDisk.close(self, handle)
        self._real.close(self._handles_there.pop(handle))


def _also(name: str) -> Any:
    recorded, real = getattr(RecordedDisk, name), getattr(Disk, name)

    def call(self: TeeDisk, *values: Any) -> None:
        recorded(self, *values)
        real(self, *values)

    return call


for _name in ("new_directory", "remove_directory", "rename", "remove"):
    setattr(TeeDisk, _name, _also(_name))


@dataclass(slots=True)
class KeyRun:
    """A recorded run: keys are made, then changed."""

    disk: TeeDisk
    old: Keys
    new: Keys


def record_keys(root: Path, killed: bool) -> KeyRun:
    """``killed``: whoever adopted the new keys was, before the new names were synced, and another start finishes it."""
    disk = TeeDisk(root)
    old = create_keys(root / "keys", disk)
    disk.mark(CREATED)
    new = prepare_keys(root, old, disk)
    disk.mark(PREPARED)
    disk.mark(ROTATED)  # here the entry that says so gets on the disk
    if killed:
        disk.fail("sync_directory")
        with suppress(OSError):
            adopt_keys(root, new, disk)
    adopt_keys(root, new, disk)
    disk.mark(ADOPTED)
    return KeyRun(disk, old, new)


def key_walk(seed: str) -> tuple[int, list[str]]:
    """How many states were looked at, and what is wrong with some."""
    count, found = 0, []
    for killed in (False, True):
        with tempfile.TemporaryDirectory(prefix="wtk-") as place:
            run = record_keys(Path(place).resolve(), killed)
            for state in cut_states(run.disk, random.Random(seed)):
                for fault in _faults(run, state):
                    found.append(f"keys, {state.where.replace(place, '')}: {fault}")
                count += 1
    return count, found


def _faults(run: KeyRun, state: CutState) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="wtk-") as place:
        root = Path(place)
        for directory in sorted(state.content.directories - {run.disk.root}):
            (root / directory.relative_to(run.disk.root)).mkdir(mode=0o700)
        for path, data in state.content.files().items():
            there = root / path.relative_to(run.disk.root)
            there.write_bytes(data)
            there.chmod(0o600)
        try:
            yield from _start(root, run, state)
        except ChainError as error:
            yield f"a start says {error}".replace(place, "")
    if ADOPTED in state.promises:
        for data in state.content.inodes.values():  # of removed files too: what lies on the disk
            if any(line in data for line in _secrets(run)):
                yield "a key that was to be destroyed still lies on the disk"


def _secrets(run: KeyRun) -> list[bytes]:
    """The lines of the old secret keys, as they were written first."""
    lines = [op.data for op in run.disk.operations if op.kind == "write" and len(op.data) == 45]
    return lines[:2]


def _start(root: Path, run: KeyRun, state: CutState) -> Iterator[str]:
    """What a start does, for each set of keys that may be in force. Raises ChainError."""
    if CREATED not in state.promises:
        if (root / "keys").exists():
            load_keys(root / "keys")
        return
    wanted = [run.new] if ROTATED in state.promises else [run.old]
    if PREPARED in state.promises and ROTATED not in state.promises:
        wanted.append(run.new)
    candidates = [keys.pairs for keys in load_candidates(root)]
    for keys in wanted:
        if keys.pairs not in candidates:
            yield f"keys number {len(keys.pairs) - 1} are not there any more"
    if wanted[-1].pairs in candidates:
        adopt_keys(root, wanted[-1], Disk())
        if load_keys(root / "keys").pairs != wanted[-1].pairs:
            yield "other keys were adopted"
        if sorted(path.name for path in root.glob("keys*") if ".new-" not in path.name) != ["keys"]:
            yield "keys were left behind"
