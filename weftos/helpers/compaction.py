"""Keeps the journal short: has a snapshot made of its sealed segments, and then has them removed.

The snapshot is made by a process of its own (:mod:`weftos.helpers.compact`), so that it costs the node nothing but a
share of the processor. What a snapshot covers is in the published ledger before it is made, and a segment goes only
when both have what it held. Whatever fails is tried again later; the node runs on with a longer journal.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chain.disk import Disk
from chain.errors import ChainError
from chain.in_thread import in_thread
from chain.state.snapshot import discard_snapshot
from kernel.helper.offspring import OFFSPRING

LOOK_S = 1.0
RETRY_S = 60.0
MOST_DOUBLINGS = 4
MAX_WORDS = 500

Log = Callable[..., None]


class CompactionError(Exception):
    """A process of ours failed, or what its snapshot covers could not be removed; the message says why."""


class Compactable(Protocol):
    """What compaction needs of the ledger."""

    @property
    def sealed_bytes(self) -> int: ...

    @property
    def segment(self) -> tuple[int, bytes]: ...

    @property
    def snapshot_digest(self) -> bytes: ...

    async def place_snapshot(self, group: int, digest: bytes) -> None: ...

    async def publish(self) -> None: ...

    async def drop_before(self, group: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Child:
    """How the process is started. ``argv`` lacks the group."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path


class Compaction:
    """One node's. ``log(level, event, **fields)`` is told of each run."""

    def __init__(self, ledger: Compactable, data: Path, child: Child, compact_bytes: int, log: Log) -> None:
        self._ledger = ledger
        self._snapshots = data / "snapshot"
        self._child = child
        self._compact_bytes = compact_bytes
        self._log = log
        self._one = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look now and then whether there is enough to be worth it."""
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop; a run under way is ended, and has changed nothing or all."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        failures = 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if self._ledger.sealed_bytes >= self._compact_bytes:
                    await self.run_to(self._ledger.segment[0])
                    failures = 0
            except Exception as error:  # whatever it is: nothing else bounds the journal
                self._log("error", "the journal could not be compacted", why=str(error))
                failures += 1
                await asyncio.sleep(retry_s(failures))

    async def run_to(self, group: int) -> None:
        """Have everything before the segment that begins with ``group``, or a newer one, covered and removed.

        Raises CompactionError.
        """
        async with self._one:
            began = time.monotonic()
            try:
                present = self._ledger.segment
                await self._ledger.publish()  # so all that is before that segment, whatever begins meanwhile
                covered = await self._snapshot(group, *present)
                removed = await self._ledger.drop_before(covered["group"])
            except (ChainError, OSError) as error:
                raise CompactionError(str(error)) from error
            took_s = round(time.monotonic() - began, 3)
            self._log("info", "journal compacted", segments_removed=removed, took_s=took_s, **covered)

    async def _snapshot(self, wanted: int, group: int, checksum: bytes) -> dict[str, Any]:
        """Have one made of what the node itself has written before ``group``, and stand behind it."""
        if group < wanted:
            raise CompactionError(f"the present segment begins with group {group}, not yet with {wanted}")
        told = ["--group", str(group), "--checksum", checksum.hex()]
        if self._ledger.snapshot_digest:
            told += ["--snapshot", self._ledger.snapshot_digest.hex()]
        try:
            said = await run_child(Child([*self._child.argv, *told], self._child.env, self._child.cwd))
            covered: dict[str, Any] = json.loads(said)
            await self._ledger.place_snapshot(covered["group"], bytes.fromhex(covered["digest"]))
        finally:
            await self._discard()
        return covered

    async def _discard(self) -> None:
        """Remove what a run has left. It raises nothing, for it must not take the place of why the run ended: what it
        cannot remove the next run, or the next start, does.
        """
        try:
            await in_thread(discard_snapshot, self._snapshots, Disk())
        except (OSError, RuntimeError) as error:  # the second: no thread
            self._log("error", "what was left of a snapshot could not be removed", why=str(error))


def retry_s(failures: int) -> float:
    """How long after so many failures in a row it is tried again: each reads the snapshot and all closed segments."""
    return RETRY_S * 2.0 ** min(failures - 1, MOST_DOUBLINGS)


async def run_child(child: Child, told: bytes = b"") -> bytes:
    """Run a process to its end and return what it wrote. Raises CompactionError when it failed; a caller that is
    cancelled ends it.
    """
    run = _Run(child, told)
    done = asyncio.ensure_future(in_thread(run))
    try:
        status, said, complained = await asyncio.shield(done)
    except asyncio.CancelledError:
        run.end()
        await asyncio.gather(done, return_exceptions=True)
        raise
    except (OSError, RuntimeError) as error:  # the second: no thread
        raise CompactionError(f"cannot start {child.argv[3]}: {error}") from error
    if status:
        words = complained.decode("utf-8", "replace").strip()[-MAX_WORDS:]
        raise CompactionError(words or f"{child.argv[3]} ended with status {status}")
    return said


class _Run:
    """One run of a child, to be called in a thread that waits for it: whoever starts it there has what it takes to end
    it. (asyncio starts it first; what that lacks then to watch it, a thread or a descriptor, leaves it running.)
    """

    def __init__(self, child: Child, told: bytes) -> None:
        self._child = child
        self._told = told
        self._beginning = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def __call__(self) -> tuple[int, bytes, bytes]:
        """Its status and what it said on both ways. Raises OSError when it cannot be started."""
        process = self._begin()
        if process is None:
            return -signal.SIGKILL, b"", b""
        with process:
            try:
                said, complained = process.communicate(self._told)
            except BaseException:
                process.kill()
                raise
        return process.returncode, said, complained

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """Start it, unless it was ended before."""
        with OFFSPRING.birth() as born, self._beginning:
            if self._ended:
                return None
            self._process = subprocess.Popen(
                self._child.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(self._child.env),
                cwd=self._child.cwd,
            )
            try:
                born(self._process.pid)
            except OSError:
                with self._process:
                    self._process.kill()
                raise
            return self._process

    def end(self) -> None:
        """Kill it, or never start it. Any thread."""
        with self._beginning:
            self._ended = True
            if self._process is not None:
                self._process.kill()
