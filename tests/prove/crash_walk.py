"""The crash walk: a ledger at work on a real disk is killed with SIGKILL at each call that writes, one run for each.

The same work as the power-cut walk's (appends, segments, heads, publication, snapshot and drop, change of keys, a
failing sync, a full disk, erasure, clean stop), in a process of its own that kills itself before its n-th writing call,
or in the middle of it when it is a write. The parent has heard what was promised, recovers what is left, and verifies
it.

    python -m tests.prove.crash_walk [--quick]
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgpack
from rich.console import Console

from chain.disk import Disk
from chain.journal.sequencer import Written
from chain.keys.rotation import vkeys_text
from chain.verify.verify import verify
from tests.prove.power_cut import NEW, OLD, ROOT, Expected, faults, goes_on, work_through
from tests.prove.recorded_disk import Content, CutState, WatchedDisk
from tests.prove.walks import Looked, run_alone, say_found, walk_calls

_WRITING = (
    "create", "create_new", "write", "truncate", "allocate", "sync", "rename", "remove",
    "remove_directory", "new_directory", "sync_directory",
)  # fmt: skip


class KillingDisk(WatchedDisk):
    """The real disk in ``root``. Kills its process before writing call number ``at``; ``midway``: when that is a write,
    with half of it done. ``say`` hears what is promised.
    """

    def __init__(self, root: Path, at: int, midway: bool, say: Callable[[Sequence[Any]], None]) -> None:
        self.root = root
        self._left = at
        self._midway = midway
        self._say = say
        self._failing: dict[str, int] = {}
        self._telling = threading.Lock()

    def telling(self) -> AbstractContextManager[object]:
        """The writer's thread may have an entry on the disk before the parent has heard of it."""
        return self._telling

    def mark(self, promise: bytes) -> None:
        self._say(["promise", promise])

    def fail(self, kind: str, code: int = errno.EIO) -> None:
        self._failing[kind] = code

    def heal(self) -> None:
        self._failing.clear()

    def _count(self, kind: str, half: Callable[[], None] = lambda: None) -> None:
        self._left -= 1
        if self._left < 0:
            if self._midway:
                half()
            self._telling.acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        if kind in self._failing:
            raise OSError(self._failing.pop(kind), f"{kind} fails on purpose")

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self._count("write", lambda: Disk.write(self, handle, offset, data[: len(data) // 2]))
        super().write(handle, offset, data)

    def sync_within(self, handle: int, within_s: float) -> bool:
        self.sync(handle)
        return True


def _counted(name: str) -> Callable[..., Any]:
    original = getattr(Disk, name)

    def call(self: KillingDisk, *values: Any) -> Any:
        self._count(name)
        return original(self, *values)

    return call


for _name in _WRITING:
    if _name != "write":
        setattr(KillingDisk, _name, _counted(_name))


class TellingExpected(Expected):
    """Tells the parent what was written before it is on the disk."""

    def __init__(self, say: Callable[[Sequence[Any]], None]) -> None:
        super().__init__()
        self._say = say

    def written(self, entries: Sequence[Written], key: str = "") -> None:
        super().written(entries, key)
        self._say(["written", key, [[written.entry.seq, written.leaf] for written in entries]])

    def erasing(self, first: int, last: int) -> None:
        super().erasing(first, last)
        self._say(["erasing", first, last])


def _child(root: Path, at: int, midway: bool, pipe: int) -> None:
    def say(words: Sequence[Any]) -> None:
        data = msgpack.packb(words)
        while data:
            data = data[os.write(pipe, data) :]

    disk = KillingDisk(root, at, midway, say)
    asyncio.run(work_through(disk, TellingExpected(say)))


def killed_run(root: Path, at: int, midway: bool) -> tuple[CutState, Expected, bool]:
    """Run the work, killed at that call. What is left, what was written, and whether it came to the kill at all."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(ours)
            _child(root, at, midway, theirs)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(theirs)
    expected, promises = Expected(), []
    unpacker = msgpack.Unpacker()
    with open(ours, "rb", buffering=0) as said:
        while data := said.read(65536):
            unpacker.feed(data)
            for words in unpacker:
                match words:
                    case ["promise", bytes() as promise]:
                        promises.append(promise)
                    case ["written", str() as key, [*entries]]:
                        expected.leaves.update((seq, leaf) for seq, leaf in entries)
                        if key:
                            expected.commits[key] = entries[-1][0]
                    case ["erasing", int() as first, int() as last]:
                        expected.erasing(first, last)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"the child failed by itself, killed at call {at}")
    where = f"killed {'within' if midway else 'before'} call {at}"
    return CutState(_content(root), tuple(promises), where), expected, os.WIFSIGNALED(status)


def _content(root: Path) -> Content:
    """What is in ``root``, as if it lay in the walk's own root."""
    content = Content({}, {}, {ROOT})
    for number, path in enumerate(sorted(root.rglob("*")), 1):
        place = ROOT / path.relative_to(root)
        if path.is_dir():
            content.directories.add(place)
        else:
            content.names[place] = number
            content.inodes[number] = path.read_bytes()
    return content


def look(at: int, midway: bool) -> tuple[list[str], bool]:
    """One run: what is wrong with what it left, and whether the kill came."""
    with tempfile.TemporaryDirectory(prefix="wc-", dir="/tmp") as directory:
        root = Path(directory)
        state, expected, killed = killed_run(root, at, midway)
        found = [f"{state.where}: {fault}" for fault in faults(state, expected)]
        if at % 5 == 0:
            found += [f"{state.where}: {fault}" for fault in goes_on(state, expected)]
        found += [f"{state.where}: {fault}" for fault in _verified(root)]
    return found, killed


def _verified(root: Path) -> Iterator[str]:
    """What verification says of the files as the kill left them."""
    (root / "keys").mkdir()
    pairs = (
        NEW.pairs
        if any(b"key.rotated" in path.read_bytes() for path in root.glob("journal/*.wj"))
        else OLD.pairs
    )
    (root / "keys" / "vkeys.txt").write_bytes(vkeys_text(pairs))
    for finding in verify(root, OLD.pair.text.split()).findings:
        yield f"verify: {finding.kind} at {finding.where}: {finding.expected[:60]} / {finding.found[:60]}"


def _look_twice(seed: str, at: int) -> Looked:
    """Killed before the call, and within it."""
    done = [look(at, midway) for midway in (False, True)]
    return Looked(len(done), [fault for found, _ in done for fault in found], all(came for _, came in done))


def prove_crashes(console: Console, seed: str, quick: bool) -> bool:
    """The walk, whole or every twelfth call of it; prints what it found."""
    started = time.monotonic()
    runs, found = walk_calls(console, "crash walk, writing calls killed at", _look_twice, seed, quick)
    console.print(
        f"  crash walk: {runs} runs, each killed at another writing call, {time.monotonic() - started:.0f} s",
        highlight=False,
    )
    return say_found(console, found, "no acknowledged entry is missing, and what is left verifies")


if __name__ == "__main__":
    sys.exit(run_alone(prove_crashes, __doc__, "each twelfth call"))
